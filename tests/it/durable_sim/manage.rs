//! Commands of the native API: pauses, which are there after a restart.

use super::histories::DECLARED;
use super::oracle::{Asked, Oracle};
use super::{QUEUES, Simulation};
use jobcentre::base::time::{Now, Wall};
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::action::JobChange;
use jobcentre::model::command::Command;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::OwnedPriority;
use jobcentre::model::job::Status;
use jobcentre::model::manage::{ManageCommand, ManageReply, Missing, QueueDetails};
use jobcentre::model::reply::{Rejection, Reply};
use std::collections::BTreeMap;

/// Whether a queue is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PauseState {
    No,
    Until(Option<Wall>),
}

impl PauseState {
    fn of(details: &QueueDetails) -> Self {
        if details.paused { Self::Until(details.paused_until) } else { Self::No }
    }
}

/// A pause that outlives every run.
pub(super) const LONG_MS: u64 = 100_000_000;

/// What may be the pause of each queue: what surely was, and what was asked for since then.
#[derive(Debug, Default)]
pub(super) struct PauseModel(BTreeMap<&'static [u8], Vec<(Option<Ticket>, PauseState)>>);

impl PauseModel {
    pub(super) fn of(&mut self, queue: &'static [u8]) -> &mut Vec<(Option<Ticket>, PauseState)> {
        self.0.entry(queue).or_insert_with(|| vec![(None, PauseState::No)])
    }
}

impl Simulation {
    /// Pauses or resumes a queue.
    pub(super) fn pause(&mut self, engine: &mut Engine, ticket: Ticket, queue: &'static [u8]) {
        let pauses = self.rng.percent(50);
        let for_ms = if self.rng.percent(50) { Some(LONG_MS) } else { None };
        let until = for_ms.map(|ms| Wall(self.now.wall.0 + ms));
        let wanted = if pauses { PauseState::Until(until) } else { PauseState::No };
        self.oracle.ask(ticket, Asked::Pause(queue));
        self.oracle.pauses.of(queue).push((Some(ticket), wanted));
        let command = if pauses {
            ManageCommand::Pause { queue, for_ms }
        } else {
            ManageCommand::Resume { queue }
        };
        engine.submit(ticket, &Command::Manage(command), self.now);
        self.take_completions(engine);
    }
}

impl Simulation {
    /// Something of the native API.
    pub(super) fn manage(
        &mut self,
        engine: &mut Engine,
        ticket: Ticket,
        queue: &'static [u8],
        id: JobId,
    ) {
        let number = self.rng.below(26);
        if number >= 18 {
            return self.put_dependent(engine, ticket, queue);
        }
        let to = *self.rng.pick(&QUEUES);
        // A guessed id may be that of a job whose put is not answered yet.
        let is_known = !self.watching && self.oracle.known(id).is_some();
        let change = JobChange {
            priority: self.rng.percent(50).then_some(OwnedPriority::Number(3)),
            delay_ms: self.rng.percent(30).then(|| *self.rng.pick(&[0, 0, 20])),
            queue: (is_known && self.rng.percent(50)).then(|| to.into()),
            ..JobChange::default()
        };
        let (command, asked) = match number {
            0..5 => return self.pause(engine, ticket, queue),
            16.. => return self.set_index(engine, ticket, queue),
            5 | 6 => (ManageCommand::Bury { id }, Asked::Bury(id)),
            7 | 8 => (ManageCommand::Kick { id }, Asked::Manage(id)),
            9 => (ManageCommand::Remove { id }, Asked::End(id)),
            10 => {
                let id = self.oracle.awaited().unwrap_or(id);
                (ManageCommand::Cancel { id }, Asked::End(id))
            }
            _ => {
                let moved = change.queue.is_some();
                if moved {
                    self.oracle.may_move(id, to);
                }
                let asked = if moved { Asked::Move(id, to) } else { Asked::Manage(id) };
                (ManageCommand::Change { id, change: &change }, asked)
            }
        };
        if let ManageCommand::Cancel { id } = command {
            self.oracle.note_cancel(ticket, id);
        }
        self.oracle.ask(ticket, asked);
        engine.submit(ticket, &Command::Manage(command), self.now);
        self.take_completions(engine);
    }
}

impl Simulation {
    /// Switches the index of a queue on or off.
    fn set_index(&mut self, engine: &mut Engine, ticket: Ticket, queue: &'static [u8]) {
        let on = self.rng.percent(50);
        let queue = if self.rng.percent(50) { *self.rng.pick(&DECLARED) } else { queue };
        self.oracle.ask(ticket, Asked::Index(queue));
        let command = ManageCommand::SetIndex { queue, on };
        engine.submit(ticket, &Command::Manage(command), self.now);
        self.take_completions(engine);
    }
}

impl Oracle {
    /// A job may be in this queue from now on.
    fn may_move(&mut self, id: JobId, to: &'static [u8]) {
        if let Some(known) = self.known(id) {
            known.moving.push(to);
        }
    }

    /// The answer to a command of the native API.
    pub(super) fn on_reply_managed(&mut self, ticket: Ticket, asked: &Asked, reply: &ManageReply) {
        match *asked {
            Asked::End(id) | Asked::Manage(id) => self.on_reply_job(id, reply, (None, None)),
            Asked::Bury(id) => self.on_reply_job(id, reply, (Some(Status::Buried), None)),
            Asked::Move(id, to) => self.on_reply_job(id, reply, (None, Some(to))),
            Asked::Pause(queue) => self.on_reply_pause(queue, ticket, reply),
            Asked::Index(queue) => self.records.on_reply_index(queue, reply),
            // The touch of a job that was taken away.
            Asked::Change(id, _) if *reply == ManageReply::Cancelled => {
                self.on_reply_end(id, &Reply::NoJob, false);
            }
            ref asked => panic!("{asked:?} was answered by {reply:?}"),
        }
    }

    /// The answer to a command about a job: what it says in the terms of other protocols. `after`:
    /// what the job's status is for sure if it has changed.
    fn on_reply_job(
        &mut self,
        id: JobId,
        reply: &ManageReply,
        (after, to): (Option<Status>, Option<&'static [u8]>),
    ) {
        let plain = match reply {
            ManageReply::Job(_) | ManageReply::Done => Reply::Done,
            ManageReply::Missing(Missing::Gone | Missing::NeverGivenOut) => Reply::NoJob,
            ManageReply::WrongState(_) => Reply::Rejected(Rejection::NotBuried(id)),
            ManageReply::Rejected(rejection) => Reply::Rejected(*rejection),
            other => panic!("job {} was answered {other:?}", id.0),
        };
        self.on_reply_end(id, &plain, *reply == ManageReply::Done);
        let Some(known) = self.known(id) else { return };
        if let ManageReply::Job(_) = reply {
            (known.status, known.burial) = (after, None);
        }
        if known.changes == 0 {
            if plain == Reply::Done
                && let Some(to) = to
            {
                known.queue = to;
                known.moving.clear();
            }
            self.seen.managed += 1;
        }
    }

    pub(super) fn on_reply_pause(
        &mut self,
        queue: &'static [u8],
        ticket: Ticket,
        reply: &ManageReply,
    ) {
        let pauses = self.pauses.of(queue);
        let place = pauses.iter().position(|&(asked, _)| asked == Some(ticket)).expect("it asked");
        match reply {
            ManageReply::Queue(details) => {
                let said = PauseState::of(details);
                assert_eq!(said, pauses[place].1, "a queue was paused otherwise than asked for");
            }
            ManageReply::Missing(Missing::Queue) => {}
            ManageReply::Rejected(Rejection::DiskFull) => {
                pauses.remove(place);
                return;
            }
            other => panic!("a pause was answered by {other:?}"),
        }
        pauses[place].0 = None;
        drop(pauses.drain(..place));
    }

    /// Looks at the pauses that came back.
    pub(super) fn check_pauses(&mut self, engine: &mut Engine, client: ClientId, now: Now) {
        for (queue, serial) in QUEUES.into_iter().zip(u32::MAX - 19..) {
            let command = Command::Manage(ManageCommand::Queue { queue });
            engine.submit(Ticket { client, serial }, &command, now);
            let completion = engine.poll_completion().expect("what is durable is shown at once");
            let found = match completion.reply {
                Reply::Manage(ManageReply::Queue(details)) => PauseState::of(details),
                Reply::Manage(ManageReply::Missing(Missing::Queue)) => PauseState::No,
                other => panic!("{other:?}"),
            };
            let pauses = self.pauses.of(queue);
            let possible = pauses.iter().any(|&(_, pause)| pause == found);
            assert!(possible, "the pause of a queue is {found:?} instead of {pauses:?}");
            self.seen.paused += u64::from(found != PauseState::No && pauses.len() == 1);
            self.seen.pauses_in_doubt += u64::from(pauses.len() > 1);
            *pauses = vec![(None, found)];
        }
    }
}

/// No queue is paused any more.
pub(super) fn resume_all(engine: &mut Engine, client: ClientId, now: Now) {
    for (queue, serial) in QUEUES.into_iter().zip(u32::MAX - 19..) {
        let command = Command::Manage(ManageCommand::Resume { queue });
        engine.submit(Ticket { client, serial }, &command, now);
        while engine.poll_completion().is_some() {}
    }
}
