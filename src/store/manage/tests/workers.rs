//! Registered workers as they are listed.

use super::*;
use crate::model::worker::{Worker, WorkerId};

#[test]
fn worker_is_listed_with_the_moment_of_its_last_job() {
    let mut harness = Harness::new(1_000);
    let worker = Worker { name: "w", url: "http://127.0.0.1:9/", max_jobs: 2, queues: None };
    let registered = harness.apply(1, &Command::Work(WorkerCommand::Register(worker)));
    let [Answer::Other(Outcome::Registered(worker))] = registered[..] else {
        panic!("{registered:?}")
    };
    harness.fx.clear();
    let ticket = Ticket { client: ClientId { index: 1, generation: 1 }, serial: 0 };
    let attach = Command::Work(WorkerCommand::Attach { worker });
    harness.store.apply(ticket, &attach, harness.now, &mut harness.fx);
    let last = |harness: &mut Harness| {
        let list = ManageCommand::Workers { from: WorkerId(0), limit: 9 };
        match harness.manage(list).pop() {
            Some(Answer::Manage(ManageReply::Workers(page))) => page.workers[0].last_reserved,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(last(&mut harness), None);
    let id = harness.put(b"a", Some(&TRACKED));
    let then = harness.now.wall;
    assert_eq!(harness.reserve_any(), [Answer::Job(id)]);
    harness.now.wall.0 += 5;
    assert_eq!(last(&mut harness), Some(then));
}
