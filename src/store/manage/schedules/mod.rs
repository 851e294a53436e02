//! Schedules: jobs that are put at moments of the wall clock.
//!
//! All schedules share one deadline, which is on the monotonic clock: the earliest of their next
//! moments, at most a minute ahead, so that a wall clock that is set forward is noticed. When it is
//! due, schedules whose moments have passed *fire*, a bounded number in each pass, the earliest
//! first. However many moments of a schedule have passed, it fires once, and goes on with the first
//! moment that is still to come. A moment that is noticed late was missed: the schedule says
//! whether a job is put for it.
//!
//! If the wall clock was set back, next moments are computed again, a bounded number in each pass:
//! those of intervals always, those of cron expressions if it was set back by hours. Otherwise they
//! wait until the clock has come so far, and no moment comes twice.
//!
//! While schedules are *held*, because nothing can be put, their moments stay and are missed.
//!
//! A schedule is a record of the journal, written again when it fires, in the batch of its job, and
//! when its next moment is computed again: a moment that has put a job has passed after a restart,
//! and one that has not has been missed.
//!
//! Invariants: `by_moment` has exactly the schedules with a next moment; a paused schedule has
//! none; the deadline is armed if and only if there is a next moment or something to compute again.

mod commands;
mod fire;

use crate::base::paged::PagedSlab;
use crate::base::time::{Mono, Now, Wall};
use crate::base::timer_queue::TimerId;
use crate::model::id::JobId;
use crate::model::manage::PutOutcome;
use crate::model::rejection::Rejection;
use crate::model::schedule::{Schedule, ScheduleState, Timing};
use crate::model::snapshot::Record;
use crate::schedule::{Timetable, Zones};
use crate::store::idx::ScheduleIdx;
use crate::store::{Due, RecordKey, Store};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// A schedule without its texts: its entry, and its places in three ordered maps.
const SCHEDULE_MEMORY_BYTES: usize = 640;

/// All schedules. See the module documentation.
#[derive(Debug, Default)]
pub(in crate::store) struct Schedules {
    slots: PagedSlab<Entry, ScheduleIdx>,
    by_id: BTreeMap<u64, ScheduleIdx>,
    by_name: BTreeMap<Box<[u8]>, ScheduleIdx>,
    by_moment: BTreeSet<(Wall, ScheduleIdx)>,
    /// Whose next moment is computed again, because the wall clock was set back, or after a
    /// restart.
    recomputed: Vec<(ScheduleIdx, Passed)>,
    timer: TimerId,
    /// The last look at the clocks.
    looked: Now,
    hold: ScheduleHold,
    /// Moments up to this one have come while it was drained.
    drained_at: Wall,
    zones: Zones,
    /// Bytes of texts and payloads.
    content_bytes: usize,
}

/// Why schedules put nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScheduleHold {
    /// They put jobs.
    #[default]
    No,
    /// There is no space or memory for a job: a moment is missed if it is too late afterwards.
    NoSpace(Rejection),
    /// The server is drained: moments that come meanwhile are missed, however soon that ends.
    Drained,
}

impl ScheduleHold {
    /// By whether the server is drained, and whether jobs fit into memory and onto the disk.
    #[must_use]
    pub fn of(draining: bool, fits_memory: bool, fits_disk: bool) -> Self {
        match (draining, fits_memory, fits_disk) {
            (true, ..) => Self::Drained,
            (false, false, _) => Self::NoSpace(Rejection::MemoryFull),
            (false, true, false) => Self::NoSpace(Rejection::DiskFull),
            (false, true, true) => Self::No,
        }
    }
}

/// What a moment that has passed means for a schedule whose next moment is computed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passed {
    /// It stays, and fires.
    Fires,
    /// It is over.
    IsSkipped,
}

#[derive(Debug)]
struct Entry {
    id: JobId,
    schedule: Schedule,
    state: ScheduleState,
    /// `None`: the database of zones does not know its zone any more.
    timetable: Option<Timetable>,
    /// See [`ScheduleDetails::last_failure`](crate::model::schedule::ScheduleDetails).
    last_failure: Option<(Wall, PutOutcome)>,
}

impl Entry {
    /// The first moment after this one, of a schedule that is not paused.
    fn next_after(&self, after: Wall) -> Option<Wall> {
        let table = self.timetable.as_ref().filter(|_| !self.schedule.paused)?;
        table.next(after)
    }

    /// Notes what came of the put of a moment.
    fn note_put(&mut self, at: Wall, outcome: PutOutcome) {
        match outcome {
            PutOutcome::Added(id) => {
                self.state.last_run = Some((at, id));
                self.last_failure = None;
            }
            // What its schedule wants: the job of its key is there already.
            PutOutcome::Duplicate(_) => self.last_failure = None,
            PutOutcome::KeyTaken(_) | PutOutcome::Rejected(_) => {
                self.last_failure = Some((at, outcome));
            }
        }
    }
}

fn content_bytes(schedule: &Schedule) -> usize {
    let Schedule { name, timing, timezone, queue, job, job_text, .. } = schedule;
    let cron = if let Timing::Cron(text) = timing { text.len() } else { 0 };
    // The name is in the map too.
    2 * name.len() + cron + timezone.len() + queue.len() + job.payload.len() + job_text.len()
}

impl Schedules {
    pub(in crate::store) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The bytes that they take, nearly. O(1).
    pub(in crate::store) fn bytes(&self) -> usize {
        self.len() * SCHEDULE_MEMORY_BYTES + self.content_bytes
    }

    /// The state of a schedule.
    #[cfg(test)]
    pub(in crate::store) fn by_name_for_tests(&self, name: &[u8]) -> ScheduleState {
        self.slots[self.by_name[name]].state
    }

    /// The record with this id. O(log s).
    pub(in crate::store) fn find(&self, id: JobId) -> Option<ScheduleIdx> {
        self.by_id.get(&id.0).copied()
    }

    /// The ids of all records. O(s).
    pub(in crate::store) fn record_ids(&self) -> impl Iterator<Item = JobId> {
        self.by_id.keys().map(|&id| JobId(id))
    }

    /// The base record of a schedule. O(1).
    pub(in crate::store) fn record(&self, record: ScheduleIdx) -> Record<'_> {
        let entry = &self.slots[record];
        Record::Schedule(entry.id, Cow::Borrowed(&entry.schedule), entry.state)
    }

    /// The deadline of all schedules.
    pub(in crate::store) fn timer(&self) -> TimerId {
        self.timer
    }

    /// Number of armed deadlines: for checks.
    pub(in crate::store) fn timers(&self) -> usize {
        usize::from(!self.timer.is_none())
    }

    /// The moments that the timing of a schedule means. O(bytes + log zones).
    fn timetable(&mut self, schedule: &Schedule, anchor: Wall) -> Option<Timetable> {
        match &schedule.timing {
            &Timing::EveryMs(ms) => (ms > 0).then(|| Timetable::every(ms, anchor)),
            Timing::Cron(text) => {
                let zone = self.zones.find(&schedule.timezone)?;
                Timetable::cron(text, zone).ok()
            }
        }
    }

    /// Adds a schedule without a next moment. O(bytes + log s).
    fn insert(&mut self, id: JobId, schedule: Schedule, state: ScheduleState) -> ScheduleIdx {
        let state = ScheduleState { next: None, ..state };
        let timetable = self.timetable(&schedule, state.anchor);
        self.content_bytes += content_bytes(&schedule);
        let name = schedule.name.clone();
        let place = self.slots.insert(Entry { id, schedule, state, timetable, last_failure: None });
        let former = self.by_id.insert(id.0, place);
        assert!(former.is_none(), "an id was given out twice");
        let former = self.by_name.insert(name, place);
        assert!(former.is_none(), "two schedules have one name");
        debug_assert!(
            self.slots.len() == self.by_id.len() && self.slots.len() == self.by_name.len(),
            "a schedule has one id and one name"
        );
        place
    }

    /// Puts another definition and state in place of those of a schedule, whose name stays, and
    /// takes its next moment from it. O(bytes + log s).
    fn replace(&mut self, place: ScheduleIdx, schedule: Schedule, state: ScheduleState) {
        self.set_next(place, None);
        let timetable = self.timetable(&schedule, state.anchor);
        let bytes = content_bytes(&schedule);
        let entry = &mut self.slots[place];
        debug_assert_eq!(entry.schedule.name, schedule.name, "a schedule keeps its name");
        let former = content_bytes(&entry.schedule);
        *entry = Entry {
            id: entry.id,
            schedule,
            state: ScheduleState { next: None, ..state },
            timetable,
            last_failure: None,
        };
        self.content_bytes = self.content_bytes + bytes - former;
    }

    /// Removes a schedule, and returns its id. O(log s).
    fn remove(&mut self, place: ScheduleIdx) -> JobId {
        self.set_next(place, None);
        let entry = self.slots.remove(place).expect("a schedule is removed twice");
        let (by_id, by_name) =
            (self.by_id.remove(&entry.id.0), self.by_name.remove(&entry.schedule.name));
        debug_assert_eq!(
            (by_id, by_name),
            (Some(place), Some(place)),
            "a schedule is found by its id and by its name"
        );
        debug_assert!(
            self.content_bytes >= content_bytes(&entry.schedule)
                && self.by_moment.len() <= self.slots.len(),
            "a schedule is counted, and goes with its next moment"
        );
        self.content_bytes -= content_bytes(&entry.schedule);
        entry.id
    }

    /// Sets the next moment of a schedule. O(log s).
    fn set_next(&mut self, place: ScheduleIdx, next: Option<Wall>) {
        let former = std::mem::replace(&mut self.slots[place].state.next, next);
        if let Some(at) = former {
            let was_there = self.by_moment.remove(&(at, place));
            debug_assert!(was_there, "a schedule is found by its next moment");
        }
        if let Some(at) = next {
            let is_new = self.by_moment.insert((at, place));
            debug_assert!(is_new, "a schedule has one next moment");
        }
    }
}

impl Store {
    /// Restores a schedule, in place of the one with its id. O(bytes + log s).
    pub fn restore_schedule(
        &mut self,
        id: JobId,
        schedule: Schedule,
        state: ScheduleState,
    ) -> RecordKey {
        self.ids.skip_hidden(id);
        let table = &mut self.schedules;
        let place = match table.find(id) {
            Some(place) => {
                table.replace(place, schedule, state);
                place
            }
            None => table.insert(id, schedule, state),
        };
        table.set_next(place, state.next);
        RecordKey::Schedule(place)
    }

    /// Recovery: removes the schedule with this id, if there is one. Returns its record.
    /// O(log s).
    pub(in crate::store) fn undo_schedule(&mut self, id: JobId) -> Option<ScheduleIdx> {
        let place = self.schedules.find(id)?;
        self.schedules.remove(place);
        Some(place)
    }

    /// Ends the restoration: moments that have passed were missed. In the first passes those fire
    /// that are made up for, and the other schedules get a moment to come, which is recorded.
    /// O(s (log s + days until their next moments)).
    pub(in crate::store) fn finish_schedules(&mut self, now: Now) {
        let table = &mut self.schedules;
        for &place in table.by_id.values() {
            let entry = &table.slots[place];
            let keeps = match entry.state.next {
                Some(at) if at <= now.wall => !entry.schedule.skips_missed,
                Some(_) => !fire::is_set_back(entry, now.wall),
                None => false,
            };
            if !keeps && entry.next_after(now.wall) != entry.state.next {
                table.recomputed.push((place, Passed::IsSkipped));
            }
        }
        self.arm_schedules(now);
    }

    /// Arms the deadline of all schedules anew. O(log d).
    fn arm_schedules(&mut self, now: Now) {
        let table = &mut self.schedules;
        if table.timer.is_none() {
            table.looked = now;
        } else {
            self.deadlines.cancel(std::mem::take(&mut table.timer));
        }
        if let Some(at) = table.next_look(now) {
            table.timer = self.deadlines.arm(at, Due::Schedules);
        }
        debug_assert_eq!(
            table.timer.is_none(),
            table.by_moment.is_empty() && table.recomputed.is_empty(),
            "a deadline is armed while there is a next moment, or one to compute again"
        );
    }

    /// The bytes that the schedules put that fire in this pass, if there are some: nothing may be
    /// put without asking for space. O(schedules of a pass).
    #[must_use]
    pub fn due_schedule_bytes(&self, now: Now) -> Option<usize> {
        self.schedules.due_bytes(now)
    }

    /// Says whether schedules put jobs from now on.
    pub fn hold_schedules(&mut self, hold: ScheduleHold) {
        self.schedules.hold = hold;
    }

    /// Asserts that the maps of schedules agree. O(s log s): for checks.
    pub(in crate::store) fn check_schedules(&self) {
        let table = &self.schedules;
        let mut moments = BTreeSet::new();
        let mut bytes = 0;
        for (place, entry) in table.slots.iter() {
            assert_eq!(table.find(entry.id), Some(place), "a schedule is not found by its id");
            let named = table.by_name.get(&entry.schedule.name).copied();
            assert_eq!(named, Some(place), "a schedule is not found by its name");
            assert!(entry.state.next.is_none() || !entry.schedule.paused, "it is paused");
            moments.extend(entry.state.next.map(|at| (at, place)));
            bytes += content_bytes(&entry.schedule);
        }
        assert_eq!(table.by_moment, moments, "the moments of schedules differ");
        assert_eq!(table.slots.len(), table.by_id.len(), "ids and schedules differ in number");
        assert_eq!(table.slots.len(), table.by_name.len(), "names and schedules differ in number");
        assert_eq!(table.content_bytes, bytes, "the bytes of schedules are counted wrongly");
        let waits = !table.by_moment.is_empty() || !table.recomputed.is_empty();
        assert_eq!(!table.timer.is_none(), waits, "the deadline of schedules is armed wrongly");
    }
}

/// The moment of the next pass at the earliest.
fn next_pass(now: Now) -> Mono {
    Mono(now.mono.0.saturating_add(1))
}
