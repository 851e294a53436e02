//! Actions that write jobs anew while the disk or the memory is full: they end with an error, and
//! everything else goes on.

use super::restart::Harness;
use jobcentre::engine::CommandExecutor;
use jobcentre::model::action::{ActionFilter, ActionSpec, ActionVerb, JobChange};
use jobcentre::model::command::Command;
use jobcentre::model::id::JobId;
use jobcentre::model::job::{Encoding, Payload, Priority, TieBreak};
use jobcentre::model::job_state::JobStates;
use jobcentre::model::manage::ManageCommand;

const FULL: &str = "Rejected(DiskFull)";

fn put(harness: &mut Harness, bytes: usize) -> Vec<String> {
    let payload = vec![b'7'; bytes];
    let payload = Payload { encoding: Encoding::Json, bytes: &payload };
    let (priority, tie_break) = (Priority::Small(0), TieBreak::Fifo);
    harness.ask(&Command::Put { queue: b"a", priority, tie_break, payload, options: None }).concat()
}

/// Puts jobs until there is hardly space for another; how many there are.
fn fill(harness: &mut Harness) -> u64 {
    let mut jobs = 0;
    for bytes in [700, 300] {
        while put(harness, bytes) != [FULL] {
            jobs += 1;
            assert!(jobs < 2_000, "the disk is never full");
        }
    }
    jobs
}

fn delete(harness: &mut Harness, id: u64) -> Vec<String> {
    harness.ask(&Command::Delete { id: JobId(id) }).concat()
}

fn act(verb: ActionVerb, wait: bool) -> ActionSpec {
    let (queue, filter) = (Box::from(*b"a"), ActionFilter::States(JobStates::ALL));
    ActionSpec { queue, filter, verb, limit: None, dry_run: false, wait }
}

#[test]
fn jobs_are_deleted_after_a_bulk_change_on_a_full_disk() {
    let more_urgent =
        JobChange { priority: Some(Priority::Small(7).into()), ..JobChange::default() };
    let moved = ActionVerb::Move { to: Box::from(*b"b") };
    for (verb, wait) in [(ActionVerb::Change(more_urgent), false), (moved, true)] {
        let mut harness = Harness::new();
        harness.simulation.disk.platter.lock().unwrap().capacity = 64 * 1024;
        let mut jobs = fill(&mut harness);
        // So that there is space to begin, but not to write all jobs anew.
        while put(&mut harness, 300) == [FULL] {
            assert_eq!(delete(&mut harness, jobs), ["Done"]);
            jobs -= 1;
        }
        let spec = act(verb, wait);
        let answer = harness.ask(&Command::Manage(ManageCommand::Act(&spec))).concat();
        if wait {
            assert_eq!(answer, ["Manage(Rejected(DiskFull))"]);
        } else {
            assert_eq!(answer.len(), 1, "it is answered");
            let shown = Command::Manage(ManageCommand::ShowAction { id: 1 });
            let shown = harness.ask(&shown).concat().concat();
            assert!(shown.contains("Failed") && shown.contains("disk is full"), "{shown}");
        }
        for id in 1..=jobs {
            assert_eq!(delete(&mut harness, id), ["Done"], "{id}");
        }
        assert_ne!(put(&mut harness, 700), [FULL]);
        harness.restart();
        assert_eq!(harness.engine().counts().jobs, 2);
    }
}

#[test]
fn bulk_change_that_fits_is_done_in_spite_of_slow_segments() {
    let mut harness = Harness::new();
    for _ in 0..200 {
        assert_ne!(put(&mut harness, 700), [FULL]);
    }
    harness.simulation.disk.platter.lock().unwrap().late_completions = true;
    let spec = act(ActionVerb::Move { to: Box::from(*b"b") }, true);
    let mut answer = harness.begin(&Command::Manage(ManageCommand::Act(&spec)));
    for _ in 0..200 {
        answer.extend(harness.pass(1));
    }
    let answer = answer.concat();
    assert!(answer.contains("Finished") && answer.contains("done: 200"), "{answer}");
}
