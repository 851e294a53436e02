//! Clients that reserve jobs by their connections: what they have changed is there after a crash,
//! and buried jobs are kicked in the order of their burial.

use super::manage::{LONG_MS, PauseState};
use super::oracle::{Asked, Certainty, Known, Oracle};
use super::{QUEUES, Simulation};
use jobcentre::base::time::{Now, Wall};
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::command::Command;
use jobcentre::model::consumer::{ConsumerCommand, PeekedState};
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{Priority, Status};
use jobcentre::model::reply::Reply;

/// What such a client has asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Consumed {
    Job(JobId, JobVerb),
    /// That jobs of this queue be kicked.
    Kick(&'static [u8]),
    /// That this queue be paused, or be so no longer.
    Pause(&'static [u8]),
}

/// What is to be done to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobVerb {
    /// In whose service.
    Reserve(Option<u32>),
    Delete,
    Release,
    Bury,
    Kick,
}

impl Known {
    /// Nothing is certain of its status.
    fn doubt(&mut self) {
        (self.status, self.burial) = (None, None);
    }
}

impl Simulation {
    pub(super) fn consume(
        &mut self,
        engine: &mut Engine,
        ticket: Ticket,
        queue: &'static [u8],
        id: JobId,
    ) {
        let Some(rng) = &mut self.consumers else { return };
        let priority = Priority::Small(i64::try_from(rng.below(8)).unwrap() - 4);
        let delay_ms = *rng.pick(&[0, 0, 20]);
        let service = self.oracle.service_of(ticket.client);
        let (command, asked) = match rng.below(20) {
            0..4 => {
                (ConsumerCommand::ReserveJob { id }, Consumed::Job(id, JobVerb::Reserve(service)))
            }
            4..6 => {
                self.oracle.ask(ticket, Asked::Consumer(Consumed::Job(id, JobVerb::Delete)));
                engine.submit(ticket, &Command::DeleteOwn { id }, self.now);
                return self.take_completions(engine);
            }
            6..9 => {
                let release = ConsumerCommand::Release { id, priority, delay_ms };
                (release, Consumed::Job(id, JobVerb::Release))
            }
            9..15 => (ConsumerCommand::Bury { id, priority }, Consumed::Job(id, JobVerb::Bury)),
            15 => (ConsumerCommand::KickJob { id }, Consumed::Job(id, JobVerb::Kick)),
            16 | 17 => {
                let among = *rng.pick(&[PeekedState::Buried, PeekedState::Delayed]);
                let limit = *rng.pick(&[1, 1, 3]);
                (ConsumerCommand::KickFirst { queue, among, limit }, Consumed::Kick(queue))
            }
            _ => {
                let (for_ms, exists) = (*rng.pick(&[0, LONG_MS]), rng.percent(50));
                let until = Some(Wall(self.now.wall.0 + for_ms));
                let wanted = if for_ms > 0 { PauseState::Until(until) } else { PauseState::No };
                self.oracle.pauses.of(queue).push((Some(ticket), wanted));
                let pause = ConsumerCommand::Pause { queue, exists, for_ms };
                (pause, Consumed::Pause(queue))
            }
        };
        self.oracle.ask(ticket, Asked::Consumer(asked));
        engine.submit(ticket, &Command::Consumer(command), self.now);
        self.take_completions(engine);
    }
}

impl Oracle {
    /// The answer to such a client. "No such job" says that the job is in another status, or that
    /// another client has it, and nothing of whether it is there.
    pub(super) fn on_reply_consumed(
        &mut self,
        ticket: Ticket,
        consumed: Consumed,
        reply: &Reply<'_>,
    ) {
        let (id, verb) = match consumed {
            Consumed::Pause(queue) => return self.on_reply_used_pause(queue, ticket, reply),
            Consumed::Kick(_) => return self.may_be_consumed(consumed),
            Consumed::Job(id, verb) => (id, verb),
        };
        match (verb, reply) {
            (_, Reply::NoJob) => {
                if let Some(known) = self.known(id) {
                    known.changes = known.changes.saturating_sub(1);
                }
                return;
            }
            (JobVerb::Reserve(service), Reply::Job(job)) => {
                self.check_job(job);
                self.on_reply_end(id, &Reply::Done, false);
                self.check_dependent(job.id);
                self.handed_out(job.id, service);
                self.hold(ticket.client, job.id);
                self.seen.taken_by_id += 1;
                return;
            }
            (JobVerb::Reserve(_), other) => panic!("a reserve of {id:?}: {other:?}"),
            _ => {}
        }
        self.on_reply_end(id, reply, verb == JobVerb::Delete);
        self.burials += 1;
        let burial = self.burials;
        let Some(known) = self.known(id) else { return };
        known.doubt();
        if verb == JobVerb::Bury {
            (known.status, known.burial) = (Some(Status::Buried), Some(burial));
        }
        self.seen.consumed += 1;
    }

    /// It has happened, or not.
    pub(super) fn may_be_consumed(&mut self, consumed: Consumed) {
        match consumed {
            Consumed::Pause(_) => {}
            Consumed::Kick(queue) => {
                let there =
                    |known: &&mut Known| known.queue == queue || known.moving.contains(&queue);
                self.jobs.values_mut().filter(there).for_each(Known::doubt);
            }
            Consumed::Job(id, verb) => {
                let Some(known) = self.known(id) else { return };
                known.doubt();
                if verb == JobVerb::Delete && known.ended == Certainty::No {
                    known.ended = Certainty::Possible;
                }
            }
        }
    }

    fn on_reply_used_pause(&mut self, queue: &'static [u8], ticket: Ticket, reply: &Reply<'_>) {
        let pauses = self.pauses.of(queue);
        let place = pauses.iter().position(|&(asked, _)| asked == Some(ticket)).expect("it asked");
        if *reply == Reply::Done {
            pauses[place].0 = None;
            drop(pauses.drain(..place));
        } else {
            assert!(matches!(reply, Reply::NoJob | Reply::Rejected(_)), "{reply:?}");
            pauses.remove(place);
        }
    }

    /// Looks at the job of each queue that was buried first, as far as the order is certain.
    pub(super) fn check_burials(&mut self, engine: &mut Engine, client: ClientId, now: Now) {
        for (queue, serial) in QUEUES.into_iter().zip(u32::MAX - 29..) {
            let first = ConsumerCommand::PeekFirst { queue, among: PeekedState::Buried };
            engine.submit(Ticket { client, serial }, &Command::Consumer(first), now);
            let completion = engine.poll_completion().expect("what is durable is shown at once");
            let Reply::Peeked(info) = completion.reply else { continue };
            let certain = |known: &&Known| {
                known.queue == queue
                    && known.status == Some(Status::Buried)
                    && (known.put, known.ended) == (Certainty::Certain, Certainty::No)
            };
            let burials = self.jobs.values().filter(certain).filter_map(|known| known.burial);
            let found = &self.jobs[info.job.payload.bytes];
            if let Some(burial) = found.burial.filter(|_| certain(&found)) {
                assert_eq!(Some(burial), burials.clone().min(), "another job was buried first");
                self.seen.burials += u64::from(burials.count() > 1);
            }
        }
    }
}
