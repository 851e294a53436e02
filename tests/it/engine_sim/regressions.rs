//! Defects that random runs have found, or would hardly find: short sequences, checked like the
//! runs.

use super::consumer_requests::ConsumerRequest;
use super::manage_requests::ManageRequest;
use super::requests::Request;
use super::simulation::{Simulation, Step};
use crate::oracle::types::{Answer, Load, Queue, Text};
use jobcentre::base::slab::SlabKey;
use jobcentre::base::time::{Mono, Now};
use jobcentre::engine::CommandExecutor;
use jobcentre::model::command::Wait;
use jobcentre::model::id::Ticket;
use jobcentre::model::job::{Encoding, JobOptions, Priority, TieBreak};

/// A simulation with requests that are numbered by themselves.
struct Sequence {
    simulation: Simulation,
    serial: u32,
}

impl Sequence {
    fn new() -> Self {
        Self { simulation: Simulation::new(1), serial: 0 }
    }

    /// Client `index` asks for something; returns the last that is said.
    fn ask(&mut self, index: u32, ask: Request) -> Option<Answer> {
        self.serial += 1;
        let ticket = Ticket { client: SlabKey { index, generation: 1 }, serial: self.serial };
        self.simulation.step(&Step::Submit(ticket, ask));
        self.simulation.last.take()
    }

    fn put(&mut self, queue: Queue, priority: i64, bytes: usize, ttl_ms: u64) {
        let text = vec![b'.'; bytes];
        self.ask(
            0,
            Request::Put {
                queue,
                priority: Priority::Small(priority),
                tie_break: TieBreak::Fifo,
                load: Load { encoding: Encoding::Json, text: Text::new(&text) },
                options: (ttl_ms > 0).then(|| JobOptions { ttl_ms, ..JobOptions::default() }),
            },
        );
    }

    fn take(&mut self, client: u32, queues: &[Queue]) {
        self.ask(client, Request::Reserve { queues: queues.to_vec(), wait: Wait::Forever });
    }

    fn pop(&mut self, client: u32, queues: &[Queue]) {
        self.ask(client, Request::Pop { queues: queues.to_vec(), wait: Wait::Forever });
    }

    fn forget(&mut self, index: u32) {
        self.simulation.step(&Step::Forget(SlabKey { index, generation: 1 }));
        self.simulation.engine.check_invariants();
    }
}

/// The pop of the first queue had its second job handed out before the more urgent one of the
/// other queue.
#[test]
fn requeued_jobs_are_reserved_by_priority_over_all_queues() {
    let mut story = Sequence::new();
    for (queue, priority) in [(0, 1), (0, 0), (1, 1), (3, 1)] {
        story.put(queue, priority, 2, 0);
    }
    for queue in [0, 0, 1] {
        story.take(1, &[queue]);
    }
    story.pop(2, &[0]);
    story.take(3, &[0, 1]);
    story.forget(1);
    let left = story.ask(2, Request::Pop { queues: vec![0, 1], wait: Wait::No });
    assert!(matches!(left, Some(Answer::Packets(_))), "the least urgent job is left: {left:?}");
}

/// Jobs come back to a queue where the first job is over, and only behind it is what pops wait for.
#[test]
fn jobs_requeued_behind_an_expired_job_reach_all_waiters() {
    for others in 0..4 {
        let mut story = Sequence::new();
        story.put(0, -1, 2, 0);
        story.take(1, &[0]);
        story.put(0, 1, 70_000, 1);
        for _ in 0..others {
            story.put(0, 0, 2, 0);
        }
        for _ in 0..4 {
            story.pop(2, &[0]);
        }
        story.simulation.step(&Step::Time(Now { mono: Mono(5_000_000), ..Now::default() }));
        story.forget(1);
        story.simulation.step(&Step::Expire);
        assert_eq!(story.simulation.engine.counts().waiters, 3 - others);
    }
}

/// The pause of an operator ended with the last user of a queue whose users had paused it before.
#[test]
fn pause_of_the_native_api_outlives_the_users_of_the_queue() {
    let mut story = Sequence::new();
    for request in [ConsumerRequest::Watch(0), ConsumerRequest::Pause(0, false, 1)] {
        story.ask(0, Request::Consumer(request));
    }
    story.ask(1, Request::Manage(ManageRequest::Pause(0, None)));
    story.ask(0, Request::Consumer(ConsumerRequest::Leave(None, vec![0])));
    let queue = story.ask(1, Request::Manage(ManageRequest::Queue(0)));
    assert!(matches!(queue, Some(Answer::QueueDetails { paused: true, .. })), "{queue:?}");
}

/// Rare in random runs: most large jobs in front of waiting pops are taken before they are over.
#[test]
fn pop_gets_the_job_behind_an_expired_large_job() {
    let mut story = Sequence::new();
    story.put(0, 1, 70_000, 1);
    story.put(0, 0, 2, 0);
    story.put(0, -1, 2, 0);
    story.pop(2, &[1, 0]);
    story.pop(1, &[0, 1]);
    story.simulation.step(&Step::Time(Now { mono: Mono(1_000_000), ..Now::default() }));
    story.simulation.step(&Step::Expire);
    story.simulation.engine.check_invariants();
    assert_eq!(
        (story.simulation.engine.counts().jobs, story.simulation.engine.counts().waiters),
        (0, 0)
    );
}
