//! Gated replies, step by step: no reply is sent that a crash could take back.

use super::constraint_model::constraint;
use super::restart::Harness;
use jobcentre::base::limits::CONSTRAINT_SCAN_JOBS_PER_PASS;
use jobcentre::base::strings::StringList;
use jobcentre::engine::CommandExecutor;
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::indexed_queue::IndexedCommand;
use jobcentre::model::job::{Encoding, Payload, Priority, TieBreak};
use jobcentre::model::worker::{Worker, WorkerCommand};

const NOTHING: [&str; 0] = [];

fn put<'a>(queue: &'a [u8], encoding: Encoding, bytes: &'a [u8]) -> Command<'a> {
    let (priority, tie_break) = (Priority::Small(1), TieBreak::Fifo);
    let payload = Payload { encoding, bytes };
    Command::Put { queue, priority, tie_break, payload, options: None }
}

fn names(queue: &[u8]) -> StringList {
    let mut names = StringList::default();
    names.push(queue);
    names
}

/// A job is put in the same batch as something else, which came first, and taken at once.
#[track_caller]
fn assert_taken_once_durable(first: &Command<'_>) {
    let mut harness = Harness::new();
    let names = names(b"a");
    let take = Command::Reserve { queues: names.from(0), wait: Wait::No };
    let put = put(b"a", Encoding::Json, b"[1]");
    for command in [first, &put, &take] {
        assert_eq!(harness.begin(command), NOTHING, "told before it is durable");
    }
    // The power fails before anything was written: the id is free, because no reply had it.
    harness.restart();
    for command in [first, &put, &take] {
        assert_eq!(harness.begin(command), NOTHING, "told before it is durable");
    }
    let told = harness.pass(0);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[1].starts_with("Put") && told[2].starts_with("job"), "{told:?}");
}

#[test]
fn job_put_after_a_new_constraint_is_reserved_once_its_put_is_durable() {
    assert_taken_once_durable(&Command::Work(WorkerCommand::SetConstraint(&constraint("one", 50))));
}

#[test]
fn job_put_after_a_declared_queue_is_reserved_once_its_put_is_durable() {
    assert_taken_once_durable(&Command::Indexed(IndexedCommand::CreateQueue { queue: Some(b"d") }));
}

#[test]
fn job_put_after_a_new_worker_is_reserved_once_its_put_is_durable() {
    let worker = Worker { name: "w", url: "http://w/", max_jobs: 7, queues: None };
    assert_taken_once_durable(&Command::Work(WorkerCommand::Register(worker)));
}

/// With more jobs than one pass evaluates a changed constraint is in force some passes after its
/// record was appended, and may be so before the disk has done anything.
#[test]
fn constraint_changed_over_many_jobs_is_answered_once_its_record_is_durable() {
    let mut harness = Harness::new();
    let put = put(b"a", Encoding::Json, b"[1]");
    for _ in 0..3 * CONSTRAINT_SCAN_JOBS_PER_PASS {
        harness.begin(&put);
    }
    while !harness.pass(0).is_empty() {}
    let one = constraint("one", 50);
    let set = WorkerCommand::SetConstraint(&one);
    let remove = WorkerCommand::RemoveConstraint { name: "one" };
    for (change, reply) in [(set, "Constraint(Set { new: true })"), (remove, "Constraint(Removed)")]
    {
        assert_eq!(harness.begin(&Command::Work(change)), NOTHING);
        let (now, mut told) = (harness.simulation.now, Vec::new());
        for _ in 0..20 {
            harness.engine().expire(now);
            harness.drain(&mut told);
            harness.engine().commit(now);
            harness.drain(&mut told);
        }
        assert_eq!(told, NOTHING, "told before it is durable");
        assert_eq!(harness.pass(0), [reply]);
    }
}

/// What is popped as it is put has no record of its own. The batch that tells that it is gone may
/// be complete in the middle of a pass, and must then say which ids are used.
#[test]
fn id_of_a_packet_popped_by_a_waiter_is_never_reused() {
    for filled in 300..520 {
        let mut harness = Harness::new();
        let names = names(b"p");
        let pop = Command::Pop { queues: names.from(0), wait: Wait::Forever };
        assert_eq!(harness.begin(&pop), NOTHING);
        assert_eq!(harness.pass(0), NOTHING);
        let long = vec![b'1'; filled];
        harness.begin(&put(b"a", Encoding::Json, &long));
        harness.begin(&put(b"p", Encoding::Packet { key_len: 0 }, b"x"));
        let told = harness.pass(0);
        assert_eq!(told.iter().filter(|told| told.starts_with("Put")).count(), 2, "{told:?}");
        harness.restart();
        harness.begin(&put(b"a", Encoding::Json, b"1"));
        assert_eq!(harness.pass(0), ["Put(JobId(3))"], "behind {filled} bytes");
    }
}

/// Everything is being written and synced for an orderly end, and then a last batch says so.
#[test]
fn put_after_shutdown_began_is_not_answered() {
    let mut harness = Harness::new();
    let put = put(b"a", Encoding::Json, b"1");
    assert_eq!(harness.begin(&put), NOTHING);
    let now = harness.simulation.now;
    harness.engine().close(now);
    assert_eq!(harness.begin(&put), NOTHING);
    let mut told = Vec::new();
    for _ in 0..20 {
        harness.engine().commit(now);
        harness.drain(&mut told);
        harness.simulation.disk.work(10);
    }
    assert!(harness.engine().is_closed());
    assert_eq!(told, ["Put(JobId(1))"], "the other one was never written");
    harness.restart();
    assert_eq!(harness.begin(&put), NOTHING);
    assert!(harness.pass(0)[0].starts_with("Put"));
}
