//! A worker that has rejected a job is not offered it again, however many such jobs there are.

use super::harness::{Harness, options, packed};
use jobcentre::base::limits::{EXCLUDED_WORKERS_MAX, EXCLUSION_RESET_DELAY};
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::job::{JobOptions, LeaseEpoch};
use jobcentre::model::worker::{RunOutcome, WorkerCommand};

/// A harness with workers 1 to `workers`, each with the client of its number attached.
fn harness_with(workers: u32) -> Harness {
    let mut harness = Harness::new();
    for number in 1..=workers {
        harness.register("w");
        harness.serve(number, u64::from(number));
    }
    harness
}

#[test]
fn rejected_job_is_offered_to_other_workers() {
    let mut harness = harness_with(2);
    harness.put("q", 5, Some(&options()));
    harness.put("q", 0, Some(&options()));
    assert_eq!(harness.work(1, WorkerCommand::ReserveAny), "1.7:job 3 lease 1");
    assert_eq!(harness.give_back(1, 3, 1, true), "1.8:Done");
    assert_eq!(
        harness.work(1, WorkerCommand::ReserveAny),
        "1.9:job 4 lease 1",
        "not the more urgent one"
    );
    assert_eq!(harness.work(1, WorkerCommand::ReserveAny), "");
    assert_eq!(harness.take(1, "q", Wait::Forever), "", "in its queue neither");
    assert_eq!(harness.take(1, "q", Wait::No), "1.12:NoJob");
    assert_eq!(harness.take(2, "q", Wait::No), "2.13:job 3 lease 2");
    // It is requeued while the first worker waits, and goes to an eligible one.
    assert_eq!(harness.give_back(2, 3, 2, false), "2.14:Done");
    assert_eq!(harness.work(2, WorkerCommand::ReserveAny), "2.15:job 3 lease 3");
    harness.work(2, WorkerCommand::ReserveAny);
    assert_eq!(harness.give_back(2, 3, 3, false), "2.17:Done 2.16:job 3 lease 4");
    assert_eq!(harness.give_back(2, 3, 4, true), "2.18:Done", "now neither");
    assert_eq!(harness.take(3, "q", Wait::No), "3.19:job 3 lease 5", "the client is no worker");
}

#[test]
fn new_waiter_is_matched_with_jobs_that_others_rejected() {
    let mut harness = harness_with(2);
    harness.put("q", 0, Some(&options()));
    harness.take(1, "q", Wait::No);
    harness.give_back(1, 3, 1, true);
    for client in [1, 2] {
        harness.take(client, "empty", Wait::Forever);
        let take = harness.serial();
        let completions = harness.ask(client, &Command::Subscribe { serial: take, queue: b"q" });
        let joined = format!("{client}.{}:Done", take + 1);
        match client {
            1 => assert_eq!(completions, joined),
            _ => assert_eq!(completions, format!("{joined} 2.{take}:job 3 lease 2")),
        }
    }
}

#[test]
fn rejection_counted_as_failure_uses_a_retry() {
    let mut harness = harness_with(2);
    harness.put("q", 0, Some(&options()));
    harness.take(1, "q", Wait::No);
    let refused =
        RunOutcome::Rejected { lease: LeaseEpoch(1), error: packed(b"\xc0"), message: "what?" };
    assert_eq!(harness.report(1, 3, refused), "0.7:Done");
    assert_eq!(harness.follow(3), "0.8:retrying of 3 retries 1 result [192] saying what?");
    harness.work(1, WorkerCommand::ReserveAny);
    assert_eq!(harness.pass(1_100), "");
    assert_eq!(harness.work(2, WorkerCommand::ReserveAny), "2.10:job 3 lease 2");
}

#[test]
fn rejection_with_an_earlier_lease_epoch_is_ignored() {
    let mut harness = harness_with(1);
    harness.put("q", 0, Some(&options()));
    assert_eq!(harness.work(1, WorkerCommand::ReserveAny), "1.4:job 2 lease 1");
    assert_eq!(harness.give_back(1, 2, 1, false), "1.5:Done");
    assert_eq!(harness.work(1, WorkerCommand::ReserveAny), "1.6:job 2 lease 2");
    let refused = |lease| RunOutcome::Rejected { lease, error: packed(b"\xc0"), message: "what?" };
    assert_eq!(harness.report(1, 2, refused(LeaseEpoch(1))), "0.7:NoJob");
    assert_eq!(harness.follow(2), "0.8:running of 2 retries 0 by 1");
    assert_eq!(harness.report(1, 2, refused(LeaseEpoch(2))), "0.9:Done");
}

#[test]
fn thousand_excluded_jobs_are_skipped() {
    let mut harness = harness_with(2);
    for id in 3..1_003 {
        harness.put("q", 0, Some(&options()));
        assert!(harness.work(1, WorkerCommand::ReserveAny).ends_with(&format!("job {id} lease 1")));
        harness.give_back(1, id, 1, true);
    }
    assert_eq!(harness.work(1, WorkerCommand::ReserveAny), "");
    let completions = harness.put("q", -1, Some(&options()));
    assert!(completions.ends_with(":job 1003 lease 1"), "{completions}");
    for id in 3..1_003 {
        assert!(harness.work(2, WorkerCommand::ReserveAny).ends_with(&format!("job {id} lease 2")));
    }
}

#[test]
fn job_rejected_by_too_many_workers_is_offered_again_after_a_delay() {
    let workers = u32::try_from(EXCLUDED_WORKERS_MAX).unwrap() + 1;
    let mut harness = harness_with(workers);
    harness.put("q", 0, Some(&JobOptions { lease_ms: 0, ..options() }));
    let id = u64::from(workers) + 1;
    for number in 1..=workers {
        assert!(
            harness.work(number, WorkerCommand::ReserveAny).ends_with(&format!("lease {number}"))
        );
        harness.give_back(number, id, number, true);
    }
    harness.work(1, WorkerCommand::ReserveAny);
    let rest = u64::try_from(EXCLUSION_RESET_DELAY.as_millis()).unwrap();
    assert_eq!(harness.pass(rest - 1), "");
    assert!(harness.pass(1).ends_with(&format!("job {id} lease {}", workers + 1)));
    assert_eq!(harness.reserver(id), Some((1, workers + 1)));
}
