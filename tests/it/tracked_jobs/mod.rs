//! Tracked jobs: workers, runs, results, rejections.
//!
//! `tests/it/engine_sim` checks random runs; here are single jobs, and what the naive model leaves
//! out: rejections by workers, also beyond their bounds.

mod harness;
mod refusals;

use harness::{Harness, PUSHER, options, packed};
use jobcentre::engine::CommandExecutor;
use jobcentre::model::command::Wait;
use jobcentre::model::id::JobId;
use jobcentre::model::job::{JobOptions, LeaseEpoch};
use jobcentre::model::worker::{RunOutcome, WorkerCommand, WorkerId};

fn success(bytes: &[u8]) -> RunOutcome<'_> {
    RunOutcome::Success { result: packed(bytes) }
}

#[test]
fn result_of_a_run_is_fetched_once() {
    let mut harness = Harness::new();
    assert_eq!(harness.register("w"), "0.1:worker 1");
    assert_eq!(harness.serve(1, 1), "1.2:Done");
    assert_eq!(harness.work(1, WorkerCommand::ReserveAny), "");
    assert_eq!(harness.put("q", 0, Some(&options())), "0.4:put 2 1.3:job 2 lease 1");
    assert_eq!(harness.follow(2), "0.5:running of 2 retries 0 by 1");
    assert_eq!(
        harness.work(1, WorkerCommand::AwaitRelease { id: JobId(2), lease: LeaseEpoch(1) }),
        ""
    );
    let waiting = WorkerCommand::AwaitResult { id: JobId(2), wait_ms: 5_000 };
    assert_eq!(harness.work(PUSHER, waiting), "");
    assert_eq!(harness.report(9, 2, success(b"\xc0")), "0.8:NoWorker", "not the one that holds it");
    let completions = harness.report(1, 2, success(b"\x07"));
    assert_eq!(completions, "0.9:Done 0.7:done of 2 retries 0 result [7] 1.6:Done");
    assert_eq!(harness.report(1, 2, success(b"\x08")), "0.10:NoJob", "a result counts once");
    assert_eq!(harness.follow(2), "0.11:Deleted");
    assert_eq!(harness.follow(3), "0.12:NoJob", "never given out");
    assert_eq!(harness.follow(1), "0.13:NoJob", "a worker is no job");
    assert_eq!(harness.work(PUSHER, waiting), "0.14:Deleted");
}

#[test]
fn result_is_retained_until_fetched_and_error_is_shown_again() {
    let mut harness = Harness::new();
    harness.register("w");
    harness.serve(1, 1);
    for _ in 0..3 {
        harness.work(1, WorkerCommand::ReserveAny);
    }
    harness.put("q", 0, Some(&JobOptions { result_retention_ms: 0, ..options() }));
    harness.put("q", 0, Some(&options()));
    harness.put("q", 0, Some(&options()));
    for id in [2, 3] {
        harness.work(PUSHER, WorkerCommand::AwaitResult { id: JobId(id), wait_ms: 1_000 });
    }
    let completions = harness.report(1, 2, success(b"\x01"));
    assert_eq!(completions, "0.11:Done 0.9:Deleted", "a result without retention");
    assert_eq!(
        harness.report(1, 3, success(b"\x02")),
        "0.12:Done 0.10:done of 3 retries 0 result [2]"
    );
    let error = packed(b"\xc3");
    let failure = RunOutcome::Failure { retry: false, error, message: "no" };
    assert_eq!(harness.report(1, 4, failure), "0.13:Done");
    for serial in [14, 15] {
        let shown = format!("0.{serial}:error of 4 retries 0 result [195] saying no");
        assert_eq!(harness.follow(4), shown);
    }
    assert_eq!(harness.pass(60_000), "");
    assert_eq!(harness.follow(4), "0.16:Deleted");
}

#[test]
fn failure_and_lease_end_are_retried_after_the_backoff() {
    let mut harness = Harness::new();
    harness.register("w");
    harness.serve(1, 1);
    harness.put("q", 0, Some(&options()));
    assert_eq!(harness.work(1, WorkerCommand::ReserveAny), "1.4:job 2 lease 1");
    let failure = RunOutcome::Failure { retry: true, error: packed(b"\x05"), message: "again" };
    assert_eq!(harness.report(1, 2, failure), "0.5:Done");
    assert_eq!(harness.follow(2), "0.6:retrying of 2 retries 1 result [5] saying again");
    assert_eq!(harness.work(1, WorkerCommand::ReserveAny), "");
    assert_eq!(harness.pass(899), "", "a tenth before its time at the earliest");
    assert_eq!(harness.pass(202), "1.7:job 2 lease 2");
    assert_eq!(harness.report(9, 2, failure), "0.8:NoWorker");
    assert_eq!(
        harness.work(1, WorkerCommand::AwaitRelease { id: JobId(2), lease: LeaseEpoch(2) }),
        ""
    );
    assert_eq!(harness.pass(30_000), "1.9:Done", "its place is free");
    assert_eq!(harness.follow(2), "0.10:retrying of 2 retries 2 saying timeout");
    assert_eq!(harness.report(1, 2, success(b"\x01")), "0.11:NoJob", "too late");
    let late = WorkerCommand::AwaitResult { id: JobId(2), wait_ms: 100 };
    assert_eq!(harness.work(PUSHER, late), "");
    assert_eq!(harness.pass(100), "0.12:NotYet");
}

#[test]
fn reserved_job_cannot_be_cancelled() {
    let mut harness = Harness::new();
    let cancel = |id| WorkerCommand::Cancel { id: JobId(id) };
    harness.put("q", 0, Some(&options()));
    let waiting = WorkerCommand::AwaitResult { id: JobId(1), wait_ms: 1_000 };
    harness.work(PUSHER, waiting);
    assert_eq!(harness.work(PUSHER, cancel(1)), "0.3:Removed 0.2:Deleted");
    assert_eq!(harness.work(PUSHER, cancel(1)), "0.4:Deleted");
    assert_eq!(harness.work(PUSHER, cancel(2)), "0.5:NoJob");
    harness.put("q", 0, Some(&options()));
    assert_eq!(harness.work(1, WorkerCommand::ReserveAny), "1.7:job 2 lease 1");
    assert_eq!(harness.work(PUSHER, cancel(2)), "0.8:TooLate");
}

#[test]
fn waits_end_by_disconnect_or_cancellation() {
    let mut harness = Harness::new();
    harness.put("q", 0, Some(&options()));
    let waiting = WorkerCommand::AwaitResult { id: JobId(1), wait_ms: 1_000 };
    harness.work(2, waiting);
    assert_eq!(harness.cancel(2, harness.serial()), "2.2:Cancelled");
    harness.work(2, waiting);
    harness.work(3, WorkerCommand::ReserveAny);
    harness.work(3, WorkerCommand::ReserveAny);
    assert_eq!(harness.engine.counts().watchers, 1);
    assert_eq!(harness.forget(2), "");
    assert_eq!(harness.forget(3), "");
    let counts = harness.engine.counts();
    assert_eq!((counts.watchers, counts.waiters, counts.deadlines), (0, 0, 0));
}

#[test]
fn deregistration_requeues_jobs_and_ends_waits() {
    let mut harness = Harness::new();
    harness.register("w");
    harness.serve(1, 1);
    harness.put("q", 0, Some(&options()));
    assert_eq!(harness.work(1, WorkerCommand::ReserveAny), "1.4:job 2 lease 1");
    harness.work(1, WorkerCommand::ReserveAny);
    harness.work(1, WorkerCommand::AwaitRelease { id: JobId(2), lease: LeaseEpoch(1) });
    harness.work(2, WorkerCommand::ReserveAny);
    let completions = harness.work(PUSHER, WorkerCommand::Deregister { worker: WorkerId(1) });
    assert_eq!(completions, "0.8:Done 1.5:Cancelled 1.6:Cancelled 2.7:job 2 lease 2");
    assert_eq!(harness.follow(2), "0.9:running of 2 retries 0");
    assert_eq!(
        harness.work(PUSHER, WorkerCommand::Deregister { worker: WorkerId(1) }),
        "0.10:NoWorker"
    );
    assert_eq!(harness.serve(1, 1), "1.11:NoWorker");
    assert_eq!(harness.register("w"), "0.12:worker 3", "no number is used again");
}

#[test]
fn worker_with_a_registered_url_replaces_the_earlier_one() {
    let mut harness = Harness::new();
    assert_eq!(harness.enlist_at("w", "http://Host/base"), "0.1:worker 1");
    harness.enlist_at("v", "http://host/other");
    harness.serve(1, 1);
    harness.put("q", 0, Some(&options()));
    assert_eq!(harness.work(1, WorkerCommand::ReserveAny), "1.5:job 3 lease 1");
    harness.work(1, WorkerCommand::AwaitRelease { id: JobId(3), lease: LeaseEpoch(1) });
    harness.work(2, WorkerCommand::ReserveAny);
    let completions = harness.enlist_at("w", "http://host:80/base/");
    assert_eq!(completions, "0.8:worker 4 1.6:Cancelled 2.7:job 3 lease 2");
    assert_eq!(harness.follow(3), "0.9:running of 3 retries 0");
    assert_eq!(harness.report(1, 3, success(b"\x01")), "0.10:NoWorker");
    assert_eq!(harness.workers(), "2,4");
    // And so again, also when the first one has gone by itself.
    assert_eq!(harness.enlist_at("w", "http://host/base"), "0.12:worker 5");
    harness.work(PUSHER, WorkerCommand::Deregister { worker: WorkerId(5) });
    assert_eq!(harness.enlist_at("w", "http://host/base"), "0.14:worker 6");
    assert_eq!(harness.engine.counts().workers, 2);
}

#[test]
fn attached_client_takes_over_the_reservations_of_a_worker() {
    let mut harness = Harness::new();
    harness.register("v");
    harness.register("w");
    harness.serve(1, 1);
    harness.put("q", 0, Some(&options()));
    harness.put("p", 0, None);
    assert_eq!(harness.take(1, "p", Wait::No), "1.6:job 4 lease 0", "a job of another protocol");
    assert_eq!(harness.work(1, WorkerCommand::ReserveAny), "1.7:job 3 lease 1");
    assert_eq!(harness.serve(2, 1), "2.8:3 1,4 0");
    assert_eq!(harness.give_back(1, 3, 1, false), "1.9:Rejected(ReservedByAnother(JobId(3)))");
    assert_eq!(harness.give_back(2, 3, 1, false), "2.10:Done");
    assert_eq!(harness.follow(4), "0.11:running of 4 retries 0 by 1");
    assert_eq!(harness.serve(2, 2), "2.12:Done", "and leaves the first one alone");
    assert_eq!(harness.reserver(4), Some((1, 0)));
    assert_eq!(harness.report(1, 4, success(b"\x01")), "0.13:Done", "though no client is attached");
    assert_eq!(harness.follow(4), "0.14:Deleted");
    assert_eq!(harness.forget(2), "");
    assert_eq!(harness.workers(), "1,2", "a worker outlives its client");
}

#[test]
fn end_of_an_attachment_answers_who_waits_for_it_and_fences_reserves() {
    let mut harness = Harness::new();
    let next = |from| WorkerCommand::AwaitWorkers { from: WorkerId(from) };
    assert_eq!(harness.work(9, next(0)), "");
    assert_eq!(harness.register("v"), "0.2:worker 1 9.1:1");
    assert_eq!(harness.work(1, WorkerCommand::AwaitDetach), "1.3:Done", "it acts for no worker");
    let reserve = |worker| WorkerCommand::ReserveFor { worker: WorkerId(worker), queues: None };
    assert_eq!(harness.work(1, reserve(1)), "1.4:NoWorker");
    harness.serve(1, 1);
    assert_eq!(harness.work(1, WorkerCommand::AwaitDetach), "");
    assert_eq!(harness.work(1, reserve(2)), "1.7:NoWorker");
    assert_eq!(harness.work(1, reserve(1)), "");
    assert_eq!(harness.serve(2, 1), "1.8:Cancelled 1.6:Done 2.9:Done");
    assert_eq!(harness.work(1, reserve(1)), "1.10:NoWorker", "another client acts for the worker");
    harness.work(2, WorkerCommand::AwaitDetach);
    assert_eq!(harness.cancel(2, 11), "2.11:Cancelled");
    harness.work(2, WorkerCommand::AwaitDetach);
    assert_eq!(harness.forget(2), "");
    assert_eq!(harness.work(9, next(2)), "");
    harness.work(PUSHER, WorkerCommand::Deregister { worker: WorkerId(1) });
    assert_eq!(harness.register("w"), "0.15:worker 2 9.13:2");
    assert_eq!(harness.work(9, next(3)), "");
    assert_eq!(harness.cancel(9, 16), "9.16:Cancelled");
}

#[test]
fn reserves_of_one_and_of_any_queue_are_matched_in_order_of_arrival() {
    let mut harness = Harness::new();
    harness.work(1, WorkerCommand::ReserveAny);
    harness.take(2, "q", Wait::Forever);
    harness.work(3, WorkerCommand::ReserveAny);
    assert_eq!(harness.put("q", 0, None), "0.4:put 1 2.2:job 1 lease 0", "it is not followed");
    harness.take(2, "q", Wait::Forever);
    for (id, taker) in [(2, "1.1"), (3, "3.3"), (4, "2.5")] {
        let completions = harness.put("q", 0, Some(&options()));
        assert!(
            completions.ends_with(&format!("put {id} {taker}:job {id} lease 1")),
            "{completions}"
        );
    }
}

#[test]
fn reserve_any_gets_a_tracked_job_behind_an_untracked_one() {
    let mut harness = Harness::new();
    harness.put("q", 9, None);
    harness.work(1, WorkerCommand::ReserveAny);
    assert_eq!(harness.put("q", 0, Some(&options())), "0.3:put 2 1.2:job 2 lease 1");
    harness.put("p", 1, Some(&options()));
    harness.put("q", 2, Some(&options()));
    assert_eq!(
        harness.work(1, WorkerCommand::ReserveAny),
        "1.6:job 4 lease 1",
        "the most urgent of all queues"
    );
    assert_eq!(harness.take(1, "p", Wait::No), "1.7:job 3 lease 1");
    assert_eq!(harness.take(1, "q", Wait::No), "1.8:job 1 lease 0");
}
