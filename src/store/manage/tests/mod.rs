//! Commands of the native API on a store that does little in a pass.

mod actions;
mod bounded;
mod dependencies;
mod imports;
mod index;
mod list;
mod pause;
mod progress;
mod ranked;
mod schedules;
mod workers;

use crate::base::strings::StringList;
use crate::base::time::{Mono, Now, Wall};
use crate::model::command::{Command, Wait};
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::job::{Encoding, JobOptions, Payload, Priority, TieBreak};
use crate::model::manage::{ManageCommand, ManageReply};
use crate::model::owned::OwnedReply;
use crate::model::worker::WorkerCommand;
use crate::store::{Effects, Outcome, Store};

const TRACKED: JobOptions = JobOptions {
    delay_ms: 0,
    ttl_ms: 0,
    lease_ms: 0,
    retry: None,
    result_retention_ms: 0,
    dead_retention_ms: 0,
    tracked: true,
    result_once: false,
    max_attempts: 0,
};

/// A store with its time.
struct Harness {
    store: Store,
    fx: Effects,
    now: Now,
    serial: u32,
    /// What others were answered by the last put.
    others: Vec<Answer>,
}

impl Harness {
    fn new(steps_per_pass: usize) -> Self {
        let mut store = Store::new(3);
        store.set_spread_steps(steps_per_pass);
        store.begin_pass();
        let now = Now { mono: Mono(1_000_000), wall: Wall(1_700_000_000_000) };
        Self { store, fx: Effects::default(), now, serial: 0, others: Vec::new() }
    }

    /// Executes a command of a client; what anybody is answered is returned.
    fn apply(&mut self, index: u32, command: &Command<'_>) -> Vec<Answer> {
        self.serial += 1;
        self.fx.clear();
        let client = ClientId { index, generation: 1 };
        let ticket = Ticket { client, serial: self.serial };
        self.store.apply(ticket, command, self.now, &mut self.fx);
        self.answers()
    }

    fn answers(&mut self) -> Vec<Answer> {
        // O(jobs): of many commands only some are checked.
        if self.serial < 256 || self.serial.is_multiple_of(16) {
            self.store.check_invariants();
        }
        let mut answers = Vec::new();
        for (_, outcome) in self.fx.outcomes.clone() {
            answers.push(match outcome {
                Outcome::Job(slot) => Answer::Job(self.store.view(slot).id.0),
                Outcome::Put(JobId(id)) => Answer::Put(id),
                Outcome::NoJob => Answer::NoJob,
                Outcome::Owned(number) => match self.fx.owned[number as usize].take() {
                    OwnedReply::Manage(reply) => Answer::Manage(reply),
                    other => panic!("{other:?}"),
                },
                other => Answer::Other(other),
            });
        }
        answers
    }

    fn put(&mut self, queue: &[u8], options: Option<&JobOptions>) -> u64 {
        let (priority, tie_break) = (Priority::Small(0), TieBreak::Fifo);
        let payload = Payload { encoding: Encoding::Json, bytes: b"{}" };
        let put = Command::Put { queue, priority, tie_break, payload, options };
        self.others = self.apply(0, &put);
        match self.others.remove(0) {
            Answer::Put(id) => id,
            other => panic!("{other:?}"),
        }
    }

    fn reserve(&mut self, queues: &[&[u8]], wait: Wait) -> Vec<Answer> {
        let mut names = StringList::default();
        for queue in queues {
            names.push(queue);
        }
        self.apply(1, &Command::Reserve { queues: names.from(0), wait })
    }

    fn reserve_any(&mut self) -> Vec<Answer> {
        self.apply(1, &Command::Work(WorkerCommand::ReserveAny))
    }

    fn manage(&mut self, command: ManageCommand<'_>) -> Vec<Answer> {
        self.apply(0, &Command::Manage(command))
    }

    /// A pass; what anybody is answered is returned.
    fn pass(&mut self) -> Vec<Answer> {
        self.fx.clear();
        self.store.expire(1_000, self.now, &mut self.fx);
        self.answers()
    }

    /// Whether the next pass has something to do at once.
    fn is_pending(&self) -> bool {
        self.store.next_deadline() == Some(Mono(0))
    }
}

/// What a client is answered.
#[derive(Debug, PartialEq)]
enum Answer {
    Job(u64),
    Put(u64),
    NoJob,
    Manage(ManageReply),
    Other(Outcome),
}
