//! An engine in memory, with short functions for its commands and replies.

use jobcentre::base::strings::StringList;
use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{Encoding, JobOptions, LeaseEpoch, Payload, Priority, Retry, TieBreak};
use jobcentre::model::reply::{Completion, Reply};
use jobcentre::model::worker::{RunOutcome, Worker, WorkerCommand, WorkerId};

/// Puts and tracks jobs.
pub(super) const PUSHER: u32 = 0;

/// Follows the worker registry.
const WATCHER: u32 = 20;

/// The options of a job that is followed, as its protocol puts it.
pub(super) fn options() -> JobOptions {
    let retry =
        Retry { limit: 10, first_ms: 1_000, factor: 2, max_ms: 3_600_000, jitter_percent: 10 };
    JobOptions {
        lease_ms: 30_000,
        retry: Some(retry),
        result_retention_ms: 60_000,
        dead_retention_ms: 60_000,
        tracked: true,
        result_once: true,
        ..JobOptions::default()
    }
}

pub(super) fn packed(bytes: &[u8]) -> Payload<'_> {
    Payload { encoding: Encoding::MsgPack, bytes }
}

pub(super) struct Harness {
    pub(super) engine: Engine,
    pub(super) now: Now,
    serial: u32,
}

impl Harness {
    pub(super) fn new() -> Self {
        let now = Now { mono: Mono(7), wall: Wall(1_700_000_000_000) };
        Self { engine: Engine::in_memory(5), now, serial: 0 }
    }

    fn drain(&mut self) -> String {
        let mut completions = Vec::new();
        while let Some(completion) = self.engine.poll_completion() {
            completions.push(event_of(&completion));
        }
        self.engine.check_invariants();
        completions.join(" ")
    }

    /// All that is answered now, each as `CLIENT.SERIAL:ANSWER`.
    pub(super) fn ask(&mut self, client: u32, command: &Command<'_>) -> String {
        self.serial += 1;
        let client = ClientId { index: client, generation: 1 };
        let ticket = Ticket { client, serial: self.serial };
        self.engine.submit(ticket, command, self.now);
        self.drain()
    }

    pub(super) fn work(&mut self, client: u32, work: WorkerCommand<'_>) -> String {
        self.ask(client, &Command::Work(work))
    }

    pub(super) fn pass(&mut self, ms: u64) -> String {
        self.now.mono.0 += ms * 1_000_000;
        self.now.wall.0 += ms;
        self.engine.expire(self.now);
        self.drain()
    }

    pub(super) fn cancel(&mut self, client: u32, serial: u32) -> String {
        let client = ClientId { index: client, generation: 1 };
        self.engine.cancel(Ticket { client, serial }, self.now);
        self.drain()
    }

    pub(super) fn forget(&mut self, client: u32) -> String {
        self.engine.disconnect_client(ClientId { index: client, generation: 1 }, self.now);
        self.drain()
    }

    /// What was asked last is request number this.
    pub(super) fn serial(&self) -> u32 {
        self.serial
    }

    pub(super) fn put(&mut self, queue: &str, number: i64, options: Option<&JobOptions>) -> String {
        let (priority, tie_break) = (Priority::Small(number), TieBreak::Fifo);
        let payload = packed(b"\x01");
        let queue = queue.as_bytes();
        self.ask(PUSHER, &Command::Put { queue, priority, tie_break, payload, options })
    }

    pub(super) fn take(&mut self, client: u32, queue: &str, wait: Wait) -> String {
        let mut names = StringList::default();
        names.push(queue.as_bytes());
        self.ask(client, &Command::Reserve { queues: names.from(0), wait })
    }

    pub(super) fn register(&mut self, name: &str) -> String {
        // Each listens somewhere else.
        self.enlist_at(name, &format!("http://127.0.0.1:{}", self.serial + 1))
    }

    pub(super) fn enlist_at(&mut self, name: &str, url: &str) -> String {
        let worker = Worker { name, url, max_jobs: 2, queues: None };
        self.work(PUSHER, WorkerCommand::Register(worker))
    }

    pub(super) fn serve(&mut self, client: u32, worker: u64) -> String {
        self.work(client, WorkerCommand::Attach { worker: WorkerId(worker) })
    }

    /// The registered workers, as a client of its own.
    pub(super) fn workers(&mut self) -> String {
        let page = self.work(WATCHER, WorkerCommand::AwaitWorkers { from: WorkerId(0) });
        page.rsplit_once(':').map_or(String::new(), |(_, workers)| workers.to_owned())
    }

    /// Worker and lease epoch of a reserved job.
    pub(super) fn reserver(&self, id: u64) -> Option<(u64, u32)> {
        let status = self.engine.peek(JobId(id))?;
        Some((status.worker?.0, status.info.job.lease.0))
    }

    pub(super) fn give_back(&mut self, client: u32, id: u64, lease: u32, never: bool) -> String {
        let (id, lease, never_again) = (JobId(id), LeaseEpoch(lease), never);
        self.work(client, WorkerCommand::ReturnUnstarted { id, lease, exclude: never_again })
    }

    pub(super) fn report(&mut self, worker: u64, id: u64, report: RunOutcome<'_>) -> String {
        let (worker, id) = (WorkerId(worker), JobId(id));
        self.work(PUSHER, WorkerCommand::Report { worker, id, report })
    }

    pub(super) fn follow(&mut self, id: u64) -> String {
        self.work(PUSHER, WorkerCommand::GetStatus { id: JobId(id) })
    }
}

fn event_of(completion: &Completion<'_>) -> String {
    let Ticket { client, serial } = completion.ticket;
    let answer = match &completion.reply {
        Reply::Job(job) => format!("job {} lease {}", job.id.0, job.lease.0),
        Reply::Put(id) => format!("put {}", id.0),
        Reply::Registered(id) => format!("worker {}", id.0),
        Reply::Workers(page) => {
            page.iter().map(|worker| worker.id.0.to_string()).collect::<Vec<_>>().join(",")
        }
        Reply::Attached([]) => "Done".to_owned(),
        Reply::Attached(reserved) => {
            let jobs = reserved.iter().map(|(id, lease)| format!("{} {}", id.0, lease.0));
            jobs.collect::<Vec<_>>().join(",")
        }
        Reply::JobStatus(progress) => {
            let mut words = vec![
                format!("{} of {}", progress.status(), progress.info.job.id.0),
                format!("retries {}", progress.info.retries),
            ];
            words.extend(progress.worker.map(|worker| format!("by {}", worker.0)));
            let result = progress.info.result.map(|result| format!("result {:?}", result.bytes));
            words.extend(result);
            words.extend(progress.message.map(|message| format!("saying {message}")));
            words.join(" ")
        }
        Reply::Tracked(reply) => format!("{reply:?}"),
        Reply::Worker(reply) => format!("{reply:?}"),
        other => format!("{other:?}"),
    };
    format!("{}.{serial}:{answer}", client.index)
}
