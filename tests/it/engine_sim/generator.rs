//! The generator: random commands, mostly about jobs that exist.

use super::consumer_requests::random_request as consume;
use super::imports::foreign;
use super::indexed_requests::{IndexedRequest, STATES};
use super::manage_requests::{is_large, random_request as manage};
use super::requests::{PRIORITIES, QUEUES, Request};
use super::run_requests::{NativeJob, RunRequest, random_request as random_run_request};
use super::worker_requests::{random_constraint, random_request};
use crate::oracle::dependencies::Deps;
use crate::oracle::keys::Key;
use crate::oracle::types::{Load, Queue, Text};
use crate::oracle::{Job, Oracle};
use crate::rng::TestRng;
use jobcentre::model::command::Wait;
use jobcentre::model::id::{ClientId, JobId};
use jobcentre::model::job::{Encoding, JobOptions, LeaseEpoch, Priority, Retry, Status, TieBreak};
use jobcentre::model::manage::OnDuplicate;

/// How a run is inclined.
#[derive(Debug)]
pub(super) struct Profile {
    pub(super) steps: usize,
    pub(super) clients: usize,
    /// One step in this many is followed by a check of all invariants.
    pub(super) check: usize,
    /// Of a hundred steps, how many are preceded by a step of time, and how many of those are not
    /// followed by an expiry.
    pub(super) moving: usize,
    pub(super) lazy: usize,
    /// Of a hundred steps, how many end a client.
    pub(super) leaving: usize,
    queues: usize,
    priorities: Vec<Priority<'static>>,
    keys: usize,
    /// How many jobs are enough.
    crowd: usize,
    /// Milliseconds that options and waits may ask for.
    durations: Vec<u64>,
    /// In percent: how many commands put a job, how many jobs have options, are packets, are large,
    /// how many takes wait, and how many are pops.
    putting: usize,
    with_terms: usize,
    packets: usize,
    large: usize,
    waiting: usize,
    popping: usize,
    /// How many commands are about watched queues.
    watching: usize,
    /// How many are about work that is followed.
    working: usize,
    /// How many are of the native API.
    pub(super) managing: usize,
    /// How many are of clients that reserve by their connections.
    consuming: usize,
    /// Whether there are constraints.
    has_constraints: bool,
}

const KEYS: [&[u8]; 6] = [b"", b"k", b"ke", b"\x00", b"\xff\xfe", &[b'x'; 300]];

impl Profile {
    pub(super) fn draw(rng: &mut TestRng) -> Self {
        let big = rng.percent(3);
        let mut priorities = Vec::new();
        for _ in 0..rng.between(1, 5) {
            priorities.push(*rng.pick(&PRIORITIES));
        }
        if rng.percent(50) {
            priorities.push(Priority::Unselected);
        }
        let mut durations = vec![1, 2, 3];
        for _ in 0..rng.below(4) {
            durations.push(*rng.pick(&[1, 5, 10, 100, 10_000, 86_400_000, u64::MAX]));
        }
        let mut profile = Self {
            steps: if big { 1_200 } else { rng.between(40, 500) },
            clients: rng.between(1, 6),
            check: if big { 8 } else { 1 },
            moving: *rng.pick(&[5, 20, 50]),
            lazy: *rng.pick(&[0, 20, 50, 95]),
            leaving: *rng.pick(&[0, 1, 4]),
            queues: rng.between(1, QUEUES.len()),
            priorities,
            keys: rng.between(1, KEYS.len()),
            crowd: if big { 200 } else { *rng.pick(&[3, 10, 40]) },
            durations,
            putting: *rng.pick(&[20, 35, 50]),
            with_terms: *rng.pick(&[0, 30, 70, 100]),
            packets: *rng.pick(&[0, 30, 60, 100]),
            large: *rng.pick(&[0, 0, 5, 30, 60]),
            waiting: *rng.pick(&[10, 50, 90]),
            popping: *rng.pick(&[10, 40, 90]),
            watching: *rng.pick(&[0, 0, 3, 10, 40]),
            working: *rng.pick(&[0, 0, 10, 40, 60]),
            managing: 0,
            consuming: 0,
            has_constraints: rng.percent(50),
        };
        if profile.working > 0 {
            profile.lazy = 0;
        }
        if rng.percent(20) {
            // Pops wait behind large jobs that come to their end, noticed at once or later.
            profile.queues = rng.between(1, 2);
            profile.durations = vec![1, 2, 5, 20];
            (profile.with_terms, profile.large, profile.packets) = (50, 40, 0);
            (profile.waiting, profile.popping) = (90, 95);
            (profile.moving, profile.crowd) = (10, 40);
            profile.lazy = *rng.pick(&[0, 90]);
            (profile.watching, profile.working) = (0, 0);
        }
        profile
    }

    /// How many commands are of clients that reserve by their connections, and leases that are
    /// longer than the margin before their end.
    pub(super) fn draw_consumers(&mut self, rng: &mut TestRng) {
        self.consuming = *rng.pick(&[0, 0, 5, 20, 60]);
        if self.consuming > 0 {
            self.durations.extend([1_001, 1_500, 4_000]);
        }
    }

    /// What a client asks for.
    pub(super) fn ask(&self, rng: &mut TestRng, client: ClientId, oracle: &Oracle) -> Request {
        if self.has_constraints && self.working > 0 && rng.percent(5) {
            return Request::Work(random_constraint(rng));
        }
        if self.managing > 0 && rng.percent(self.managing) {
            if rng.percent(60) {
                return Request::Run(self.run_request(rng, client, oracle));
            }
            let queue = self.a_queue(rng);
            let request = manage(rng, (client, queue, self.queues), oracle, &self.durations);
            return Request::Manage(request);
        }
        if self.consuming > 0 && rng.percent(self.consuming) {
            let queues = (self.a_queue(rng), self.some_queues(rng));
            return Request::Consumer(consume(rng, client, queues, oracle, &self.durations));
        }
        let live = |job: &&Job| !matches!(job.status, Status::Completed | Status::Buried);
        let crowded = oracle.jobs.iter().filter(live).count() >= self.crowd;
        if rng.percent(self.watching) {
            return Request::Indexed(self.question(rng, client, oracle));
        }
        if rng.percent(self.working) {
            return Request::Work(random_request(rng, client, oracle, &self.durations));
        }
        if rng.percent(self.putting) {
            return match rng.below(3) {
                _ if !crowded => self.put(rng, oracle),
                0 => Request::Delete(an_id(rng, client, oracle)),
                1 => Request::Reserve { queues: self.some_queues(rng), wait: Wait::No },
                _ => Request::Pop { queues: self.some_queues(rng), wait: Wait::No },
            };
        }
        match rng.below(100) {
            0..32 if rng.percent(self.popping) => {
                Request::Pop { queues: self.some_queues(rng), wait: self.wait(rng) }
            }
            0..32 => Request::Reserve { queues: self.some_queues(rng), wait: self.wait(rng) },
            32..40 => Request::Subscribe(a_serial(rng, client, oracle), self.a_queue(rng)),
            40..43 => Request::Unsubscribe(a_serial(rng, client, oracle), self.a_queue(rng)),
            43..47 => Request::Delete(an_id(rng, client, oracle)),
            47..51 => {
                let limit = *rng.pick(&[0, 1, 2, 5, u32::MAX]);
                Request::KickQueue { queue: self.a_queue(rng), limit }
            }
            51..57 => Request::Kick(one_in(rng, client, oracle, Status::Buried)),
            57..67 => Request::Peek(an_id(rng, client, oracle)),
            _ => work(rng, client, oracle),
        }
    }

    fn question(&self, rng: &mut TestRng, client: ClientId, oracle: &Oracle) -> IndexedRequest {
        let queue = self.a_queue(rng);
        let id = an_id(rng, client, oracle);
        // Mostly of the right queue.
        let queue = match oracle.find(id.0) {
            Some(job) if rng.percent(90) => job.queue,
            _ => queue,
        };
        let [old, new] = [rng.below(STATES.len()), rng.below(STATES.len())];
        let state = rng.percent(70).then_some(old);
        let event = Text::new(format!("[{}]", rng.below(1_000)).as_bytes());
        match rng.below(40) {
            0..2 => IndexedRequest::Queues,
            2..5 => IndexedRequest::CreateQueue(self.a_queue(rng)),
            5 => IndexedRequest::DropQueue(queue),
            6..10 => IndexedRequest::List(queue),
            10..14 => {
                let limit = *rng.pick(&[None, None, Some(0), Some(1), Some(3), Some(u64::MAX)]);
                IndexedRequest::Find { queue, state, limit }
            }
            14..20 => IndexedRequest::Poll { queue, state, new },
            20..25 => IndexedRequest::Put { queue, text: event, state: new },
            25..29 => IndexedRequest::Show(queue, id),
            29..31 => IndexedRequest::Delete(queue, id),
            31..36 => IndexedRequest::CompareAndSetState { queue, id, old, new },
            _ => IndexedRequest::AppendEvent { queue, id, event },
        }
    }

    fn put(&self, rng: &mut TestRng, oracle: &Oracle) -> Request {
        let queue = self.a_queue(rng);
        let priority = *rng.pick(&self.priorities);
        let tie_break = if rng.percent(50) { TieBreak::Fifo } else { TieBreak::Lifo };
        // Where there are constraints a change must come to all jobs in one pass: a dozen large
        // ones is about all that it matches anew.
        let many = self.has_constraints
            && oracle.jobs.iter().filter(|job| is_large(&job.load)).count() > 9;
        let large_percent = if many { 0 } else { self.large };
        let load = if rng.percent(self.packets) {
            let key = *rng.pick(&KEYS[..self.keys]);
            let filler = if rng.percent(large_percent) { 66_000 } else { rng.below(20) };
            let key_len = u16::try_from(key.len()).unwrap();
            load(rng, Encoding::Packet { key_len }, key, filler)
        } else {
            let large = [65_514, 65_515, 65_516, 65_517, 70_000];
            let filler = if rng.percent(large_percent) { *rng.pick(&large) } else { rng.below(20) };
            let json = *rng.pick(&[Encoding::Json, Encoding::JsonLine]);
            load(rng, json, b"", filler)
        };
        let others: Vec<&Load> = oracle.jobs.iter().map(|job| &job.load).collect();
        let load = unlike(&load, &others);
        let options = rng.percent(self.with_terms).then(|| self.options(rng));
        Request::Put { queue, priority, tie_break, load, options }
    }

    /// Something of the native API about runs.
    fn run_request(&self, rng: &mut TestRng, client: ClientId, oracle: &Oracle) -> RunRequest {
        let live = |job: &&Job| !matches!(job.status, Status::Completed | Status::Buried);
        if rng.percent(25) && oracle.jobs.iter().filter(live).count() < self.crowd {
            let queue = self.a_queue(rng);
            if rng.percent(70) {
                return RunRequest::Put(queue, Box::new(self.native_job(rng, oracle)));
            }
            // Where there are constraints, few jobs may be large.
            let count = if self.has_constraints { rng.below(2) } else { rng.below(4) };
            let priority = self.native_job(rng, oracle).priority;
            // A waiter is shown the priority at the end of the command: none is raised by another.
            let job = |_| NativeJob { priority, ..self.native_job(rng, oracle) };
            let mut jobs: Vec<NativeJob> = (0..count).map(job).collect();
            for number in 1..jobs.len() {
                let (before, rest) = jobs.split_at_mut(number);
                let others: Vec<&Load> = before.iter().map(|job| &job.load).collect();
                rest[0].load = unlike(&rest[0].load, &others);
            }
            if self.managing == 0 {
                return RunRequest::PutMany(queue, jobs);
            }
            return match foreign(jobs, oracle, &self.durations) {
                // As often as an import keeps a group.
                Ok(jobs) if jobs.is_empty() => RunRequest::EndImport,
                Ok(jobs) => RunRequest::Import(queue, jobs),
                Err(jobs) => RunRequest::PutMany(queue, jobs),
            };
        }
        let queues = (self.some_queues(rng), self.wait(rng));
        let request = random_run_request(rng, client, queues, oracle, &self.durations);
        // The engine tells watchers of jobs that are over when it comes across them.
        match request {
            RunRequest::List(queue, state, limit) if self.managing > 0 && limit > 3 => {
                RunRequest::Export((limit == 4).then_some(queue), state)
            }
            RunRequest::AwaitEnd(id, _) if self.lazy > 0 => RunRequest::AwaitEnd(id, 0),
            request => request,
        }
    }

    fn native_job(&self, rng: &mut TestRng, oracle: &Oracle) -> NativeJob {
        let Request::Put { priority, load, options, .. } = self.put(rng, oracle) else {
            unreachable!("it puts")
        };
        let priority = match priority {
            Priority::Unselected => Priority::Small(0),
            priority => priority,
        };
        let options = options.unwrap_or_else(|| self.options(rng));
        let options = JobOptions { tracked: false, result_once: false, ..options };
        let key = rng.percent(50).then(|| Key {
            bytes: Text::new(["k", "\0", "another key"][rng.below(3)].as_bytes()),
            ttl_ms: if rng.percent(50) { (*rng.pick(&self.durations)).min(10_000) } else { 0 },
            on_duplicate: *rng.pick(&[
                OnDuplicate::Keep,
                OnDuplicate::Replace,
                OnDuplicate::Reject,
            ]),
            is_taken: true,
        });
        let deps = dependencies(rng, oracle);
        NativeJob { priority, load, options, key, deps }
    }

    fn options(&self, rng: &mut TestRng) -> JobOptions {
        let mut duration = |percent| {
            let some = rng.percent(percent);
            if some { *rng.pick(&self.durations) } else { 0 }
        };
        let [delay_ms, ttl_ms, lease_ms] = [duration(30), duration(40), duration(60)];
        let [keep_ms, bury_ms, first_ms, max_ms] =
            [duration(50), duration(40), duration(90), duration(90)];
        let waited_for = self.working > 0 || self.managing > 0;
        let most_jitter = if waited_for { 50 } else { 100 };
        let retry = rng.percent(60).then(|| Retry {
            limit: *rng.pick(&[0, 1, 2, 5, u32::MAX]),
            first_ms,
            factor: *rng.pick(&[0, 1, 2, 3, u32::MAX]),
            max_ms,
            // Chance may not decide whether a job waits at all where its end is waited for.
            jitter_percent: (*rng.pick(&[0, 0, 1, 25, 50, 100])).min(most_jitter),
        });
        let followed = self.working > 0 && rng.percent(70);
        let fetch_once = self.working > 0 && rng.percent(50);
        JobOptions {
            delay_ms,
            ttl_ms,
            lease_ms,
            retry,
            result_retention_ms: keep_ms,
            dead_retention_ms: bury_ms,
            tracked: followed,
            result_once: fetch_once,
            max_attempts: match self.managing {
                0 => 0,
                _ => *rng.pick(&[0, 0, 1, 2, 3, 10]),
            },
        }
    }

    fn wait(&self, rng: &mut TestRng) -> Wait {
        if !rng.percent(self.waiting) {
            return Wait::No;
        }
        match rng.below(5) {
            0..3 => Wait::Forever,
            3 => Wait::Milliseconds(*rng.pick(&self.durations)),
            _ => Wait::Milliseconds(0),
        }
    }

    fn a_queue(&self, rng: &mut TestRng) -> Queue {
        rng.below(self.queues)
    }

    /// None, one or several queues, some perhaps more than once.
    fn some_queues(&self, rng: &mut TestRng) -> Vec<Queue> {
        let count = if rng.percent(5) { 0 } else { rng.between(1, self.queues + 1) };
        (0..count).map(|_| self.a_queue(rng)).collect()
    }
}

/// Something about a job that the client holds, or believes to hold.
fn work(rng: &mut TestRng, client: ClientId, oracle: &Oracle) -> Request {
    let id = one_in(rng, client, oracle, Status::Reserved);
    let current = oracle.find(id.0).map_or(0, |job| job.lease);
    let lease = match rng.below(10) {
        0..5 => None,
        5..8 => Some(current),
        8 => Some(current.wrapping_sub(1)),
        _ => Some(*rng.pick(&[0, 1, current + 1])),
    };
    let lease = lease.map(LeaseEpoch);
    match rng.below(23) {
        0..4 => Request::Release(id, lease),
        4..7 => Request::Touch(id, lease),
        7..12 => Request::Finish(id, lease, a_load(rng)),
        12..19 => {
            let retry = rng.percent(80);
            Request::Fail { id, lease, retry, error: a_load(rng) }
        }
        _ => Request::Bury(id, lease),
    }
}

/// A result or an error.
pub(super) fn a_load(rng: &mut TestRng) -> Load {
    let encoding =
        *rng.pick(&[Encoding::Json, Encoding::JsonLine, Encoding::Packet { key_len: 3 }]);
    let filler = if rng.percent(2) { 70_000 } else { rng.below(60) };
    load(rng, encoding, b"", filler)
}

/// A payload that is no longer equal to one of the others: of two jobs with one payload the oracle
/// could not tell which one a pop was answered with.
fn unlike(load: &Load, others: &[&Load]) -> Load {
    let is_new = |text: &Text| others.iter().all(|other| other.text != *text);
    // No draw, so that what is drawn afterwards does not depend on it.
    let longer = |number: usize| {
        let number = if number == 0 { String::new() } else { number.to_string() };
        Text::new(&[load.text.bytes(), number.as_bytes()].concat())
    };
    // One more than there are others: not all of them are taken.
    let text = (0..=others.len()).map(longer).find(is_new).unwrap();
    Load { encoding: load.encoding, text }
}

/// A payload like no other, except that sometimes it is nothing but its key.
fn load(rng: &mut TestRng, encoding: Encoding, key: &[u8], filler: usize) -> Load {
    let mut bytes = key.to_vec();
    if filler > 0 {
        bytes.extend_from_slice(format!("{:020}", rng.seed()).as_bytes());
        bytes.resize(bytes.len() + filler, b'.');
    }
    let encoding = match encoding {
        Encoding::Packet { key_len } if usize::from(key_len) > bytes.len() => Encoding::Json,
        encoding => encoding,
    };
    Load { encoding, text: Text::new(&bytes) }
}

/// The serial of a reserve or pop that waits, or of any other request.
fn a_serial(rng: &mut TestRng, client: ClientId, oracle: &Oracle) -> u32 {
    let mine = oracle.waiters.iter().filter(|waiter| waiter.ticket.client == client);
    let mine: Vec<u32> = mine.map(|waiter| waiter.ticket.serial).collect();
    let other = oracle.waiters.first().map_or(0, |waiter| waiter.ticket.serial);
    if mine.is_empty() || rng.percent(10) { other } else { *rng.pick(&mine) }
}

/// A job in this status, if it is held mostly by this client.
pub(super) fn one_in(
    rng: &mut TestRng,
    client: ClientId,
    oracle: &Oracle,
    status: Status,
) -> JobId {
    let mine = |job: &&Job| job.status == status && job.holder.is_none_or(|it| it == client);
    let mine: Vec<u64> = oracle.jobs.iter().filter(mine).map(|job| job.id).collect();
    if mine.is_empty() || rng.percent(15) {
        return an_id(rng, client, oracle);
    }
    JobId(*rng.pick(&mine))
}

/// Any job, or one that is gone, or one that never was.
pub(super) fn an_id(rng: &mut TestRng, client: ClientId, oracle: &Oracle) -> JobId {
    let last = usize::try_from(oracle.last_id).unwrap();
    match rng.below(10) {
        0..7 if !oracle.jobs.is_empty() => JobId(rng.pick(&oracle.jobs).id),
        7 => *rng.pick(&[JobId::NEVER, JobId(1 << 53), JobId(u64::MAX)]),
        8 => one_of(rng, oracle, |job| job.holder.is_some_and(|holder| holder != client)),
        _ => JobId(rng.between(0, last + 2) as u64),
    }
}

fn one_of(rng: &mut TestRng, oracle: &Oracle, such: impl Fn(&Job) -> bool) -> JobId {
    let found: Vec<u64> = oracle.jobs.iter().filter(|job| such(job)).map(|job| job.id).collect();
    if found.is_empty() { JobId::NEVER } else { JobId(*rng.pick(&found)) }
}

/// What a job waits for: mostly jobs that are there.
fn dependencies(rng: &mut TestRng, oracle: &Oracle) -> Deps {
    if !rng.percent(50) {
        return Deps::default();
    }
    let last = usize::try_from(oracle.last_id).unwrap();
    let mut after = Vec::new();
    for _ in 0..*rng.pick(&[0, 1, 1, 1, 2, 3]) {
        let id = match rng.below(50) {
            0 => JobId::NEVER.0,
            1 => oracle.last_id + 1,
            2..8 if last > 0 => rng.between(1, last) as u64,
            _ if !oracle.jobs.is_empty() => rng.pick(&oracle.jobs).id,
            _ => continue,
        };
        if !after.contains(&id) {
            after.push(id);
        }
    }
    let mut name = |percent| {
        let some = rng.percent(percent);
        some.then(|| Text::new(["g", "h", "i", "j"][rng.below(4)].as_bytes()))
    };
    let group = name(25);
    let after_group = name(15).filter(|other| Some(other) != group.as_ref());
    Deps { after, group, after_group, runs_if_lost: rng.percent(40) }
}
