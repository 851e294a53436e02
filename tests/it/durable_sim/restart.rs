//! One worker and its jobs over restarts, step by step.

use super::{Simulation, recover};
use crate::journal::disk::End;
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::journal::SyncMode;
use jobcentre::model::action::JobChange;
use jobcentre::model::command::Command;
use jobcentre::model::consumer::{ConsumerCommand, PeekedState};
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{Encoding, JobOptions, LeaseEpoch, Payload, Priority, Retry, TieBreak};
use jobcentre::model::manage::ManageCommand;
use jobcentre::model::reply::Reply;
use jobcentre::model::worker::{RunOutcome, Worker, WorkerCommand, WorkerId};
use std::time::Duration;

/// One engine after another over one disk.
pub(super) struct Harness {
    pub(super) simulation: Simulation,
    engine: Option<Engine>,
}

impl Harness {
    pub(super) fn new() -> Self {
        let mut simulation = Simulation::new(1);
        simulation.spread_steps = None;
        simulation.options.sync = SyncMode::Always;
        simulation.options.segment_bytes = 4_096;
        simulation.disk.platter.lock().unwrap().inline = false;
        Self { engine: Some(recover(&simulation)), simulation }
    }

    pub(super) fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().unwrap()
    }

    pub(super) fn restart(&mut self) {
        drop(self.engine.take());
        self.simulation.disk.end(End::PowerCut);
        self.simulation.generation += 1;
        self.engine = Some(recover(&self.simulation));
        self.engine().check_invariants();
        // What came back is told once it is durable.
        assert_eq!(self.pass(0), Vec::<String>::new());
    }

    /// What is told when time has passed and the disk has done its work.
    pub(super) fn pass(&mut self, ms: u64) -> Vec<String> {
        self.simulation.now.mono = self.simulation.now.mono.after(Duration::from_millis(ms));
        self.simulation.now.wall.0 += ms;
        let now = self.simulation.now;
        let mut told = Vec::new();
        for _ in 0..20 {
            self.engine().expire(now);
            self.drain(&mut told);
            self.engine().commit(now);
            self.drain(&mut told);
            self.simulation.disk.work(10);
        }
        self.engine().check_invariants();
        told
    }

    pub(super) fn drain(&mut self, told: &mut Vec<String>) {
        while let Some(completion) = self.engine().poll_completion() {
            told.push(match completion.reply {
                Reply::Job(job) => format!("job {} lease {}", job.id.0, job.lease.0),
                Reply::JobStatus(progress) => {
                    let result = progress.info.result.map(|result| result.bytes.to_vec());
                    let (status, message) = (progress.status(), progress.message);
                    format!("{status} {} {result:?} {message:?}", progress.info.retries)
                }
                Reply::Tracked(reply) => format!("{reply:?}"),
                Reply::Worker(reply) => format!("{reply:?}"),
                reply => format!("{reply:?}"),
            });
        }
    }

    /// What is told before the disk has done anything.
    pub(super) fn begin(&mut self, command: &Command<'_>) -> Vec<String> {
        self.simulation.serial += 1;
        let client = ClientId { index: 1, generation: self.simulation.generation };
        let (ticket, now) =
            (Ticket { client, serial: self.simulation.serial }, self.simulation.now);
        self.engine().submit(ticket, command, now);
        let mut told = Vec::new();
        self.drain(&mut told);
        told
    }

    /// What is told at once, and what when the disk has done its work.
    pub(super) fn ask(&mut self, command: &Command<'_>) -> [Vec<String>; 2] {
        [self.begin(command), self.pass(0)]
    }

    /// What is told of something that has to be durable first.
    fn work(&mut self, work: WorkerCommand<'_>) -> Vec<String> {
        let [at_once, later] = self.ask(&Command::Work(work));
        assert_eq!(at_once, Vec::<String>::new(), "told before it is durable");
        later
    }

    /// What is told of something that rests on nothing new.
    fn tell(&mut self, work: WorkerCommand<'_>) -> Vec<String> {
        let [at_once, later] = self.ask(&Command::Work(work));
        assert_eq!(later, Vec::<String>::new(), "it need not wait");
        at_once
    }

    /// The registered workers.
    fn workers(&mut self) -> Vec<String> {
        let list = WorkerCommand::AwaitWorkers { from: WorkerId(0) };
        let workers = self.begin(&Command::Work(list));
        let client = ClientId { index: 1, generation: self.simulation.generation };
        let (ticket, now) =
            (Ticket { client, serial: self.simulation.serial }, self.simulation.now);
        self.engine().cancel(ticket, now);
        self.drain(&mut Vec::new());
        workers
    }

    /// Worker and lease epoch of a reserved job.
    fn reserver(&mut self, id: u64) -> Option<(WorkerId, LeaseEpoch)> {
        let status = self.engine().peek(JobId(id))?;
        Some((status.worker?, status.info.job.lease))
    }

    fn put(&mut self) -> String {
        let retry = Retry { limit: 3, first_ms: 0, factor: 2, max_ms: 1, jitter_percent: 0 };
        let options = JobOptions {
            lease_ms: 30_000,
            retry: Some(retry),
            result_retention_ms: 60_000,
            tracked: true,
            result_once: true,
            ..JobOptions::default()
        };
        let payload = Payload { encoding: Encoding::MsgPack, bytes: b"\x81\xa1n\x01" };
        let (priority, tie_break) = (Priority::Small(1), TieBreak::Fifo);
        let put =
            Command::Put { queue: b"a", priority, tie_break, payload, options: Some(&options) };
        self.ask(&put).concat().concat()
    }
}

const W: WorkerId = WorkerId(1);

/// A worker holds jobs 2 and 3 since ten seconds, and is there after restarts.
fn harness_with_a_worker() -> Harness {
    let mut harness = Harness::new();
    let worker = Worker { name: "w", url: "http://w/", max_jobs: 7, queues: None };
    assert_eq!(harness.work(WorkerCommand::Register(worker)), ["Registered(WorkerId(1))"]);
    assert_eq!(harness.tell(WorkerCommand::Attach { worker: W }), ["Attached([])"]);
    assert_eq!([harness.put(), harness.put()], ["Put(JobId(2))", "Put(JobId(3))"]);
    assert_eq!(harness.work(WorkerCommand::ReserveAny), ["job 2 lease 1"]);
    assert_eq!(harness.work(WorkerCommand::ReserveAny), ["job 3 lease 1"]);
    harness.pass(10_000);
    harness.restart();
    // What was brought back is as good as what was written.
    harness.restart();
    harness
}

#[test]
fn reservation_of_a_worker_survives_a_restart_and_is_reported_once() {
    let mut harness = harness_with_a_worker();
    let workers = harness.workers().concat();
    assert!(workers.contains("WorkerId(1)") && workers.contains("max_jobs: 7"), "{workers}");
    assert_eq!([harness.reserver(2), harness.reserver(3)], [Some((W, LeaseEpoch(1))); 2]);
    assert_eq!(harness.tell(WorkerCommand::GetStatus { id: JobId(2) }), ["running 0 None None"]);
    let result = Payload { encoding: Encoding::MsgPack, bytes: b"\x07" };
    let report = |id| {
        let report = RunOutcome::Success { result };
        WorkerCommand::Report { worker: W, id: JobId(id), report }
    };
    assert_eq!(harness.work(report(2)), ["Done"], "though no client is attached yet");
    assert_eq!(harness.tell(report(2)), ["NoJob"]);
    let reserved = ["Attached([(JobId(3), LeaseEpoch(1))])"];
    assert_eq!(harness.tell(WorkerCommand::Attach { worker: W }), reserved);
    assert_eq!(
        harness.tell(WorkerCommand::AwaitRelease { id: JobId(3), lease: LeaseEpoch(1) }),
        Vec::<String>::new()
    );
    assert_eq!(harness.work(report(3)), ["Done", "Done"]);
    assert_eq!(harness.tell(WorkerCommand::ReserveAny), Vec::<String>::new());
    harness.restart();
    assert_eq!(harness.tell(report(3)), ["NoJob"], "not after another restart either");
    let fetch = WorkerCommand::GetStatus { id: JobId(2) };
    assert_eq!(
        harness.work(fetch),
        ["done 0 Some([7]) None"],
        "it is told when it is gone for good"
    );
    harness.restart();
    assert_eq!(harness.tell(fetch), ["Deleted"]);
    let other = WorkerCommand::GetStatus { id: JobId(3) };
    assert_eq!(harness.work(other), ["done 0 Some([7]) None"]);
}

#[test]
fn lease_keeps_running_while_no_server_runs() {
    let mut harness = harness_with_a_worker();
    assert_eq!(harness.pass(19_999), Vec::<String>::new());
    assert_eq!(harness.tell(WorkerCommand::GetStatus { id: JobId(2) }), ["running 0 None None"]);
    harness.pass(1);
    let progress = ["retrying 1 None Some(\"timeout\")"];
    assert_eq!(harness.tell(WorkerCommand::GetStatus { id: JobId(2) }), progress);
    harness.restart();
    assert_eq!(harness.tell(WorkerCommand::GetStatus { id: JobId(2) }), progress);
    assert_eq!([harness.reserver(2), harness.reserver(3)], [None; 2]);
}

#[test]
fn jobs_of_a_deregistered_worker_stay_released_after_a_restart() {
    let mut harness = harness_with_a_worker();
    assert_eq!(harness.work(WorkerCommand::Deregister { worker: W }), ["Done"]);
    harness.restart();
    assert_eq!(harness.workers(), Vec::<String>::new());
    assert_eq!(harness.tell(WorkerCommand::GetStatus { id: JobId(2) }), ["queued 0 None None"]);
    assert_eq!(harness.tell(WorkerCommand::Attach { worker: W }), ["NoWorker"]);
    let worker = Worker { name: "v", url: "http://v/", max_jobs: 1, queues: None };
    assert_eq!(
        harness.work(WorkerCommand::Register(worker)),
        ["Registered(WorkerId(4))"],
        "a new number"
    );
}

#[test]
fn worker_id_taken_on_a_full_disk_is_no_job_id() {
    let mut harness = harness_with_a_worker();
    {
        let mut platter = harness.simulation.disk.platter.lock().unwrap();
        platter.capacity = platter.total();
    }
    let full = "Rejected(DiskFull)";
    assert!((0..2_000).any(|_| harness.put() == full), "the disk is never full");
    let result = Payload { encoding: Encoding::Json, bytes: &[b'7'; 400] };
    let finish = Command::Finish { id: JobId(W.0), lease: None, result };
    assert_eq!(harness.ask(&finish).concat(), ["NoJob"]);
}

#[test]
fn replacement_of_a_worker_survives_a_restart() {
    let mut harness = harness_with_a_worker();
    let worker = Worker { name: "v", url: "http://w", max_jobs: 1, queues: None };
    assert_eq!(harness.work(WorkerCommand::Register(worker)), ["Registered(WorkerId(4))"]);
    harness.restart();
    let workers = harness.workers().concat();
    assert!(workers.contains("WorkerId(4)") && !workers.contains("WorkerId(1)"), "{workers}");
    assert_eq!(harness.tell(WorkerCommand::GetStatus { id: JobId(2) }), ["queued 0 None None"]);
    assert_eq!(harness.work(WorkerCommand::Register(worker)), ["Registered(WorkerId(5))"]);
    assert_eq!(harness.engine().counts().workers, 1);
}

#[test]
fn time_of_a_put_survives_restarts_and_changes() {
    let mut harness = Harness::new();
    let put_at = harness.simulation.now.wall.0 / 1_000 * 1_000;
    assert_eq!(harness.put(), "Put(JobId(1))");
    let more_urgent = JobChange { priority: Some(Priority::Small(7).into()), ..Default::default() };
    for _ in 0..3 {
        harness.pass(5_000);
        harness.restart();
        let shown = Command::Manage(ManageCommand::Show { id: JobId(1) });
        let shown = harness.ask(&shown).concat().concat();
        assert!(shown.contains(&format!("created_at: Wall({put_at})")), "{shown}");
        let change = ManageCommand::Change { id: JobId(1), change: &more_urgent };
        harness.ask(&Command::Manage(change));
    }
}

#[test]
fn queue_without_jobs_is_unknown_after_a_restart() {
    let mut harness = Harness::new();
    let queue = Command::Manage(ManageCommand::Queue { queue: b"a" });
    assert_eq!(harness.put(), "Put(JobId(1))");
    assert_eq!(harness.ask(&Command::Delete { id: JobId(1) }).concat(), ["Done"]);
    let drop = ManageCommand::DropQueue { queue: b"a", force: false };
    assert_eq!(harness.ask(&Command::Manage(drop)).concat().len(), 1);
    assert_eq!(harness.ask(&queue).concat(), ["Manage(Missing(Queue))"]);
    harness.restart();
    assert_eq!(harness.ask(&queue).concat(), ["Manage(Missing(Queue))"]);
    let pause = ManageCommand::Pause { queue: b"a", for_ms: None };
    harness.ask(&Command::Manage(pause));
    harness.restart();
    assert!(harness.ask(&queue).concat().concat().contains("paused: true"));
}

/// Compaction writes the records of buried jobs anew in the order of their puts.
#[test]
fn order_of_burial_survives_compaction_and_restarts() {
    let mut harness = Harness::new();
    let bury = |id| Command::Manage(ManageCommand::Bury { id: JobId(id) });
    let put = |harness: &mut Harness| {
        let payload = Payload { encoding: Encoding::Json, bytes: &[b'7'; 300] };
        let (priority, tie_break) = (Priority::Small(1), TieBreak::Fifo);
        let put = Command::Put { queue: b"a", priority, tie_break, payload, options: None };
        harness.ask(&put);
    };
    (0..4).for_each(|_| put(&mut harness));
    for id in [3, 1, 4, 2] {
        harness.ask(&bury(id));
    }
    let image = |harness: &Harness| harness.simulation.disk.image();
    for id in 5..300 {
        put(&mut harness);
        assert_eq!(harness.ask(&Command::Delete { id: JobId(id) }).concat(), ["Done"]);
    }
    let freed = !image(&harness).contains_key(&crate::journal::disk::segment_name(1));
    assert!(freed, "the records were not moved: {:?}", image(&harness).keys());
    harness.restart();
    // One that is buried after the restart is behind the others.
    assert_eq!(harness.ask(&kick_first(1)).concat(), ["Kicked(1)"]);
    harness.ask(&bury(3));
    harness.restart();
    for id in [1, 4, 2, 3] {
        let first = ConsumerCommand::PeekFirst { queue: b"a", among: PeekedState::Buried };
        let shown = harness.ask(&Command::Consumer(first)).concat().concat();
        assert!(shown.contains(&format!("JobId({id})")), "{id} is not the first one: {shown}");
        assert_eq!(harness.ask(&kick_first(1)).concat(), ["Kicked(1)"]);
    }
    assert_eq!(harness.ask(&kick_first(1)).concat(), ["Kicked(0)"]);
}

fn kick_first(limit: u32) -> Command<'static> {
    Command::Consumer(ConsumerCommand::KickFirst { queue: b"a", among: PeekedState::Buried, limit })
}
