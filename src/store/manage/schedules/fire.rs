//! Schedules whose moments have come.

use super::{Entry, Passed, ScheduleHold, Schedules, next_pass};
use crate::base::api_limits::{
    CLOCK_SET_BACK_MS, MOMENT_MISSED_AFTER_MS, MOMENTS_COME_AGAIN_AFTER_MS,
    SCHEDULED_BYTES_PER_PASS, SCHEDULES_PER_PASS, WALL_CLOCK_CHECKED,
};
use crate::base::time::{Mono, Now, Wall};
use crate::base::timer_queue::TimerId;
use crate::model::id::JobId;
use crate::model::job::Status;
use crate::model::manage::{NewJob, PutOutcome};
use crate::model::rejection::Rejection;
use crate::model::schedule::Timing;
use crate::schedule::Timetable;
use crate::store::idx::ScheduleIdx;
use crate::store::{DirtyRecord, Effects, RecordKey, Store};
use std::time::Duration;

/// How soon held schedules are looked at again.
const HELD_LOOK: Duration = Duration::from_secs(1);

/// Whether the wall clock seems to be set back since a schedule was computed: an interval waits for
/// more than its length, the last run is hours ahead, or one that has never run passes over a
/// moment. O(1), and for the last O(days until its next moment).
pub(super) fn is_set_back(entry: &Entry, wall: Wall) -> bool {
    let behind = |at: Wall, ms: u64| at.0.saturating_sub(wall.0) > ms;
    match entry.schedule.timing {
        Timing::EveryMs(ms) => entry.state.next.is_some_and(|at| behind(at, ms)),
        Timing::Cron(_) => match entry.state.last_run {
            Some((at, _)) => behind(at, MOMENTS_COME_AGAIN_AFTER_MS),
            None => entry.next_after(wall).is_some_and(|next| Some(next) < entry.state.next),
        },
    }
}

impl Schedules {
    /// A copy of what a schedule puts: the queue and the job.
    pub(super) fn put_of(&self, place: ScheduleIdx) -> (Box<[u8]>, NewJob) {
        let schedule = &self.slots[place].schedule;
        (schedule.queue.clone(), schedule.job.clone())
    }

    /// When the clocks are looked at next. O(log s).
    pub(super) fn next_look(&self, now: Now) -> Option<Mono> {
        if !self.recomputed.is_empty() {
            return Some(next_pass(now));
        }
        let &(at, _) = self.by_moment.first()?;
        let wait = Duration::from_millis(at.0.saturating_sub(now.wall.0));
        if wait.is_zero() {
            return Some(match self.hold {
                ScheduleHold::No => next_pass(now),
                ScheduleHold::NoSpace(_) | ScheduleHold::Drained => now.mono.after(HELD_LOOK),
            });
        }
        Some(now.mono.after(wait.min(WALL_CLOCK_CHECKED)))
    }

    /// Whether a moment of a schedule that has come puts nothing because it was missed: it is
    /// late, or came while the server was drained.
    pub(super) fn skips(&self, entry: &Entry, at: Wall, wall: Wall) -> bool {
        let is_late = wall.0.saturating_sub(at.0) > MOMENT_MISSED_AFTER_MS;
        let is_drained = self.hold == ScheduleHold::Drained || at <= self.drained_at;
        entry.schedule.skips_missed && (is_late || is_drained)
    }

    /// The newest moment of a schedule that has come, if it was not missed, as earlier ones were.
    /// O(moments that are in time, days until them).
    pub(super) fn newest_in_time(&self, entry: &Entry, wall: Wall) -> Option<Wall> {
        let from = Wall(wall.0.checked_sub(MOMENT_MISSED_AFTER_MS + 1)?);
        let next = |at: &Wall| entry.next_after(*at).filter(|next| *next <= wall);
        let newest = std::iter::successors(next(&from), next).last()?;
        (!self.skips(entry, newest, wall)).then_some(newest)
    }

    /// Notes in those that are due that there is no place for their jobs. O(schedules of a pass).
    fn note_no_space(&mut self, rejection: Rejection, wall: Wall) {
        let due = self.by_moment.iter().take_while(|&&(at, _)| at <= wall);
        for &(_, place) in due.take(SCHEDULES_PER_PASS) {
            self.slots[place].last_failure = Some((wall, PutOutcome::Rejected(rejection)));
        }
    }

    /// See [`Store::due_schedule_bytes`].
    pub(super) fn due_bytes(&self, now: Now) -> Option<usize> {
        let due = self.by_moment.iter().take_while(|&&(at, _)| at <= now.wall);
        let bytes = due.take(SCHEDULES_PER_PASS).map(|&(_, place)| {
            let schedule = &self.slots[place].schedule;
            schedule.queue.len() + super::content_bytes(schedule)
        });
        bytes.reduce(usize::saturating_add)
    }

    /// Looks at the clocks: if the wall clock was set back, next moments are to be computed again.
    /// O(1), but O(s) if it was.
    fn look(&mut self, now: Now) {
        debug_assert!(now.mono >= self.looked.mono, "the monotonic clock does not go back");
        let passed = now.mono.until(self.looked.mono).as_millis();
        let expected = self.looked.wall.0.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX));
        self.looked = now;
        let back = expected.saturating_sub(now.wall.0);
        if back <= CLOCK_SET_BACK_MS {
            return;
        }
        self.drained_at = self.drained_at.min(now.wall);
        let all = back > MOMENTS_COME_AGAIN_AFTER_MS;
        let again = |(_, entry): &(ScheduleIdx, &Entry)| {
            let interval = entry.timetable.as_ref().is_some_and(Timetable::is_interval);
            all || interval
        };
        let again = self.slots.iter().filter(again).map(|(place, _)| (place, Passed::Fires));
        self.recomputed = again.collect();
    }

    /// Computes the next moment of one of the schedules for which that is due, and returns the
    /// schedule. O(log s + days until the moment).
    fn recompute_one(&mut self, now: Now) -> Option<ScheduleIdx> {
        while let Some((place, passed)) = self.recomputed.pop() {
            // It may be gone, and another one may have its place: that is as good.
            let Some(entry) = self.slots.get(place) else { continue };
            let is_due = entry.state.next.is_some_and(|at| at <= now.wall);
            if !is_due || passed == Passed::IsSkipped {
                let next = entry.next_after(now.wall);
                debug_assert!(next.is_none_or(|next| next > now.wall), "the moment is to come");
                self.set_next(place, next);
            }
            return Some(place);
        }
        None
    }
}

impl Store {
    /// The deadline of all schedules: a bounded number of them fires.
    #[cold]
    pub(in crate::store) fn schedules_due(&mut self, now: Now, fx: &mut Effects) {
        debug_assert!(!self.schedules.timer.is_none(), "a deadline fires that was armed");
        self.schedules.timer = TimerId::NONE;
        self.schedules.look(now);
        let mut left = SCHEDULES_PER_PASS;
        while left > 0
            && let Some(place) = self.schedules.recompute_one(now)
        {
            left -= 1;
            self.write_schedule(place, fx);
        }
        match self.schedules.hold {
            ScheduleHold::Drained => self.schedules.drained_at = now.wall,
            ScheduleHold::NoSpace(rejection) => self.schedules.note_no_space(rejection, now.wall),
            ScheduleHold::No => {}
        }
        let mut bytes = 0;
        while left > 0
            && self.schedules.hold == ScheduleHold::No
            && bytes < SCHEDULED_BYTES_PER_PASS
            && let Some(&(at, place)) = self.schedules.by_moment.first()
            && at <= now.wall
        {
            left -= 1;
            bytes += self.fire(place, at, now, fx);
        }
        self.arm_schedules(now);
    }

    /// A moment of a schedule has come. Returns the bytes of the payload that was put.
    /// O(log n + log s + days until its next moment).
    fn fire(&mut self, place: ScheduleIdx, at: Wall, now: Now, fx: &mut Effects) -> usize {
        let entry = &self.schedules.slots[place];
        debug_assert_eq!(entry.state.next, Some(at), "a schedule fires at its next moment");
        debug_assert!(at <= now.wall, "a schedule fires when its moment has come");
        let skips = self.schedules.skips(entry, at, now.wall);
        let in_time = skips.then(|| self.schedules.newest_in_time(entry, now.wall)).flatten();
        debug_assert!(in_time.is_none_or(|next| at < next && next <= now.wall), "it has come");
        let next = in_time.or_else(|| entry.next_after(now.wall));
        let overlaps = entry.schedule.skips_overlap
            && entry.state.last_run.is_some_and(|(_, id)| self.is_unfinished(id, now));
        self.schedules.set_next(place, next);
        let mut bytes = 0;
        if !skips && !overlaps {
            let (queue, job) = self.schedules.put_of(place);
            bytes = job.payload.len();
            // If nothing can be put the moment passes.
            let outcome = self.put_one(&queue, &job, now, fx);
            self.schedules.slots[place].note_put(now.wall, outcome);
        }
        self.write_schedule(place, fx);
        bytes
    }

    /// Whether a job is in the store, and not completed: a buried one is unfinished. O(1).
    fn is_unfinished(&self, id: JobId, now: Now) -> bool {
        self.slot(id).is_some_and(|slot| {
            let job = &self.jobs[slot];
            job.status() != Status::Completed && !job.is_expired_waiting(now)
        })
    }

    /// Marks the record of a schedule as changed.
    pub(super) fn write_schedule(&self, place: ScheduleIdx, fx: &mut Effects) {
        let id = self.schedules.slots[place].id;
        fx.mark_dirty(DirtyRecord::Put(RecordKey::Schedule(place), id));
    }
}
