//! The leader's end of a shared engine: records become batches, and batches are written one after
//! the other, each under the leader's epoch and with the next sequence.
//!
//! Invariants:
//! - one write is under way at a time, the first of `sealed`; a write of which no answer came is
//!   written again with its sequence, so that it happens once;
//! - a batch counts as durable once the sink has said that it has it;
//! - what the sink has lost is written again, if it is kept here still; else nothing more is
//!   written or answered.

mod answers;
mod hand_over;
mod link;
mod replicas;

use crate::base::time::{Mono, Now};
use crate::engine::shared::batch::Batch;
use crate::engine::shared::field::{Field, Place};
use crate::engine::shared::limits::{
    BATCH_BYTES, OFFER_INTERVAL, PENDING_BYTES_MAX, RENEW_INTERVAL,
};
use crate::engine::shared::redis::{Requests, Role};
use crate::engine::shared::{Settings, redis};
use crate::journal::BatchSeq;
use crate::model::driver::{LogLine, Severity};
use crate::model::stats::SharedStats;
use hand_over::HandOver;
use link::{LeaderLink, Waits};
use replicas::Replicas;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Under what a leader begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Which jobs these are.
    pub birth: Vec<u8>,
    /// The epoch that this server has got.
    pub epoch: u64,
    /// The sequence of the last write.
    pub seq: u64,
    /// All ids given so far are below it.
    pub mark: u64,
}

/// A batch as it is written.
#[derive(Debug)]
struct Sealed {
    seq: BatchSeq,
    request: Vec<u8>,
    changes: u64,
}

/// What there is of a record beside its base.
#[derive(Clone, Copy, Debug, Default)]
struct Beside {
    state: bool,
    events: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    Closing,
    Closed,
    /// It has failed: another server leads.
    Fenced,
}

/// A time without the sink.
#[derive(Debug)]
struct Absence {
    since: Mono,
    is_logged: bool,
}

/// The sink of a server that leads.
#[derive(Debug)]
pub struct Leader {
    settings: Settings,
    requests: Requests,
    term: redis::Term,
    open: Batch,
    /// The open batch is written even if it is empty: answers rest on it.
    forced: bool,
    /// Always true but in tests.
    forces: bool,
    /// The sequence of the open batch.
    seq: BatchSeq,
    mark: u64,
    beside: HashMap<u64, Beside>,
    sealed: VecDeque<Sealed>,
    pending_bytes: usize,
    durable: BatchSeq,
    /// Batches that were accepted, the newest last.
    kept: VecDeque<Sealed>,
    kept_bytes: usize,
    link: LeaderLink,
    replicas: Replicas,
    /// What was answered to the write of which it is asked how many replicas have it.
    write_answer: Option<redis::Answer>,
    /// When the last write was sent.
    written: Mono,
    /// The sink refuses new jobs since its memory is full; when it is asked again.
    tight: Option<Mono>,
    /// The write under way says that it may be taken all the same.
    is_sent_tight: bool,
    /// No answer comes to what is to be written.
    away: Option<Absence>,
    /// Why the last write was refused for now, or the connection was lost.
    last_error: String,
    failure: Option<String>,
    stage: Stage,
    hand_over: Option<HandOver>,
    log: VecDeque<LogLine>,
    stats: SharedStats,
}

/// A duration as it is given in settings, about.
fn shown(time: Duration) -> String {
    if time < Duration::from_secs(10) && time.subsec_millis() > 0 {
        format!("{} ms", time.as_millis())
    } else {
        format!("{} s", time.as_secs())
    }
}

impl Leader {
    /// A leader that begins under this term. Its records beside base records are to be told by
    /// `note_loaded`.
    #[must_use]
    pub fn new(settings: Settings, begin: Begin) -> Self {
        let Begin { birth, epoch, seq, mark } = begin;
        let stats = SharedStats { epoch, ..SharedStats::default() };
        Self {
            requests: Requests::new(&settings),
            link: LeaderLink::new(settings.address.clone()),
            replicas: Replicas::new(settings.wait),
            write_answer: None,
            settings,
            term: redis::Term { birth, epoch },
            open: Batch::default(),
            forced: false,
            forces: true,
            seq: seq + 1,
            mark,
            beside: HashMap::new(),
            sealed: VecDeque::new(),
            pending_bytes: 0,
            durable: seq,
            kept: VecDeque::new(),
            kept_bytes: 0,
            written: Mono(0),
            tight: None,
            is_sent_tight: false,
            away: None,
            last_error: String::new(),
            failure: None,
            stage: Stage::Running,
            hand_over: None,
            log: VecDeque::new(),
            stats,
        }
    }

    /// A record with this field is there.
    pub(in crate::engine) fn note_loaded(&mut self, field: Field) {
        debug_assert!(
            self.open.is_empty() && self.sealed.is_empty(),
            "what was loaded is told before the first change"
        );
        match field {
            Field::Base(_) => {}
            Field::State(id) => self.beside.entry(id).or_default().state = true,
            Field::Event(id, number) => {
                let events = &mut self.beside.entry(id).or_default().events;
                *events = (*events).max(number + 1);
            }
        }
    }

    /// Adds a record to the open batch, and returns that batch. A leader that is closing or has
    /// failed adds nothing and returns [`BatchSeq::MAX`]. O(bytes).
    pub(in crate::engine) fn append(
        &mut self,
        place: Place,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> BatchSeq {
        if self.failure.is_some() || self.stage != Stage::Running {
            return BatchSeq::MAX;
        }
        debug_assert!(self.seq > self.durable, "a record goes into a batch that is not durable");
        self.stats.records += 1;
        match place {
            Place::Base(id) => {
                self.delete_beside(id.0);
                self.open.set(Field::Base(id.0), write);
            }
            Place::State(id) => {
                self.beside.entry(id.0).or_default().state = true;
                self.open.set(Field::State(id.0), write);
            }
            Place::Event(id) => {
                let events = &mut self.beside.entry(id.0).or_default().events;
                let field = Field::Event(id.0, *events);
                *events += 1;
                self.open.set(field, write);
            }
            Place::Gone(id) => {
                self.delete_beside(id.0);
                self.open.delete(Field::Base(id.0));
            }
        }
        self.seq
    }

    fn delete_beside(&mut self, id: u64) {
        let Some(beside) = self.beside.remove(&id) else { return };
        if beside.state {
            self.open.delete(Field::State(id));
        }
        for number in 0..beside.events {
            self.open.delete(Field::Event(id, number));
        }
    }

    /// An answer rests on the open batch, whatever is in it. Returns that batch.
    pub(in crate::engine) fn force(&mut self) -> Option<BatchSeq> {
        if !self.forces {
            return None;
        }
        if self.failure.is_some() || self.stage == Stage::Closed {
            return Some(BatchSeq::MAX);
        }
        debug_assert!(self.seq > self.durable, "an answer rests on a batch that is not durable");
        self.forced = true;
        Some(self.seq)
    }

    /// For tests: whether answers that rest on no record rest on the open batch.
    pub(in crate::engine) fn set_forces(&mut self, forces: bool) {
        self.forces = forces;
    }

    /// All ids given so far are below this one.
    pub(in crate::engine) fn raise_high_id(&mut self, mark: u64) {
        self.mark = self.mark.max(mark);
    }

    /// Ends a large batch between two commands.
    pub(in crate::engine) fn maybe_seal(&mut self) {
        if self.open.bytes() >= BATCH_BYTES {
            self.seal();
        }
    }

    fn seal(&mut self) {
        debug_assert_eq!(
            self.sealed.back().map_or(self.durable, |last| last.seq) + 1,
            self.seq,
            "batches are sealed in the order of their sequences"
        );
        debug_assert_ne!(self.stage, Stage::Closed, "a lead that was given back writes no more");
        let request = self.requests.write(&self.term, (self.seq, self.mark), &self.open);
        self.pending_bytes += request.len();
        let changes = self.open.len() as u64;
        self.sealed.push_back(Sealed { seq: self.seq, request, changes });
        self.open.clear();
        self.forced = false;
        self.seq += 1;
    }

    /// Whether there is room for a record of this many bytes.
    pub(in crate::engine) fn has_capacity(&self, bytes: usize) -> bool {
        let pending = self.pending_bytes + self.open.bytes();
        self.tight.is_none() && pending.saturating_add(bytes) <= PENDING_BYTES_MAX
    }

    /// Bytes of records that actions may write in a pass, and whether there will not be more.
    pub(in crate::engine) fn bulk_capacity(&self) -> (u64, bool) {
        let pending = (self.pending_bytes + self.open.bytes()) as u64;
        if self.tight.is_some() {
            return (0, true);
        }
        ((4 * BATCH_BYTES as u64).saturating_sub(pending), false)
    }

    pub(in crate::engine) fn durable(&self) -> BatchSeq {
        self.durable
    }

    pub(in crate::engine) fn next_batch(&self) -> BatchSeq {
        self.seq
    }

    pub(in crate::engine) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Whether another server leads by now.
    pub(in crate::engine) fn is_fenced(&self) -> bool {
        self.stage == Stage::Fenced
    }

    pub(in crate::engine) fn poll_log_line(&mut self) -> Option<LogLine> {
        self.log.pop_front()
    }

    fn note(&mut self, severity: Severity, text: String) {
        self.log.push_back(LogLine { severity, text });
    }

    fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
    }

    fn renew_interval(&self) -> Duration {
        let least = if self.hand_over.is_some() { OFFER_INTERVAL } else { RENEW_INTERVAL };
        least.min(self.settings.lease / 3)
    }

    /// Ends a pass: sends what there is to be sent, if nothing is under way.
    pub(in crate::engine) fn commit(&mut self, now: Now) {
        if self.failure.is_some() || self.stage == Stage::Closed {
            return;
        }
        self.maybe_seal();
        if let Some(why) = self.link.advance(now.mono) {
            self.link.drop_connection(now.mono);
            self.note_trouble(why, now.mono);
        }
        self.report_absence(now.mono);
        if !self.link.is_idle(now.mono) {
            return;
        }
        if self.replicas.is_due(now.mono) {
            self.replicas.note_asked(now.mono);
            return self.link.send(Role::question(), Waits::Role, now.mono);
        }
        let is_due = self.written.after(self.renew_interval()) <= now.mono;
        let has_changes = !self.open.is_empty() || self.forced;
        if self.sealed.is_empty() {
            if self.stage == Stage::Closing && !has_changes {
                let request = self.requests.resign(&self.term, Some(self.durable));
                return self.link.send(&request, Waits::Resign, now.mono);
            }
            if has_changes || is_due {
                self.seal();
            }
        }
        self.send_first(now.mono);
    }

    fn send_first(&mut self, now: Mono) {
        let Some(first) = self.sealed.front_mut() else { return };
        debug_assert_eq!(first.seq, self.durable + 1, "a batch is written behind the durable ones");
        debug_assert!(
            self.write_answer.is_none(),
            "the replicas of an earlier write are asked for"
        );
        let tight = self.tight.is_some_and(|again| again > now);
        Requests::set_tight(&mut first.request, tight);
        self.is_sent_tight = tight;
        let replicas = self.replicas.wanted();
        self.link.send(&first.request, Waits::Write(replicas > 0), now);
        if replicas > 0 {
            self.link.send_behind(&self.requests.wait(replicas));
        }
        self.written = now;
    }

    /// The sink is not there, or takes nothing now.
    fn note_trouble(&mut self, why: String, now: Mono) {
        self.away.get_or_insert(Absence { since: now, is_logged: false });
        self.last_error = why;
    }

    /// When the sink has been waited for long enough, if it is waited for.
    fn patience_end(&self) -> Option<Mono> {
        let begun = match (&self.away, self.link.waits()) {
            (Some(away), _) if away.is_logged => return None,
            (Some(away), _) => away.since,
            (None, Some((_, since))) => since,
            (None, None) => return None,
        };
        Some(begun.after(self.settings.patience))
    }

    /// Logs that the sink is away, once it has been for long.
    fn report_absence(&mut self, now: Mono) {
        if self.away.is_none()
            && let Some((_, since)) = self.link.waits()
            && self.patience_end().is_some_and(|end| end <= now)
        {
            self.note_trouble("no answer".to_owned(), since);
        }
        if let Some(away) = &mut self.away
            && !away.is_logged
            && away.since.after(self.settings.patience) <= now
        {
            away.is_logged = true;
            let text = format!(
                "the engine has been away for {}: requests are refused until it is there again, \
                 and clients that wait for the end of one are disconnected: {}",
                shown(self.settings.patience),
                self.last_error
            );
            self.note(Severity::Error, text);
        }
    }

    fn end_absence(&mut self, now: Mono) {
        self.link.succeeded();
        if let Some(away) = self.away.take()
            && away.is_logged
        {
            let seconds = now.until(away.since).as_secs();
            self.note(Severity::Info, format!("the engine is there again after {seconds} s"));
        }
    }

    /// Why nothing is carried out now, if that is so: the sink has been away for longer than it is
    /// waited for, or another server leads.
    pub(in crate::engine) fn unavailable(&self) -> Option<String> {
        if self.stage == Stage::Fenced {
            return Some("this server leads no more: ask the one that leads".to_owned());
        }
        self.away.as_ref().filter(|away| away.is_logged).map(|_| {
            format!(
                "the engine at {} has been away for longer than {} (--engine-patience)",
                self.settings.address,
                shown(self.settings.patience),
            )
        })
    }

    /// When the next pass is due at the latest.
    pub(in crate::engine) fn poll_timeout(&self) -> Option<Mono> {
        if self.failure.is_some() || self.stage == Stage::Closed {
            return None;
        }
        let has_changes = !self.sealed.is_empty()
            || !self.open.is_empty()
            || self.forced
            || self.stage == Stage::Closing;
        let renew = self.written.after(self.renew_interval());
        let renews = self.link.is_up() && self.link.waits().is_none();
        let renew = renews.then_some(renew);
        let timers = [self.link.poll_timeout(has_changes), renew, self.patience_end()];
        timers.into_iter().flatten().min()
    }

    /// Writes everything, and leads no more then.
    pub(in crate::engine) fn close(&mut self) {
        if self.stage == Stage::Running {
            self.stage = Stage::Closing;
        }
    }

    pub(in crate::engine) fn is_closed(&self) -> bool {
        self.stage == Stage::Closed || self.failure.is_some()
    }

    pub(in crate::engine) fn stats(&self) -> SharedStats {
        SharedStats {
            pending_bytes: (self.pending_bytes + self.open.bytes()) as u64,
            reconnects: self.link.reconnects,
            is_away: self.away.is_some(),
            replicas: self.replicas.connected().into(),
            waits_for: self.replicas.wanted().into(),
            is_full: self.tight.is_some(),
            ..self.stats.clone()
        }
    }

    pub(in crate::engine) fn check_invariants(&self) {
        assert!(self.durable < self.seq, "the open batch cannot be durable");
        let seqs: Vec<_> = self.sealed.iter().map(|batch| batch.seq).collect();
        let expected: Vec<_> = (self.durable + 1..self.seq).collect();
        assert_eq!(seqs, expected, "a batch is missing between the durable and the open one");
        let bytes = |batches: &VecDeque<Sealed>| {
            batches.iter().map(|batch| batch.request.len()).sum::<usize>()
        };
        assert_eq!(self.pending_bytes, bytes(&self.sealed), "unwritten bytes are miscounted");
        assert_eq!(self.kept_bytes, bytes(&self.kept), "the bytes of kept batches are miscounted");
        let pairs = self.kept.iter().zip(self.kept.iter().skip(1));
        let mut steps = pairs.map(|(batch, next)| next.seq - batch.seq);
        assert!(steps.all(|step| step == 1), "a batch is missing among those that are kept");
        let newest = self.kept.back().map(|batch| batch.seq);
        assert!(newest.is_none_or(|seq| seq == self.durable), "the last durable batch is kept");
    }
}
