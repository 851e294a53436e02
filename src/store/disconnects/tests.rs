//! Ends of clients whose jobs need several passes.

use super::*;
use crate::base::rng::Rng;
use crate::base::strings::StringList;
use crate::base::time::{Mono, Wall};
use crate::model::command::{Command, Wait};
use crate::model::id::{JobId, Ticket};
use crate::model::job::{Encoding, JobOptions, Payload, Priority, TieBreak};
use crate::model::worker::{Compare, Condition, Constraint, Path, Scalar, WorkerCommand};
use crate::store::Outcome;
use crate::store::spread_work::Passes;
use std::collections::BTreeMap;

const QUEUES: [&str; 3] = ["a", "b", "c"];

/// A store with its time, and what a naive observer knows of it.
struct Observer {
    store: Store,
    fx: Effects,
    now: Now,
    serial: u32,
    /// Queue, priority and holder of each job.
    jobs: BTreeMap<JobId, (&'static str, i64, Option<ClientId>)>,
    /// Reserves that are not answered yet.
    waiting: BTreeSet<u32>,
}

fn client(index: u32, generation: u32) -> ClientId {
    ClientId { index, generation }
}

impl Observer {
    fn new(steps_per_pass: usize) -> Self {
        let mut store = Store::new(3);
        store.spread.set_steps_per_pass(steps_per_pass);
        store.begin_pass();
        let now = Now { mono: Mono(1), wall: Wall(1_700_000_000_000) };
        let (fx, jobs) = (Effects::default(), BTreeMap::new());
        Self { store, fx, now, serial: 0, jobs, waiting: BTreeSet::new() }
    }

    fn apply(&mut self, client: ClientId, command: &Command<'_>) -> u32 {
        self.serial += 1;
        self.fx.clear();
        let ticket = Ticket { client, serial: self.serial };
        self.store.apply(ticket, command, self.now, &mut self.fx);
        self.serial
    }

    /// Notes who has got which job. A job of a client that is still being ended is not handed out.
    fn note_outcomes(&mut self) {
        for (ticket, outcome) in self.fx.outcomes.clone() {
            match outcome {
                Outcome::Job(slot) => {
                    let id = self.store.view(slot).id;
                    let job = self.jobs.get_mut(&id).expect("a deleted job is handed out");
                    assert_eq!(job.2, None, "job {id:?} is handed out while another has it");
                    job.2 = Some(ticket.client);
                }
                Outcome::NoJob => {}
                _ => continue,
            }
            self.waiting.remove(&ticket.serial);
        }
        while let Some(ended) = self.store.poll_disconnected() {
            let held = self.jobs.values_mut().filter(|job| job.2 == Some(ended));
            held.for_each(|job| job.2 = None);
        }
        self.store.check_invariants();
    }

    fn put(&mut self, queue: &'static str, priority: i64, options: Option<&JobOptions>) {
        let put = Command::Put {
            queue: queue.as_bytes(),
            priority: Priority::Small(priority),
            tie_break: TieBreak::Fifo,
            payload: Payload { encoding: Encoding::Json, bytes: b"{}" },
            options,
        };
        self.apply(client(0, 1), &put);
        let Some(&(_, Outcome::Put(id))) = self.fx.outcomes.first() else { panic!("not put") };
        self.jobs.insert(id, (queue, priority, None));
        self.note_outcomes();
    }

    fn reserve(&mut self, client: ClientId, queues: &[&str], wait: Wait) -> u32 {
        let mut names = StringList::default();
        for queue in queues {
            names.push(queue.as_bytes());
        }
        let serial = self.apply(client, &Command::Reserve { queues: names.from(0), wait });
        self.waiting.insert(serial);
        self.note_outcomes();
        serial
    }

    fn disconnect(&mut self, client: ClientId) {
        self.fx.clear();
        self.store.disconnect_client(client, self.now, &mut self.fx);
        // The engine's report comes before what it hands out now.
        let held = self.jobs.values_mut().filter(|job| job.2 == Some(client));
        if self.store.disconnects.ended.contains(&client) {
            held.for_each(|job| job.2 = None);
        }
        self.note_outcomes();
    }

    fn jobs_of(&self, client: ClientId) -> Vec<(&'static str, i64)> {
        let jobs = self.jobs.values().filter(|job| job.2 == Some(client));
        jobs.map(|&(queue, priority, _)| (queue, priority)).collect()
    }
}

impl Passes for Observer {
    fn parts(&mut self) -> (&mut Store, &mut Effects, Now) {
        (&mut self.store, &mut self.fx, self.now)
    }

    fn note_pass(&mut self) {
        let ended = self.store.disconnects.ended.clone();
        for job in self.jobs.values_mut().filter(|job| job.2.is_some_and(|by| ended.contains(&by)))
        {
            job.2 = None;
        }
        self.note_outcomes();
    }
}

#[test]
fn jobs_of_a_large_holder_come_back_together_over_several_passes() {
    let mut observer = Observer::new(10);
    let (holder, other, waiter) = (client(1, 1), client(2, 1), client(3, 1));
    for priority in 0..100 {
        observer.put("a", priority, None);
    }
    for _ in 0..100 {
        observer.reserve(holder, &["a"], Wait::No);
    }
    observer.put("b", 7, None);
    observer.put("a", 3, None);
    observer.reserve(waiter, &["c"], Wait::Forever);
    observer.disconnect(holder);
    observer.run_pass();
    let left = observer.jobs_of(holder).len();
    assert_eq!(left, 100, "the client is not ended yet");
    // Its queue is on hold, others are not.
    let refused = observer.reserve(other, &["a"], Wait::No);
    assert!(observer.waiting.contains(&refused), "a queue on hold hands out a job");
    observer.reserve(other, &["b"], Wait::No);
    assert_eq!(observer.jobs_of(other), [("b", 7)]);
    let passes = observer.settle();
    assert!((9..=13).contains(&passes), "{passes} passes");
    assert_eq!(observer.jobs_of(other), [("a", 99), ("b", 7)], "the most urgent of all is first");
    assert_eq!(observer.waiting.len(), 1, "the waiter of another queue still waits");
}

#[test]
fn every_job_of_a_small_holder_is_back_at_once() {
    let mut observer = Observer::new(10);
    let holder = client(1, 1);
    for priority in 0..10 {
        observer.put("a", priority, None);
        observer.reserve(holder, &["a"], Wait::No);
    }
    observer.disconnect(holder);
    assert_eq!(observer.store.next_deadline(), None, "nothing is left to do");
    assert_eq!(observer.jobs_of(holder), []);
}

#[test]
fn deleted_queue_of_a_hold_is_forgotten() {
    let mut observer = Observer::new(2);
    let holder = client(1, 1);
    for _ in 0..3 {
        observer.put("a", 1, None);
        observer.reserve(holder, &["a"], Wait::No);
    }
    observer.disconnect(holder);
    observer.run_pass();
    for id in observer.jobs.keys().copied().collect::<Vec<_>>() {
        observer.apply(client(0, 1), &Command::Delete { id });
        observer.jobs.remove(&id);
        observer.note_outcomes();
    }
    observer.settle();
    assert_eq!(observer.store.counts().jobs, 0);
    assert!(observer.store.disconnects.marked.is_empty());
}

/// What random clients do while others end: a job of a client that is being ended is never handed
/// out, and in the end every waiter that could have a job has one.
#[test]
fn random_commands_meet_no_job_of_a_client_that_is_being_ended() {
    let (mut deferred, mut handed_out, mut on_hold) = (0, 0, 0);
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut below = |end: u64| rng.below(end);
        let mut observer = Observer::new(1 + usize::try_from(below(4)).unwrap());
        if below(2) == 0 {
            let values = vec![Scalar::Text("a".into())];
            let matcher = vec![Condition { path: Path::Name, op: Compare::Equal, values }];
            let (name, max_running) = ("few".into(), Some(3));
            let constraint = Constraint { name, matcher, max_running, rate: None, per: None };
            observer.apply(client(0, 1), &Command::Work(WorkerCommand::SetConstraint(&constraint)));
            observer.settle();
        }
        let mut generations = [1; 4];
        for _ in 0..300 {
            let index = usize::try_from(below(4)).unwrap();
            let this = client(u32::try_from(index).unwrap() + 1, generations[index]);
            if observer.store.disconnects.is_ending(this.index) {
                // The index is used again only when the client is ended.
                observer.run_pass();
                continue;
            }
            let queue = QUEUES[usize::try_from(below(3)).unwrap()];
            on_hold += usize::from(observer.store.disconnects.holding);
            match below(16) {
                0..4 => {
                    let options = JobOptions { tracked: true, ..JobOptions::default() };
                    let priority = i64::try_from(below(20)).unwrap();
                    observer.put(queue, priority, (below(4) == 0).then_some(&options));
                }
                4..12 => {
                    let other = QUEUES[usize::try_from(below(3)).unwrap()];
                    let wait = if below(3) == 0 { Wait::Forever } else { Wait::No };
                    let serial = observer.reserve(this, &[queue, other], wait);
                    deferred += usize::from(wait == Wait::No && observer.waiting.contains(&serial));
                }
                12 => {
                    observer.disconnect(this);
                    generations[index] += 1;
                }
                13 => {
                    let count = observer.jobs.len() as u64;
                    let nth = usize::try_from(below(count.max(1))).unwrap();
                    if let Some(&id) = observer.jobs.keys().nth(nth) {
                        observer.apply(client(0, 1), &Command::Delete { id });
                        observer.jobs.remove(&id);
                        observer.note_outcomes();
                    }
                }
                _ => observer.run_pass(),
            }
        }
        observer.settle();
        handed_out += observer.jobs.values().filter(|job| job.2.is_some()).count();
    }
    assert!(handed_out > 100, "{handed_out} jobs were handed out");
    assert!(deferred > 100, "{deferred} reserves were deferred");
    assert!(on_hold > 100, "{on_hold} commands met queues on hold");
}
