//! Clients that wait for jobs or watch them, cancel that, and release jobs.

use super::oracle::Asked;
use super::{QUEUES, Simulation};
use jobcentre::base::strings::StringList;
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::id::{JobId, Ticket};
use jobcentre::model::worker::WorkerCommand;

impl Simulation {
    pub(super) fn wait(
        &mut self,
        engine: &mut Engine,
        ticket: Ticket,
        queue: &'static [u8],
        id: JobId,
    ) {
        let Some(rng) = &mut self.patience else { return };
        let mut names = StringList::default();
        names.push(queue);
        let wait = *rng.pick(&[Wait::Forever, Wait::Milliseconds(1), Wait::Milliseconds(400)]);
        let number = rng.below(12);
        if number < 5 && rng.percent(50) {
            let other = *rng.pick(&QUEUES);
            names.push(other);
        }
        let queues = names.from(0);
        let (command, asked) = match number {
            0..5 => {
                let service = self.oracle.service_of(ticket.client);
                (Command::Reserve { queues, wait }, Asked::Take(service))
            }
            // Of what it would get nothing is certain in the meantime.
            5 => (Command::Pop { queues, wait: Wait::Milliseconds(8) }, Asked::Pop(queue)),
            6 | 7 => {
                let waiting: Vec<Ticket> = self.oracle.waiting.iter().copied().collect();
                if !waiting.is_empty() {
                    engine.cancel(*rng.pick(&waiting), self.now);
                }
                return self.take_completions(engine);
            }
            8 => (Command::Release { id, lease: None }, Asked::Change(id, None)),
            9 => (Command::Touch { id, lease: None }, Asked::Change(id, None)),
            _ => {
                let wait_ms = 10 * rng.below(40) as u64;
                (Command::Work(WorkerCommand::AwaitResult { id, wait_ms }), Asked::Follow(id))
            }
        };
        if !(6..=9).contains(&number) {
            self.oracle.waiting.insert(ticket);
        }
        self.oracle.ask(ticket, asked);
        engine.submit(ticket, &command, self.now);
        self.take_completions(engine);
    }
}
