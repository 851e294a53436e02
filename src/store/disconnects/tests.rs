//! Ends of clients and workers whose jobs need several passes.

use super::*;
use crate::base::limits::SPREAD_STEPS_PER_PASS;
use crate::base::rng::Rng;
use crate::base::strings::StringList;
use crate::base::time::{Mono, Wall};
use crate::model::command::{Command, Wait};
use crate::model::id::{JobId, Ticket};
use crate::model::job::{Encoding, JobOptions, Payload, Priority, TieBreak};
use crate::model::reply::Rejection;
use crate::model::worker::{
    Compare, Condition, Constraint, Path, Scalar, Worker, WorkerCommand, WorkerId, WorkerReply,
};
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
    /// Deregistered workers whose jobs are not back, and who counts as the holder of these.
    leaving: BTreeMap<WorkerId, ClientId>,
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
        let (waiting, leaving) = (BTreeSet::new(), BTreeMap::new());
        Self { store, fx, now, serial: 0, jobs, waiting, leaving }
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
        self.note_left_workers();
        for (ticket, outcome) in self.fx.outcomes.clone() {
            match outcome {
                Outcome::Job(slot) => {
                    let id = self.store.view(slot).id;
                    let job = self.jobs.get_mut(&id).expect("a deleted job is handed out");
                    assert_eq!(job.2, None, "job {id:?} is handed out while another has it");
                    job.2 = Some(ticket.client);
                }
                Outcome::NoJob | Outcome::Cancelled => {}
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

    /// The jobs of a deregistered worker are back when its end is over.
    fn note_left_workers(&mut self) {
        let Store { disconnects, workers, .. } = &self.store;
        let ending: BTreeSet<WorkerId> =
            disconnects.workers().map(|place| workers[place].id).collect();
        for (_, left) in self.leaving.extract_if(.., |worker, _| !ending.contains(worker)) {
            self.jobs.values_mut().filter(|job| job.2 == Some(left)).for_each(|job| job.2 = None);
        }
    }

    /// Registers a worker, for which the client acts from now on.
    fn enlist(&mut self, client: ClientId) -> WorkerId {
        let url = format!("http://w:{}", self.serial + 1);
        let worker = Worker { name: "w", url: &url, max_jobs: u32::MAX, queues: None };
        self.apply(client, &Command::Work(WorkerCommand::Register(worker)));
        let Some(&(_, Outcome::Registered(worker))) = self.fx.outcomes.first() else {
            panic!("it is not registered")
        };
        self.apply(client, &Command::Work(WorkerCommand::Attach { worker }));
        self.note_outcomes();
        worker
    }

    /// Waits for the end of a reservation; whether there is one.
    fn watch(&mut self, client: ClientId, id: JobId) -> bool {
        let lease = self.store.jobs[self.store.ids.find(id.0).unwrap()].lease();
        self.apply(client, &Command::Work(WorkerCommand::AwaitRelease { id, lease }));
        self.fx.outcomes.is_empty()
    }

    /// Reserves a job of the first queue. Nothing is checked.
    fn take(&mut self, client: ClientId) -> Outcome {
        let mut names = StringList::default();
        names.push(b"a");
        self.apply(client, &Command::Reserve { queues: names.from(0), wait: Wait::No });
        self.fx.outcomes.first().expect("an answer").1
    }

    /// Puts a job, reserves it, and waits for the end of the reservation. Nothing is checked.
    fn take_watched(&mut self, by: ClientId, priority: i64) -> JobId {
        let put = Command::Put {
            queue: b"a",
            priority: Priority::Small(priority),
            tie_break: TieBreak::Fifo,
            payload: Payload { encoding: Encoding::Json, bytes: b"{}" },
            options: None,
        };
        self.apply(client(0, 1), &put);
        let Some(&(_, Outcome::Put(id))) = self.fx.outcomes.first() else { panic!("not put") };
        self.take(by);
        assert!(self.watch(by, id), "the client has not reserved the job");
        self.jobs.insert(id, ("a", priority, Some(by)));
        id
    }

    /// Deregisters a worker, for which this client acts.
    fn deregister(&mut self, worker: WorkerId, acting: ClientId) {
        self.apply(client(0, 1), &Command::Work(WorkerCommand::Deregister { worker }));
        assert_eq!(
            self.fx.outcomes.first().map(|it| it.1),
            Some(Outcome::Worker(WorkerReply::Done))
        );
        let left = client(u32::try_from(worker.0).unwrap() + 1_000, 1);
        let held = self.jobs.values_mut().filter(|job| job.2 == Some(acting));
        held.for_each(|job| job.2 = Some(left));
        self.leaving.insert(worker, left);
        self.note_outcomes();
    }

    /// Finishes a job: what the client is told.
    fn finish(&mut self, client: ClientId, id: JobId) -> Outcome {
        let result = Payload { encoding: Encoding::Json, bytes: b"{}" };
        self.apply(client, &Command::Finish { id, lease: None, result });
        let told = self.fx.outcomes.first().expect("an answer").1;
        if told == Outcome::Done {
            let job = self.jobs.remove(&id).expect("it is there");
            assert_eq!(job.2, Some(client), "job {id:?} is finished by another one");
        }
        self.note_outcomes();
        told
    }

    /// Finishes one of the jobs, or is refused, as is right.
    fn finish_nth(&mut self, client: ClientId, nth: usize) {
        let Some((&id, &(_, _, holder))) = self.jobs.iter().nth(nth) else { return };
        let told = self.finish(client, id);
        let refused = |it| told == Outcome::Rejected(it);
        let is_right = match holder {
            Some(by) if by == client => told == Outcome::Done,
            Some(by) if by.index < 999 => {
                refused(Rejection::ReservedByAnother(id)) || refused(Rejection::NotReserved(id))
            }
            _ => refused(Rejection::NotReserved(id)),
        };
        assert!(is_right, "{told:?} of job {id:?}, which {holder:?} has");
    }

    /// At most a few jobs of the first queue are reserved at a time.
    fn limit_a(&mut self) {
        let values = vec![Scalar::Text("a".into())];
        let matcher = vec![Condition { path: Path::Name, op: Compare::Equal, values }];
        let (name, max_running) = ("few".into(), Some(3));
        let constraint = Constraint { name, matcher, max_running, rate: None, per: None };
        self.apply(client(0, 1), &Command::Work(WorkerCommand::SetConstraint(&constraint)));
        self.settle();
    }

    fn delete_nth(&mut self, nth: usize) {
        let Some(&id) = self.jobs.keys().nth(nth) else { return };
        self.apply(client(0, 1), &Command::Delete { id });
        self.jobs.remove(&id);
        self.note_outcomes();
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
fn jobs_of_a_deregistered_worker_come_back_together_over_several_passes() {
    const JOBS: usize = 5_000;
    let mut observer = Observer::new(SPREAD_STEPS_PER_PASS);
    let (acting, other) = (client(1, 1), client(2, 1));
    let worker = observer.enlist(acting);
    let priorities = 0..i64::try_from(JOBS).unwrap();
    let ids: Vec<JobId> = priorities.map(|it| observer.take_watched(acting, it)).collect();
    observer.put("b", 7, None);
    observer.deregister(worker, acting);
    assert_eq!(observer.store.workers.of_client(acting, &observer.store.reservations), None);
    let (mut passes, mut released) = (0, 0);
    while !observer.leaving.is_empty() {
        passes += 1;
        // No client has a job of the worker any more.
        let id = ids[passes * 777];
        for asking in [acting, other] {
            let refused = Outcome::Rejected(Rejection::NotReserved(id));
            assert_eq!(observer.finish(asking, id), refused);
        }
        assert!(!observer.watch(acting, id), "a client waits for the end of what has ended");
        let refused = observer.reserve(other, &["a"], Wait::No);
        let is_deferred = observer.waiting.contains(&refused);
        assert_eq!(is_deferred, passes > 1, "a job is handed out before all are back");
        observer.reserve(acting, &["b"], Wait::No);
        observer.fx.clear();
        observer.store.expire(16, observer.now, &mut observer.fx);
        let done = |(ticket, outcome): &&(Ticket, Outcome)| {
            ticket.client == acting && *outcome == Outcome::Done
        };
        let ended = observer.fx.outcomes.iter().filter(done).count();
        assert!(ended <= SPREAD_STEPS_PER_PASS, "{ended} reservations end in a pass");
        released += ended;
        observer.note_outcomes();
    }
    assert_eq!((passes, released), (JOBS.div_ceil(SPREAD_STEPS_PER_PASS), JOBS));
    observer.settle();
    assert_eq!(observer.jobs_of(acting), [("b", 7)], "the client goes on as another one");
    // Those that were deferred have got the most urgent ones.
    let got: Vec<_> = observer.jobs_of(other).into_iter().map(|job| job.1).rev().collect();
    assert_eq!(got, [4_999, 4_998, 4_997, 4_996]);
    assert_eq!(observer.store.counts().jobs, JOBS + 1);
    let free = observer.jobs.values().filter(|job| job.2.is_none()).count();
    for _ in 0..free {
        assert!(matches!(observer.take(other), Outcome::Job(_)), "a job is not back");
    }
}

/// The client that acted for a worker leaves before the jobs are back, and another one comes under
/// its index.
#[test]
fn end_of_a_client_after_its_worker_takes_steps_too() {
    let mut observer = Observer::new(4);
    let acting = client(1, 1);
    let worker = observer.enlist(acting);
    let ids: Vec<JobId> = (0..100).map(|it| observer.take_watched(acting, it)).collect();
    observer.deregister(worker, acting);
    observer.run_pass();
    observer.fx.clear();
    observer.store.disconnect_client(acting, observer.now, &mut observer.fx);
    assert!(observer.store.poll_disconnected().is_none(), "its waits are not ended yet");
    assert!(observer.store.watchers.len() > 90, "all waits are ended at once");
    let passes = observer.settle();
    assert!((25..=35).contains(&passes), "{passes} passes");
    assert!(observer.leaving.is_empty() && observer.store.watchers.is_empty());
    let next = client(1, 2);
    for &id in &ids {
        assert_eq!(observer.finish(next, id), Outcome::Rejected(Rejection::NotReserved(id)));
    }
    observer.reserve(next, &["a"], Wait::No);
    assert_eq!(observer.jobs_of(next), [("a", 99)]);
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
    let (mut deferred, mut handed_out, mut on_hold, mut leaving) = (0, 0, 0, 0);
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut below = |end: u64| rng.below(end);
        let mut observer = Observer::new(1 + usize::try_from(below(4)).unwrap());
        if below(2) == 0 {
            observer.limit_a();
        }
        let (mut generations, mut acting) = ([1; 4], [None; 4]);
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
            leaving += usize::from(!observer.leaving.is_empty());
            match below(20) {
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
                    if let Some(worker) = acting[index].take() {
                        observer.deregister(worker, client(999, 1));
                    }
                }
                14 if acting[index].is_none() => acting[index] = Some(observer.enlist(this)),
                14 | 15 => {
                    if let Some(worker) = acting[index].take() {
                        observer.deregister(worker, this);
                    }
                }
                16..18 => {
                    let count = observer.jobs.len() as u64;
                    observer.finish_nth(this, usize::try_from(below(count.max(1))).unwrap());
                }
                13 => {
                    let count = observer.jobs.len() as u64;
                    observer.delete_nth(usize::try_from(below(count.max(1))).unwrap());
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
    assert!(leaving > 100, "{leaving} commands came while a worker was being ended");
}
