//! A registered worker among the clients: its reservations survive a restart, and its report counts
//! once.

use super::Simulation;
use super::oracle::{Asked, Certainty, Oracle};
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::command::Command;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{Encoding, Payload, Status};
use jobcentre::model::reply::Reply;
use jobcentre::model::worker::{RunOutcome, Worker, WorkerCommand, WorkerId, WorkerReply};

/// The client that is attached to the one worker.
#[derive(Debug, Default)]
pub(super) struct Service {
    pub(super) worker: Option<WorkerId>,
    pub(super) client: Option<ClientId>,
    /// Which service it is: it ends with its client, and then all that the worker held goes back.
    number: u32,
}

impl Service {
    /// What came of enlisting a worker, of which the first counts, or of acting for it.
    pub(super) fn on_reply(&mut self, reply: &Reply<'_>) {
        match reply {
            Reply::Registered(worker) => {
                self.worker.get_or_insert(*worker);
            }
            Reply::Attached(_) | Reply::Worker(WorkerReply::Done | WorkerReply::DiskFull) => {}
            other => panic!("a worker was answered by {other:?}"),
        }
    }
}

impl Simulation {
    pub(super) fn request_of_a_worker(&mut self, engine: &mut Engine, ticket: Ticket, id: JobId) {
        let result = Payload { encoding: Encoding::MsgPack, bytes: b"\x07" };
        let Some(worker) = self.oracle.service.worker else {
            // One that comes to the same address would send the other one away.
            let (name, url, max_jobs, queues) =
                ("w", &*format!("http://w:{}", self.serial), 1, None);
            self.oracle.ask(ticket, Asked::Enlist);
            let register = WorkerCommand::Register(Worker { name, url, max_jobs, queues });
            engine.submit(ticket, &Command::Work(register), self.now);
            return self.take_completions(engine);
        };
        let held = self.oracle.held_by_worker();
        let id = if held.is_empty() || self.rng.percent(20) { id } else { *self.rng.pick(&held) };
        let (work, asked) = match self.rng.below(12) {
            0 if self.oracle.service.client.is_none() => {
                self.oracle.service.client = Some(ticket.client);
                (WorkerCommand::Attach { worker }, Asked::Nothing)
            }
            0..6 => return self.take_for_worker(engine),
            number @ 6..10 => {
                let report = RunOutcome::Success { result };
                let surely = number < 9 && self.oracle.certainly_holds(id);
                let unknown = WorkerId(worker.0 + 1_000_000);
                let worker = if number < 9 { worker } else { unknown };
                (WorkerCommand::Report { worker, id, report }, Asked::Report(id, surely))
            }
            10 => (WorkerCommand::Cancel { id }, Asked::End(id)),
            _ => (WorkerCommand::GetStatus { id }, Asked::Follow(id)),
        };
        self.oracle.ask(ticket, asked);
        engine.submit(ticket, &Command::Work(work), self.now);
        self.take_completions(engine);
    }

    /// Takes what there is, and does not wait for more.
    fn take_for_worker(&mut self, engine: &mut Engine) {
        let Some(client) = self.oracle.service.client else { return };
        self.serial += 1;
        let ticket = Ticket { client, serial: self.serial };
        self.oracle.ask(ticket, Asked::Take(self.oracle.service_of(client)));
        engine.submit(ticket, &Command::Work(WorkerCommand::ReserveAny), self.now);
        self.take_completions(engine);
        engine.cancel(ticket, self.now);
        self.take_completions(engine);
    }
}

impl Oracle {
    /// In which service a client takes a job.
    pub(super) fn service_of(&self, client: ClientId) -> Option<u32> {
        (self.service.client == Some(client)).then_some(self.service.number)
    }

    /// A client is gone, and what it took goes back.
    pub(super) fn end_service(&mut self, client: ClientId) {
        if self.service.client != Some(client) {
            return;
        }
        (self.service.client, self.service.number) = (None, self.service.number + 1);
        for known in self.jobs.values_mut().filter(|known| known.status == Some(Status::Reserved)) {
            known.status = None;
        }
    }

    /// The jobs that the worker surely holds.
    fn held_by_worker(&self) -> Vec<JobId> {
        let held = |content: &Vec<u8>| self.jobs[content].status == Some(Status::Reserved);
        self.ids.iter().filter(|(_, content)| held(content)).map(|(&id, _)| JobId(id)).collect()
    }

    /// Whether the worker holds a job about which nothing else was asked.
    fn certainly_holds(&mut self, id: JobId) -> bool {
        self.known(id).is_some_and(|known| {
            known.status == Some(Status::Reserved)
                && known.ended == Certainty::No
                && known.changes == 0
        })
    }

    /// A job was handed out, maybe to the worker: then it holds it until it reports.
    pub(super) fn handed_out(&mut self, id: JobId, service: Option<u32>) {
        let (serves, life) = (service == Some(self.service.number), self.seen.lives);
        let known = self.known(id).expect("it was checked");
        known.status = (serves && known.changes == 0).then_some(Status::Reserved);
        known.got = life;
    }

    pub(super) fn on_reply_report(&mut self, id: JobId, surely: bool, reply: &Reply<'_>) {
        let life = self.seen.lives;
        let Some(known) = self.known(id) else { return };
        known.changes = known.changes.saturating_sub(1);
        let held = known.status == Some(Status::Reserved);
        match reply {
            Reply::Done => {
                assert_ne!(known.status, Some(Status::Completed), "job {} was done twice", id.0);
                assert_ne!(known.ended, Certainty::Certain, "job {} was ended twice", id.0);
                if known.kept {
                    known.status = Some(Status::Completed);
                } else {
                    known.ended = Certainty::Certain;
                }
                let later = held && known.got < life;
                self.seen.reported += 1;
                self.seen.reported_later += u64::from(later);
            }
            Reply::NoJob => {
                assert!(!surely, "job {} is not the worker's any more", id.0);
                self.seen.not_reported += 1;
            }
            Reply::Worker(WorkerReply::NoWorker) => {
                assert!(!surely, "the worker that holds job {} is unknown", id.0);
            }
            other => panic!("a report was answered by {other:?}"),
        }
    }

    pub(super) fn on_reply_progress(&mut self, id: JobId, reply: &Reply<'_>) {
        if let Reply::JobStatus(progress) = reply {
            self.check_job(&progress.info.job);
            let known = self.known(id).expect("it was checked");
            if progress.status() == "done" && known.fetch_once {
                (known.ended, known.status) = (Certainty::Certain, None);
                self.seen.fetched += 1;
            }
        }
        self.on_reply_end(id, reply, false);
    }
}
