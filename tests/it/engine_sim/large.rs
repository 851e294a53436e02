//! Cases that are too large or too slow for random runs: a key group that does not fit a reply, and
//! more due timers than one batch handles.

use super::worker_requests;
use crate::oracle::constraints::{ConstraintSpec, Matcher};
use jobcentre::base::slab::SlabKey;
use jobcentre::base::strings::StringList;
use jobcentre::base::time::{Mono, Now};
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::id::Ticket;
use jobcentre::model::job::{Encoding, JobOptions, Payload, Priority, TieBreak};
use jobcentre::model::reply::Reply;
use jobcentre::model::worker::WorkerCommand;

const PACKETS: u32 = 65_540;

const CLIENT: SlabKey = SlabKey { index: 0, generation: 1 };

/// Puts a packet with the key `k` and its number as payload.
fn put(engine: &mut Engine, number: u32, priority: Priority<'_>) {
    let bytes = [&b"k"[..], &number.to_be_bytes()].concat();
    let payload = Payload { encoding: Encoding::Packet { key_len: 1 }, bytes: &bytes };
    let tie_break = TieBreak::Lifo;
    let command = Command::Put { queue: b"q", priority, tie_break, payload, options: None };
    engine.submit(Ticket { client: CLIENT, serial: number }, &command, Now::default());
    while engine.poll_completion().is_some() {}
}

/// The numbers of the packets of a pop.
fn pop(engine: &mut Engine) -> Option<Vec<u32>> {
    let mut names = StringList::default();
    names.push(b"q");
    let command = Command::Pop { queues: names.from(0), wait: Wait::No };
    engine.submit(Ticket { client: CLIENT, serial: u32::MAX }, &command, Now::default());
    let mut answer = None;
    while answer.is_none() {
        let Some(completion) = engine.poll_completion() else {
            engine.expire(Now::default());
            continue;
        };
        answer = Some(completion.reply.packets().map(|packets| {
            let number = |bytes: &[u8]| u32::from_be_bytes(bytes[1..].try_into().unwrap());
            assert!(packets.iter().all(|packet| packet.key_len == 1 && packet.bytes[0] == b'k'));
            packets.iter().map(|packet| number(&packet.bytes)).collect()
        }));
        assert!(answer != Some(None) || completion.reply == Reply::NoJob);
    }
    let numbers = answer.unwrap();
    assert!(engine.poll_completion().is_none());
    engine.check_invariants();
    numbers
}

#[test]
fn oldest_packets_of_an_oversized_key_group_stay() {
    let mut engine = Engine::in_memory(7);
    put(&mut engine, 0, Priority::Small(-1));
    for number in 1..PACKETS {
        // Most are selectable, but less urgent than the first; some are not.
        let priority = if number % 3 == 0 { Priority::Unselected } else { Priority::Small(-2) };
        put(&mut engine, number, priority);
    }
    let first: Vec<u32> = std::iter::once(0).chain((6..PACKETS).rev()).collect();
    assert_eq!(first.len(), 65_535);
    assert!(pop(&mut engine) == Some(first), "not the oldest, then the newest of the others");
    assert_eq!(engine.counts().jobs, 5);
    assert_eq!(pop(&mut engine), Some(vec![5, 4, 3, 2, 1]));
    assert_eq!(pop(&mut engine), None);
    assert_eq!(engine.counts().jobs, 0);
}

/// A large job is in front of many small ones, for which as many pops wait. Serving one led to
/// serving the next from within, until the stack was full.
#[test]
fn one_put_batch_completes_many_waiting_pops() {
    const POPS: u32 = 10_000;
    let mut engine = Engine::in_memory(7);
    let mut names = StringList::default();
    names.push(b"q");
    let queues = names.from(0);
    let large = vec![b'.'; 70_000];
    let mut submit = |serial, command: &Command<'_>| {
        engine.submit(Ticket { client: CLIENT, serial }, command, Now::default());
        std::iter::from_fn(|| engine.poll_completion().map(|done| done.ticket.serial)).count()
    };
    for serial in 0..=POPS {
        let bytes = if serial == 0 { &large[..] } else { b"{}" };
        let payload = Payload { encoding: Encoding::Json, bytes };
        let (priority, tie_break) = (Priority::Small(-i64::from(serial)), TieBreak::Fifo);
        submit(serial, &Command::Put { queue: b"q", priority, tie_break, payload, options: None });
    }
    for serial in 0..POPS {
        let answers = submit(POPS + 1 + serial, &Command::Pop { queues, wait: Wait::Forever });
        assert_eq!(answers, 0, "it cannot have the job in front");
    }
    let answers = submit(u32::MAX, &Command::Reserve { queues, wait: Wait::No });
    assert_eq!(answers, POPS as usize + 1);
    assert_eq!((engine.counts().jobs, engine.counts().waiters), (1, 0));
}

/// What one pass may look at because of constraints was shared by all passes in which nothing was
/// due, so that a change reached some of the jobs only, and the wrong one was handed out.
#[test]
fn changed_constraint_applies_to_all_jobs_in_one_pass() {
    let mut engine = Engine::in_memory(7);
    let now = Now::default();
    let mut serial = 0;
    let mut submit = |engine: &mut Engine, command: &Command<'_>| {
        serial += 1;
        engine.submit(Ticket { client: CLIENT, serial }, command, now);
        let mut jobs = Vec::new();
        while let Some(completion) = engine.poll_completion() {
            if let Reply::Job(job) = completion.reply {
                jobs.push(job.id.0);
            }
        }
        jobs
    };
    for number in 1..=700 {
        let command = Command::Put {
            queue: if number % 2 == 0 { b"q0" } else { b"q1" },
            priority: Priority::Small(number),
            tie_break: TieBreak::Fifo,
            payload: Payload { encoding: Encoding::Json, bytes: b"{}" },
            options: None,
        };
        submit(&mut engine, &command);
    }
    let constraint = |matcher| {
        let spec = ConstraintSpec { name: "x", matcher, max_running: 0, per_queue: false };
        worker_requests::constraint(&spec)
    };
    let set = constraint(Matcher::All);
    submit(&mut engine, &Command::Work(WorkerCommand::SetConstraint(&set)));
    let mut names = StringList::default();
    names.push(b"q0");
    names.push(b"q1");
    let take = Command::Reserve { queues: names.from(0), wait: Wait::Forever };
    assert!(submit(&mut engine, &take).is_empty());
    engine.expire(now);
    let set = constraint(Matcher::Default);
    let told = submit(&mut engine, &Command::Work(WorkerCommand::SetConstraint(&set)));
    assert_eq!(told, [700]);
    assert_eq!(engine.poll_timeout(), None, "something is left to be done");
    engine.check_invariants();
}

#[test]
fn due_timers_fire_in_bounded_batches() {
    const JOBS: u32 = 20_000;
    let mut engine = Engine::in_memory(7);
    let options = JobOptions { ttl_ms: 1, ..JobOptions::default() };
    for serial in 0..JOBS {
        let command = Command::Put {
            queue: b"q",
            priority: Priority::Small(0),
            tie_break: TieBreak::Fifo,
            payload: Payload { encoding: Encoding::Json, bytes: b"{}" },
            options: Some(&options),
        };
        engine.submit(Ticket { client: CLIENT, serial }, &command, Now::default());
        assert!(engine.poll_completion().is_some());
    }
    assert_eq!(engine.poll_timeout(), Some(Mono(1_000_000)));
    let mut now = Now { mono: Mono(999_999), ..Now::default() };
    engine.expire(now);
    assert_eq!(engine.counts().jobs, JOBS as usize, "too early");
    now.mono = Mono(1_000_000);
    let mut left = engine.counts().jobs;
    let mut batches = 0;
    while left > 0 {
        assert_eq!(engine.poll_timeout(), Some(now.mono));
        engine.expire(now);
        assert!(engine.poll_completion().is_none(), "no watcher of the end of a job");
        let rest = engine.counts().jobs;
        assert!(rest < left, "a batch ended nothing");
        left = rest;
        batches += 1;
    }
    assert!(batches > 1, "everything in one go");
    assert_eq!(engine.poll_timeout(), None);
    engine.check_invariants();
}
