//! Jobs that wait for others, in a store that does little in a pass, and through a restart.

use super::*;
use crate::base::api_limits::{ACTION_STEPS_PER_JOB, DEPENDENCIES_MAX};
use crate::model::job::OwnedPriority;
use crate::model::manage::{JobDetails, JobState, NewDependencies, NewJob};
use crate::model::rejection::Rejection;
use crate::model::snapshot::Record;
use crate::store::{DirtyRecord, RecordKey};

const STEPS: usize = 40;

/// A put with these dependencies.
fn job(priority: i64, after: &[u64], groups: [&str; 2]) -> NewJob {
    let name = |name: &str| Some(name.as_bytes().into()).filter(|_| !name.is_empty());
    let [group, after_group] = groups.map(name);
    let after = after.iter().map(|&id| JobId(id)).collect();
    NewJob {
        priority: OwnedPriority::Number(priority),
        encoding: Encoding::Json,
        payload: (*b"{}").into(),
        options: JobOptions::default(),
        key: None,
        dependencies: Some(Box::new(NewDependencies {
            after,
            group,
            after_group,
            runs_if_lost: false,
        })),
    }
}

impl Harness {
    fn put_job(&mut self, queue: &[u8], job: &NewJob) -> u64 {
        match &self.manage(ManageCommand::Put { queue, job })[..] {
            [.., Answer::Manage(ManageReply::Job(job))] => job.id.0,
            other => panic!("{other:?}"),
        }
    }

    fn put_after(&mut self, after: &[u64]) -> u64 {
        self.put_job(b"q", &job(0, after, ["", ""]))
    }

    fn show_job(&mut self, id: u64) -> Option<JobDetails> {
        match self.manage(ManageCommand::Show { id: JobId(id) }).pop() {
            Some(Answer::Manage(ManageReply::Job(job))) => Some(*job),
            _ => None,
        }
    }

    fn state(&mut self, id: u64) -> Option<JobState> {
        Some(self.show_job(id)?.state)
    }

    /// The client that reserves jobs has done one.
    fn finish(&mut self, queue: &[u8]) -> Vec<Answer> {
        let answers = self.reserve(&[queue], Wait::No);
        let [Answer::Job(id)] = answers[..] else { panic!("{answers:?}") };
        self.apply(1, &Command::Delete { id: JobId(id) })
    }

    /// Passes until nothing is left to do; returns their number.
    fn settle(&mut self) -> usize {
        let mut passes = 0;
        while self.is_pending() {
            self.pass();
            passes += 1;
            assert!(passes < 10_000, "it never ends");
        }
        passes
    }

    /// What a journal would have, restored.
    fn restored(&self) -> Self {
        let mut again = Self::new(STEPS);
        let mut slots: Vec<_> = (0..self.store.next_id().0).rev().collect();
        slots.retain(|&id| self.store.slot(JobId(id)).is_some());
        for id in slots {
            let slot = self.store.slot(JobId(id)).unwrap();
            match self.store.base_record(RecordKey::Job(slot)) {
                Record::Job(job) => again.store.restore(&job, self.now),
                other => panic!("{other:?}"),
            };
        }
        for id in self.store.dependencies.record_ids() {
            let loss = self.store.dependencies.find_loss(id).unwrap();
            match self.store.base_record(RecordKey::Loss(loss)) {
                Record::Loss(id, loss) => again.store.restore_loss(id, loss),
                other => panic!("{other:?}"),
            };
        }
        again.now = self.now;
        again.store.finish_restore(self.now);
        again.store.skip_ids(self.store.next_id());
        again.store.check_invariants();
        again
    }
}

#[test]
fn jobs_that_a_job_releases_over_many_passes_come_in_one_moment() {
    let mut harness = Harness::new(STEPS);
    let first = harness.put(b"p", None);
    let mut ids = Vec::new();
    for priority in 0..200 {
        ids.push(harness.put_job(b"q", &job(priority, &[first], ["", ""])));
    }
    assert_eq!(harness.state(ids[0]), Some(JobState::Blocked));
    assert_eq!(harness.reserve(&[b"q"], Wait::No), [Answer::NoJob]);
    assert!(harness.reserve(&[b"q"], Wait::Forever).is_empty());
    assert_eq!(harness.finish(b"p"), [Answer::Other(Outcome::Done)]);
    let mut passes = 0;
    let answers = loop {
        passes += 1;
        let answers = harness.pass();
        if !answers.is_empty() {
            break answers;
        }
    };
    assert_eq!(answers, [Answer::Job(ids[199])], "the most urgent one");
    assert!(passes > 200 / STEPS, "{passes} passes");
    harness.settle();
    assert_eq!(harness.reserve(&[b"q"], Wait::No), [Answer::Job(ids[198])]);
}

#[test]
fn chain_goes_on_job_by_job_in_one_pass() {
    let mut harness = Harness::new(STEPS);
    let mut last = harness.put(b"q", None);
    for _ in 0..10 * STEPS {
        last = harness.put_after(&[last]);
    }
    harness.settle();
    for number in 0..=10 * STEPS {
        let answers = harness.finish(b"q");
        assert_eq!(answers, [Answer::Other(Outcome::Done)], "job {number} of the chain");
    }
    assert_eq!(harness.store.counts().jobs, 0);
    assert!(harness.store.take_work() > 0, "it counts as work of the pass");
}

#[test]
fn jobs_after_a_lost_one_are_cancelled_a_bounded_number_in_each_pass() {
    let mut harness = Harness::new(STEPS);
    harness.fx = Effects::with_changes();
    let first = harness.put(b"p", None);
    // A chain, and many behind its end.
    let mut last = first;
    for _ in 0..50 {
        last = harness.put_after(&[last]);
    }
    let fan: Vec<u64> = (0..100).map(|_| harness.put_after(&[last])).collect();
    let runs = harness.put_job(b"q", &{
        let mut job = job(0, &[last], ["", ""]);
        if let Some(new) = &mut job.dependencies {
            new.runs_if_lost = true;
        }
        job
    });
    let jobs = harness.store.counts().jobs;
    harness.store.begin_pass();
    let cancelled = harness.manage(ManageCommand::Cancel { id: JobId(first) });
    assert_eq!(cancelled, [Answer::Manage(ManageReply::Done)]);
    let mut left = harness.store.counts().jobs;
    assert!(jobs - left <= 2 + STEPS / ACTION_STEPS_PER_JOB, "{jobs} {left}");
    let mut recorded = 0;
    while harness.is_pending() {
        recorded += harness.store.counts().losses;
        let restored = harness.restored();
        assert_eq!(restored.store.counts().losses, harness.store.counts().losses);
        harness.pass();
        let now = harness.store.counts().jobs;
        assert!(left - now <= 2 + STEPS / ACTION_STEPS_PER_JOB, "{left} {now}");
        left = now;
        // After a crash the rest is cancelled, too.
        let mut restored = restored;
        restored.settle();
        assert_eq!(restored.store.counts().jobs, 1);
        assert_eq!(restored.state(runs), Some(JobState::Ready));
    }
    assert!(recorded > 0, "no loss was recorded");
    let counts = harness.store.counts();
    assert_eq!((counts.jobs, counts.losses), (1, 0));
    assert_eq!(harness.state(runs), Some(JobState::Ready));
    assert_eq!(harness.state(fan[0]), None);
}

#[test]
fn job_after_a_job_that_is_being_lost_is_not_cancelled() {
    let mut harness = Harness::new(STEPS);
    harness.fx = Effects::with_changes();
    let first = harness.put(b"p", None);
    for _ in 0..100 {
        harness.put_after(&[first]);
    }
    harness.manage(ManageCommand::Remove { id: JobId(first) });
    assert_eq!(harness.store.counts().losses, 1);
    let late = harness.put_after(&[first]);
    assert_eq!(harness.state(late), Some(JobState::Ready), "what is gone counts as done");
    for mut harness in [harness.restored(), harness] {
        harness.settle();
        assert_eq!(harness.state(late), Some(JobState::Ready));
        assert_eq!(harness.store.counts().jobs, 1);
    }
}

#[test]
fn edges_of_a_removed_job_go_over_passes() {
    let mut harness = Harness::new(STEPS);
    let firsts: Vec<u64> = (0..DEPENDENCIES_MAX).map(|_| harness.put(b"p", None)).collect();
    let last = harness.put_after(&firsts);
    assert_eq!(harness.show_job(last).unwrap().after.len(), DEPENDENCIES_MAX);
    harness.manage(ManageCommand::Remove { id: JobId(last) });
    assert!(harness.is_pending());
    // Some of them end before their edges are dropped.
    assert_eq!(harness.finish(b"p"), [Answer::Other(Outcome::Done)]);
    assert!(harness.settle() > 2);
    assert_eq!(harness.finish(b"p"), [Answer::Other(Outcome::Done)]);
}

#[test]
fn who_was_let_go_by_a_group_is_not_blocked_again() {
    let mut harness = Harness::new(STEPS);
    let member = harness.put_job(b"p", &job(0, &[], ["g", ""]));
    let waits = harness.put_job(b"q", &job(0, &[], ["", "g"]));
    assert_eq!(harness.state(waits), Some(JobState::Blocked));
    assert_eq!(harness.restored().state(waits), Some(JobState::Blocked));
    // Buried is unfinished, cancelled is finished.
    harness.manage(ManageCommand::Bury { id: JobId(member) });
    assert_eq!(harness.state(waits), Some(JobState::Blocked));
    harness.manage(ManageCommand::Cancel { id: JobId(member) });
    assert_eq!(harness.state(waits), Some(JobState::Ready));
    let other = harness.put_job(b"p", &job(0, &[], ["g", ""]));
    let later = harness.put_job(b"q", &job(0, &[], ["", "g"]));
    for mut harness in [harness.restored(), harness] {
        assert_eq!(harness.show_job(other).unwrap().group.as_deref(), Some(&b"g"[..]));
        assert_eq!(harness.state(waits), Some(JobState::Ready));
        assert_eq!(harness.state(later), Some(JobState::Blocked));
        harness.finish(b"p");
        assert_eq!(harness.state(later), Some(JobState::Ready));
    }
}

#[test]
fn delay_and_burial_go_on_beside_dependencies() {
    let mut harness = Harness::new(STEPS);
    let first = harness.put(b"p", None);
    let mut delayed = job(0, &[first], ["", ""]);
    delayed.options.delay_ms = 60_000;
    let id = harness.put_job(b"q", &delayed);
    let blocked = ManageReply::WrongState(JobState::Blocked);
    assert_eq!(harness.manage(ManageCommand::Kick { id: JobId(id) }), [Answer::Manage(blocked)]);
    let buried = harness.put_after(&[first]);
    harness.manage(ManageCommand::Bury { id: JobId(buried) });
    harness.manage(ManageCommand::Kick { id: JobId(buried) });
    assert_eq!(harness.state(buried), Some(JobState::Blocked), "kicked, and still waiting");
    for mut harness in [harness.restored(), harness] {
        assert_eq!(harness.state(id), Some(JobState::Blocked));
        assert_eq!(harness.state(buried), Some(JobState::Blocked));
        harness.finish(b"p");
        assert_eq!(harness.state(id), Some(JobState::Scheduled), "its delay is not over");
        assert_eq!(harness.state(buried), Some(JobState::Ready));
    }
}

#[test]
fn id_that_was_never_given_out_is_rejected() {
    let mut harness = Harness::new(STEPS);
    let job = job(0, &[7], ["", ""]);
    let answers = harness.manage(ManageCommand::Put { queue: b"q", job: &job });
    let rejected = ManageReply::Rejected(Rejection::UnknownJob(JobId(7)));
    assert_eq!(answers, [Answer::Manage(rejected)]);
    assert_eq!(harness.store.counts().jobs, 0);
}

#[test]
fn released_job_waits_for_the_last_record() {
    let mut harness = Harness::new(STEPS);
    harness.fx = Effects::with_changes();
    let first = harness.put(b"p", None);
    let last = harness.put_after(&[first]);
    harness.finish(b"p");
    let changes = &harness.fx.changes;
    let gone = |change: &DirtyRecord| matches!(change, DirtyRecord::Gone(_, JobId(1)));
    let gone = changes.iter().position(gone).expect("its end is recorded");
    let released = DirtyRecord::Released(JobId(last));
    let released = changes.iter().position(|change| *change == released);
    assert!(released.is_some_and(|place| place > gone), "{changes:?}");
}
