//! The jobs whose lateness is measured: their options, due moments and arrivals.

use crate::client::Client;
use jobcentre::base::rng::Rng;
use std::fmt::Write as _;
use std::time::Instant;

/// What a job is put with, and so what must become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It has a delay, and is delivered after it.
    Delayed,
    /// The same, with a time to live that never ends here.
    DelayedWithTtl,
    /// It has a time to run, is taken at once and held, and is delivered when the lease is over.
    Held,
    /// Its time to live is shorter than its delay: it never comes.
    Cut,
    /// It has only a ttl, in a queue without workers: it expires.
    Expiring,
}

/// Of ten jobs.
const MIX: [Kind; 10] = [
    Kind::Delayed,
    Kind::Delayed,
    Kind::Delayed,
    Kind::Delayed,
    Kind::Delayed,
    Kind::DelayedWithTtl,
    Kind::Held,
    Kind::Held,
    Kind::Cut,
    Kind::Expiring,
];

impl Kind {
    /// Whether a worker gets it.
    pub(super) fn comes(self) -> bool {
        matches!(self, Self::Delayed | Self::DelayedWithTtl | Self::Held)
    }

    pub(super) fn queue(self) -> &'static str {
        match self {
            Self::Delayed | Self::DelayedWithTtl | Self::Cut => DELAYED,
            Self::Held => HELD,
            Self::Expiring => EXPIRING,
        }
    }
}

pub(super) const DELAYED: &str = "delayed";
pub(super) const HELD: &str = "held";
pub(super) const EXPIRING: &str = "mortal";

/// One job. Times are nanoseconds since the start of the measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) kind: Kind,
    /// Never later than the server's own idea of it: counted from before its request was sent.
    pub(super) due: u64,
    pub(super) came: Option<u64>,
}

/// All jobs of a run, and its clock.
#[derive(Debug)]
pub(super) struct Jobs {
    start: Instant,
    first_id: u64,
    list: Vec<Job>,
}

/// What is due and how, for the whole run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) count: usize,
    /// The due times are spread at random over so long.
    pub(super) spread_ms: u64,
}

impl Plan {
    /// Nothing is due before everything is put: that must be done by then.
    fn lead_ms(self) -> u64 {
        (self.count as u64 / 100).max(500)
    }
}

/// Jobs that are put, or taken, by one write. Every batch waits for the answers to the one before,
/// so that the server sleeps when it comes and its clock for it is not older than ours.
const BATCH: usize = 256;

/// Longer than any run.
pub(super) const NEVER_MS: u64 = 3_600_000;

pub(super) const MILLISECOND: u64 = 1_000_000;

impl Jobs {
    /// Puts all jobs, and has `client` hold those that are to be held.
    pub(super) fn put(client: &mut Client, plan: Plan) -> Result<Self, String> {
        let mut jobs =
            Self { start: Instant::now(), first_id: 0, list: Vec::with_capacity(plan.count) };
        let mut rng = Rng::new(0x1a7e);
        while jobs.list.len() < plan.count {
            if jobs.now() > plan.lead_ms() * MILLISECOND {
                return Err(format!(
                    "{} of {} jobs are put after {} ms, when the first is due: this machine is \
                     too slow for so many",
                    jobs.list.len(),
                    plan.count,
                    plan.lead_ms()
                ));
            }
            let count = BATCH.min(plan.count - jobs.list.len());
            jobs.put_batch(client, plan, count, &mut rng)?;
        }
        Ok(jobs)
    }

    /// Now, on the clock of the jobs.
    pub(super) fn now(&self) -> u64 {
        // Centuries fit.
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Job> {
        self.list.iter()
    }

    fn put_batch(
        &mut self,
        client: &mut Client,
        plan: Plan,
        count: usize,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let first = self.list.len();
        let now = self.now();
        let mut lines = String::new();
        // Milliseconds from now until each held job is due.
        let mut leases = Vec::new();
        for place in first..first + count {
            let kind = MIX[place % MIX.len()];
            let lead = plan.lead_ms() * MILLISECOND;
            let target = lead + rng.below(plan.spread_ms * MILLISECOND);
            let wait = (target.saturating_sub(now) / MILLISECOND).max(1);
            // What is due first is the most urgent: where the server or the workers fall behind,
            // everything is late alike, and nothing is overtaken again and again.
            let priority = NEVER_MS - target / MILLISECOND;
            write_put(&mut lines, place, kind, wait, priority);
            if kind == Kind::Held {
                leases.push((place, wait));
            }
            self.list.push(Job { kind, due: wait * MILLISECOND, came: None });
        }
        let sent = self.now();
        let ids = client.ids(&lines, count)?;
        if first == 0 {
            self.first_id = ids[0];
        }
        for (place, id) in (first..).zip(ids) {
            if id != self.first_id + place as u64 {
                return Err(format!("the ids do not rise one by one: {id}"));
            }
            self.list[place].due += sent;
        }
        self.hold(client, &leases)
    }

    /// Takes the jobs of these places and does nothing with them.
    fn hold(&mut self, client: &mut Client, leases: &[(usize, u64)]) -> Result<(), String> {
        let line = format!("{{\"request\":\"get\",\"queues\":[\"{HELD}\"]}}\n");
        let sent = self.now();
        let mut held = client.ids(&line.repeat(leases.len()), leases.len())?;
        held.sort_unstable();
        let put = leases.iter().map(|&(place, _)| self.first_id + place as u64);
        if !put.eq(held.iter().copied()) {
            return Err(format!("other jobs than those put were handed out: {held:?}"));
        }
        for &(place, wait) in leases {
            self.list[place].due = sent + wait * MILLISECOND;
        }
        Ok(())
    }

    /// A job has come.
    pub(super) fn arrive(&mut self, id: u64, at: u64) -> Result<(), String> {
        let place = id.checked_sub(self.first_id).and_then(|place| usize::try_from(place).ok());
        let job = place.and_then(|place| self.list.get_mut(place));
        let job = job.ok_or_else(|| format!("job {id} was delivered and never put"))?;
        if !job.kind.comes() {
            return Err(format!("job {id} was delivered after its time to live ({:?})", job.kind));
        }
        if at < job.due {
            let early = (job.due - at) / 1000;
            return Err(format!("job {id} ({:?}) came {early} us before its time", job.kind));
        }
        if job.came.replace(at).is_some() {
            return Err(format!("job {id} ({:?}) came twice", job.kind));
        }
        Ok(())
    }
}

fn write_put(lines: &mut String, number: usize, kind: Kind, wait: u64, priority: u64) {
    let options = match kind {
        Kind::Delayed => format!("\"delay\":{wait}"),
        Kind::DelayedWithTtl => format!("\"delay\":{wait},\"ttl\":{NEVER_MS}"),
        Kind::Held => format!("\"ttr\":{wait}"),
        Kind::Cut => format!("\"delay\":{wait},\"ttl\":{}", (wait / 2).max(1)),
        Kind::Expiring => format!("\"ttl\":{wait}"),
    };
    let job = format!("{{\"n\":{number},\"text\":\"a job of a usual size, which has some time\"}}");
    let queue = kind.queue();
    // Strings grow.
    let _ = writeln!(
        lines,
        "{{\"request\":\"put\",\"queue\":\"{queue}\",\"job\":{job},\"pri\":{priority},{options}}}"
    );
}
