//! Paused queues: nothing is handed out of them, by no protocol.
//!
//! A paused queue is on hold ([`HoldMarks::PAUSED`]), so a reserve finds nothing in it and its
//! waiters are not matched. Its tracked jobs leave the global ready heap: those that become ready
//! do not enter it, the others leave it when they come to its head, so a pause costs O(log n)
//! however many there are. When the queue is resumed they come back, a bounded number in each
//! pass; until then a reserve of any tracked job may get a less urgent one.
//!
//! A pause is a record of the journal. Puts, delays and times to live go on, and a pop of a large
//! key group that has begun goes on too.
//!
//! Invariants: a queue is marked exactly if it has a pause; a queue that is neither paused nor
//! being resumed has no withheld jobs.

use crate::base::api_limits::PAUSED_QUEUES_MAX;
use crate::base::time::{Mono, Now};
use crate::base::timer_queue::TimerId;
use crate::model::id::{JobId, Ticket};
use crate::model::manage::ManageReply;
use crate::model::reply::Rejection;
use crate::model::snapshot::Record;
use crate::store::idx::{PauseIdx, QueueIdx, QueueScope};
use crate::store::record_tables::RecordTable;
use crate::store::spread_work::HoldMarks;
use crate::store::{DirtyRecord, Due, Effects, RecordKey, Store};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The pauses of all queues. See the module documentation.
#[derive(Debug, Default)]
pub(in crate::store) struct Pauses {
    records: RecordTable<QueueIdx, PauseIdx>,
    by_queue: BTreeMap<QueueIdx, Pause>,
    /// Queues that were resumed, and whose withheld jobs come back; each once.
    resuming: VecDeque<QueueIdx>,
}

/// The pause of one queue.
#[derive(Clone, Copy, Debug)]
struct Pause {
    record: PauseIdx,
    /// The moment of its end.
    timer: TimerId,
    /// Its length, if it is known and ends by itself.
    length_ms: Option<u64>,
}

/// Whole seconds until a moment, as they are left a little after now.
pub(in crate::store) fn whole_seconds_until(at: Mono, now: Now) -> u64 {
    at.until(now.mono).saturating_sub(Duration::from_nanos(1)).as_secs()
}

impl Pauses {
    /// How many queues are paused.
    pub(in crate::store) fn len(&self) -> usize {
        self.records.len()
    }

    /// The record with this id. O(log p).
    pub(in crate::store) fn find(&self, id: JobId) -> Option<PauseIdx> {
        self.records.find(id)
    }

    /// The ids of all records. O(p).
    pub(in crate::store) fn record_ids(&self) -> impl Iterator<Item = JobId> {
        self.records.iter().map(|(_, record)| record.id)
    }

    /// Queues that later passes go on with.
    pub(in crate::store) fn unfinished(&self) -> usize {
        self.resuming.len()
    }

    /// Whether withheld jobs of this queue are coming back. O(resumed queues): for checks.
    pub(in crate::store) fn is_resuming(&self, queue: QueueIdx) -> bool {
        self.resuming.contains(&queue)
    }

    /// Number of armed deadlines. O(p): for checks.
    pub(in crate::store) fn timers(&self) -> usize {
        self.by_queue.values().filter(|pause| !pause.timer.is_none()).count()
    }

    /// The deadline of a queue's pause. O(log p).
    pub(in crate::store) fn timer(&self, queue: QueueIdx) -> Option<TimerId> {
        self.by_queue.get(&queue).map(|pause| pause.timer)
    }
}

impl Store {
    /// Pauses a queue, which is made if there is none. O(name + log q + log d).
    pub(super) fn pause(
        &mut self,
        ticket: Ticket,
        name: &[u8],
        for_ms: Option<u64>,
        now: Now,
        fx: &mut Effects,
    ) {
        match self.set_pause(name, for_ms, now, fx) {
            Ok(queue) => {
                if let Some(interest) = &mut self.queues[queue].interest {
                    // It does not end with the queue's users.
                    interest.owns_pause = false;
                }
                self.answer_queue(ticket, queue, now, fx);
            }
            Err(rejection) => fx.reply(ticket, ManageReply::Rejected(rejection)),
        }
    }

    /// Pauses a queue, which is made if there is none, and returns it. O(name + log q + log d).
    pub(in crate::store) fn set_pause(
        &mut self,
        name: &[u8],
        for_ms: Option<u64>,
        now: Now,
        fx: &mut Effects,
    ) -> Result<QueueIdx, Rejection> {
        let known = self.queues.find(name).and_then(|queue| self.pauses.by_queue.get(&queue));
        let record = match known {
            Some(pause) => pause.record,
            None if self.ids.is_exhausted() || self.pauses.len() >= PAUSED_QUEUES_MAX => {
                return Err(Rejection::Full);
            }
            None => {
                let id = self.ids.take_hidden();
                self.begin_pause(id, name)
            }
        };
        let until = for_ms.map(|ms| now.mono.after(Duration::from_millis(ms)));
        self.set_pause_end(record, until);
        let (id, queue) = (self.pauses.records[record].id, self.pauses.records[record].place);
        if let Some(pause) = self.pauses.by_queue.get_mut(&queue) {
            pause.length_ms = for_ms;
        }
        fx.mark_dirty(DirtyRecord::Put(RecordKey::Pause(record), id));
        Ok(queue)
    }

    /// The length of a queue's pause and what is left of it, in whole seconds; without an end, the
    /// most that can be said. O(log p).
    pub(in crate::store) fn pause_seconds(&self, queue: QueueIdx, now: Now) -> Option<(u64, u64)> {
        let pause = self.pauses.by_queue.get(&queue)?;
        let Some(until) = self.paused_until(queue) else { return Some((u64::MAX, u64::MAX)) };
        let left_s = whole_seconds_until(until, now);
        Some((pause.length_ms.map_or(left_s + 1, |ms| ms / 1_000), left_s))
    }

    /// Ends the pause of a queue, if it has one. O(name + log q), and O(log n) for a bounded number
    /// of withheld jobs.
    pub(super) fn resume(&mut self, ticket: Ticket, name: &[u8], now: Now, fx: &mut Effects) {
        let Some(queue) = self.known_queue_or_answer(ticket, name, fx) else { return };
        self.end_pause(queue, fx);
        self.answer_queue(ticket, queue, now, fx);
    }

    /// The pause of a queue ends by itself.
    pub(in crate::store) fn pause_due(&mut self, queue: QueueIdx, fx: &mut Effects) {
        let pause = self.pauses.by_queue.get_mut(&queue).expect("a deadline is of a pause");
        debug_assert!(!pause.timer.is_none(), "a deadline fires that was armed");
        pause.timer = TimerId::NONE;
        self.end_pause(queue, fx);
    }

    /// Pauses a queue that is not paused, without an end. Returns the record. O(name + log q).
    fn begin_pause(&mut self, id: JobId, name: &[u8]) -> PauseIdx {
        let queue = self.queues.find_or_add(name);
        self.queues.list_name(queue);
        let record = self.pauses.records.insert(id, queue);
        let former = self
            .pauses
            .by_queue
            .insert(queue, Pause { record, timer: TimerId::NONE, length_ms: None });
        assert!(former.is_none(), "a queue is paused twice");
        debug_assert_eq!(
            self.pauses.records.len(),
            self.pauses.by_queue.len(),
            "a pause has one record"
        );
        self.queues[queue].holds.set(HoldMarks::PAUSED);
        record
    }

    /// Sets when a pause ends by itself. O(log p + log d).
    fn set_pause_end(&mut self, record: PauseIdx, until: Option<Mono>) {
        let queue = self.pauses.records[record].place;
        debug_assert!(
            self.queues[queue].holds.has(HoldMarks::PAUSED),
            "a queue with a pause is marked"
        );
        let pause = self.pauses.by_queue.get_mut(&queue).expect("the record is of a paused queue");
        if !pause.timer.is_none() {
            self.deadlines.cancel(std::mem::take(&mut pause.timer));
        }
        if let Some(at) = until {
            pause.timer = self.deadlines.arm(at, Due::Pause(queue));
        }
    }

    /// Takes the pause off a queue, if it has one, and returns its record and id. O(log q).
    fn remove_pause(&mut self, queue: QueueIdx) -> Option<(PauseIdx, JobId)> {
        let pause = self.pauses.by_queue.remove(&queue)?;
        if !pause.timer.is_none() {
            self.deadlines.cancel(pause.timer);
        }
        let entry = self.pauses.records.remove(pause.record);
        debug_assert_eq!(entry.place, queue, "a pause is of another queue");
        debug_assert_eq!(
            self.pauses.records.len(),
            self.pauses.by_queue.len(),
            "a pause goes with its record"
        );
        debug_assert!(
            self.queues[queue].holds.has(HoldMarks::PAUSED),
            "a queue with a pause is marked"
        );
        self.queues[queue].holds.clear(HoldMarks::PAUSED);
        self.queues.list_if_idle(queue);
        Some((pause.record, entry.id))
    }

    /// Ends the pause of a queue, if it has one: its waiters are matched at the end of the command.
    /// O(log q), and O(log n) for a bounded number of withheld jobs.
    pub(in crate::store) fn end_pause(&mut self, queue: QueueIdx, fx: &mut Effects) {
        let Some((record, id)) = self.remove_pause(queue) else { return };
        fx.mark_dirty(DirtyRecord::Gone(RecordKey::Pause(record), id));
        if self.global_ready.has_withheld(queue) && !self.pauses.resuming.contains(&queue) {
            self.pauses.resuming.push_back(queue);
            self.spread.begin_task();
            self.run_resumes();
        }
        self.constraints.schedule_released(&mut BTreeSet::from([queue]), true);
    }

    /// Brings withheld jobs of resumed queues back into the global ready heap, up to what is left
    /// of `SPREAD_STEPS_PER_PASS`. O(log n) for each.
    #[inline]
    pub(in crate::store) fn run_resumes(&mut self) {
        if !self.pauses.resuming.is_empty() {
            self.give_back_withheld();
        }
    }

    #[cold]
    fn give_back_withheld(&mut self) {
        while let Some(&queue) = self.pauses.resuming.front()
            && self.spread.steps_left() > 0
        {
            self.spread.spend(1);
            let is_paused = self.pauses.by_queue.contains_key(&queue);
            if is_paused || !self.global_ready.give_back_one(queue, &mut self.jobs) {
                self.pauses.resuming.pop_front();
                self.spread.end_task();
            }
        }
        self.constraints.schedule_match(QueueScope::Any);
    }

    /// When the pause of a queue ends by itself. O(log p).
    pub(super) fn paused_until(&self, queue: QueueIdx) -> Option<Mono> {
        let timer = self.pauses.timer(queue)?;
        (!timer.is_none()).then(|| self.deadlines.moment(timer))
    }

    /// The base record of a pause. O(log p).
    pub(in crate::store) fn pause_record(&self, record: PauseIdx) -> Record<'_> {
        let entry = &self.pauses.records[record];
        let until = self.paused_until(entry.place);
        Record::Pause(entry.id, &self.queues[entry.place].name, until)
    }

    /// Restores a pause, in place of the one with its id. O(name + log q + log d).
    pub fn restore_pause(&mut self, id: JobId, queue: &[u8], until: Option<Mono>) -> RecordKey {
        self.ids.skip_hidden(id);
        let known = self.pauses.find(id);
        let record = known.unwrap_or_else(|| self.begin_pause(id, queue));
        self.set_pause_end(record, until);
        RecordKey::Pause(record)
    }

    /// Recovery: removes the pause with this id, if there is one. Returns its record. O(log q), and
    /// O(log n) for each withheld job.
    pub(in crate::store) fn undo_pause(&mut self, id: JobId) -> Option<PauseIdx> {
        let record = self.pauses.find(id)?;
        let queue = self.pauses.records[record].place;
        self.remove_pause(queue);
        while self.global_ready.give_back_one(queue, &mut self.jobs) {}
        Some(record)
    }

    /// Asserts that marks, records and pauses agree. O(queues): for checks.
    pub(in crate::store) fn check_pauses(&self) {
        self.pauses.records.check_invariants();
        assert_eq!(self.pauses.by_queue.len(), self.pauses.len(), "a pause without a record");
        for (&queue, pause) in &self.pauses.by_queue {
            let place = self.pauses.records[pause.record].place;
            assert_eq!(place, queue, "the record of a pause is of another queue");
            assert!(self.queues[queue].is_listed(), "a paused queue is not listed");
        }
        for (number, queue) in self.queues.iter() {
            let is_marked = queue.holds.has(HoldMarks::PAUSED);
            let is_paused = self.pauses.by_queue.contains_key(&number);
            assert_eq!(is_marked, is_paused, "a mark of a pause is wrong");
        }
        let unique: BTreeSet<QueueIdx> = self.pauses.resuming.iter().copied().collect();
        assert_eq!(unique.len(), self.pauses.resuming.len(), "a queue is resumed twice at a time");
    }
}
