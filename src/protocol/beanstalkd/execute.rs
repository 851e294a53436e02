//! From parsed lines to commands of the store.

use super::asked::Asked;
use super::call::Call;
use super::counters::Verb;
use super::line::{Request, is_tube_name};
use super::{DEFAULT, Session, State, priority_of, reply};
use crate::base::buf::OutBuf;
use crate::base::limits::QUEUES_PER_RESERVE_MAX;
use crate::base::strings::StringList;
use crate::model::command::{Command, Wait};
use crate::model::consumer::{ConsumerCommand, PeekedState};
use crate::model::id::JobId;
use crate::protocol::{SessionAction, SessionContext};

impl Session {
    /// Executes a command: one on a single job is submitted.
    pub(super) fn execute<'s, 'i: 's>(
        &mut self,
        request: Request<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        let consumer = |id, command| (id, Command::Consumer(command));
        let (asked, command) = match request {
            Request::Reserve => {
                self.counters.count(Verb::Reserve);
                return self.reserve(u64::MAX, shared);
            }
            Request::ReserveJob(id) => {
                consumer(Asked::ReserveJob, ConsumerCommand::ReserveJob { id: JobId(id) })
            }
            Request::Release { id, priority, delay_s } => {
                self.counters.count(Verb::Release);
                let (priority, delay_ms) = (priority_of(priority), u64::from(delay_s) * 1000);
                let release = ConsumerCommand::Release { id: JobId(id), priority, delay_ms };
                consumer(Asked::Release, release)
            }
            Request::Bury { id, priority } => {
                self.counters.count(Verb::Bury);
                let bury = ConsumerCommand::Bury { id: JobId(id), priority: priority_of(priority) };
                consumer(Asked::Bury, bury)
            }
            Request::Touch(id) => {
                self.counters.count(Verb::Touch);
                (Asked::Touch, Command::Touch { id: JobId(id), lease: None })
            }
            Request::Peek(id) => {
                self.counters.count(Verb::Peek);
                (Asked::Peek, Command::Peek { id: JobId(id) })
            }
            Request::PeekReady => return self.peek(Verb::PeekReady, PeekedState::Ready, shared),
            Request::PeekDelayed => {
                return self.peek(Verb::PeekDelayed, PeekedState::Delayed, shared);
            }
            Request::PeekBuried => return self.peek(Verb::PeekBuried, PeekedState::Buried, shared),
            Request::KickJob(id) => {
                consumer(Asked::Kick, ConsumerCommand::KickJob { id: JobId(id) })
            }
            Request::StatsJob(id) => {
                self.counters.count(Verb::StatsJob);
                consumer(Asked::JobStats, ConsumerCommand::JobStats { id: JobId(id) })
            }
            other => return self.execute_on_tubes(other, shared, out),
        };
        self.submit(asked, command)
    }

    /// Commands on tubes, and the rest.
    fn execute_on_tubes<'s, 'i: 's>(
        &mut self,
        request: Request<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        match request {
            Request::Use(tube) => {
                self.counters.count(Verb::Use);
                self.use_tube(tube, shared, out)
            }
            Request::ListTubeUsed => {
                self.counters.count(Verb::ListTubeUsed);
                self.write_used(out)
            }
            Request::Watch(tube) => {
                self.counters.count(Verb::Watch);
                self.watch(tube, out)
            }
            Request::Ignore(tube) => {
                self.counters.count(Verb::Ignore);
                self.ignore(tube, shared, out)
            }
            Request::ListTubesWatched => {
                self.counters.count(Verb::ListTubesWatched);
                let number = self.replies.open();
                self.replies.close(number, out, |out| reply::write_list(&self.watched, out));
                SessionAction::Continue
            }
            Request::ListTubes => {
                self.counters.count(Verb::ListTubes);
                self.begin_call(Call::list())
            }
            Request::Kick(bound) => {
                self.counters.count(Verb::Kick);
                self.begin_call(Call::kick(bound))
            }
            Request::Stats => {
                self.counters.count(Verb::Stats);
                self.begin_call(Call::Stats { totals: None })
            }
            Request::StatsTube(queue) => {
                self.counters.count(Verb::StatsTube);
                let exists = queue == DEFAULT;
                self.asked_tube = queue.into();
                let command = ConsumerCommand::QueueStats { queue, exists };
                self.submit_alone(Asked::QueueStats, Command::Consumer(command))
            }
            Request::PauseTube { tube: queue, delay_s } => {
                self.counters.count(Verb::PauseTube);
                if !is_tube_name(queue) {
                    return self.answer(out, reply::BAD_FORMAT);
                }
                let (exists, for_ms) = (queue == DEFAULT, u64::from(delay_s) * 1000);
                let command = ConsumerCommand::Pause { queue, exists, for_ms };
                self.submit(Asked::Pause, Command::Consumer(command))
            }
            Request::Quit => {
                self.state = State::Ended;
                SessionAction::End
            }
            _ => unreachable!("commands on jobs are handled by the callers"),
        }
    }

    fn watch<'s>(&mut self, tube: &'s [u8], out: &mut OutBuf) -> SessionAction<'s> {
        if self.watched.position(tube).is_some() {
            return self.write_watching(out);
        }
        if self.watched.len() >= QUEUES_PER_RESERVE_MAX {
            return self.answer(out, reply::OUT_OF_MEMORY);
        }
        self.watched.push(tube);
        self.rename();
        if tube == DEFAULT {
            self.counters.watching_default.add();
            return self.write_watching(out);
        }
        self.asked_tube = tube.into();
        let command = ConsumerCommand::Watch { queue: tube };
        self.submit_alone(Asked::Watch, Command::Consumer(command))
    }

    fn ignore<'s>(
        &mut self,
        tube: &[u8],
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        let Some(number) = self.watched.position(tube) else { return self.write_watching(out) };
        if self.watched.len() == 1 {
            return self.answer(out, reply::NOT_IGNORED);
        }
        self.watched.remove(number);
        self.rename();
        if tube == DEFAULT {
            self.counters.watching_default.subtract();
            return self.write_watching(out);
        }
        let queues = &mut shared.scratch.queues;
        queues.clear();
        queues.push(tube);
        self.asked_tube = tube.into();
        let command = ConsumerCommand::Leave { used: b"", watched: queues.from(0) };
        self.submit_alone(Asked::Watch, Command::Consumer(command))
    }

    /// Uses another tube. Returns the former one.
    pub(super) fn set_used(&mut self, tube: Box<[u8]>) -> Box<[u8]> {
        if *tube == *DEFAULT {
            self.counters.using_default.add();
        }
        let former = std::mem::replace(&mut self.used, tube);
        if *former == *DEFAULT {
            self.counters.using_default.subtract();
        }
        former
    }

    fn use_tube<'s>(
        &mut self,
        tube: &'s [u8],
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        if *self.used == *tube {
            return self.write_used(out);
        }
        let former = self.set_used(tube.into());
        self.rename();
        let counted = |tube: &'s [u8]| if tube == DEFAULT { b"" } else { tube };
        let known = counted(shared.scratch.beanstalkd.set_tube(&former));
        // In case that it is denied.
        self.asked_tube = former;
        let command = ConsumerCommand::Use { queue: counted(tube), former: known };
        self.submit_alone(Asked::Use, Command::Consumer(command))
    }

    fn peek<'s>(
        &mut self,
        verb: Verb,
        among: PeekedState,
        shared: &'s mut SessionContext,
    ) -> SessionAction<'s> {
        self.counters.count(verb);
        let queue = shared.scratch.beanstalkd.set_tube(&self.used);
        self.submit(Asked::Peek, Command::Consumer(ConsumerCommand::PeekFirst { queue, among }))
    }

    /// Submits a reserve from the watched tubes. Later commands wait for its reply.
    #[inline]
    pub(super) fn reserve<'s>(
        &mut self,
        wait_ms: u64,
        shared: &'s mut SessionContext,
    ) -> SessionAction<'s> {
        self.note_worker();
        let queues = shared.scratch.beanstalkd.watched(self.names, &self.watched);
        let serial = Asked::Reserve.serial(self.replies.open());
        self.state = State::Waiting(serial);
        self.is_waiting = true;
        self.counters.waiting.add();
        let wait = Wait::UntilLeaseEnds(wait_ms);
        SessionAction::Submit(serial, Command::Reserve { queues, wait })
    }

    /// The tubes that it uses and watches, but for `default`.
    pub(in crate::protocol) fn interest(&self) -> (Box<[u8]>, StringList) {
        let used: Box<[u8]> =
            if *self.used == *DEFAULT { Box::default() } else { self.used.clone() };
        let mut watched = StringList::default();
        for tube in self.watched.iter().filter(|tube| *tube != DEFAULT) {
            watched.push(tube);
        }
        (used, watched)
    }

    fn write_used(&mut self, out: &mut OutBuf) -> SessionAction<'static> {
        let number = self.replies.open();
        self.replies.close(number, out, |out| reply::write_using(&self.used, out));
        SessionAction::Continue
    }

    fn write_watching(&mut self, out: &mut OutBuf) -> SessionAction<'static> {
        let (number, count) = (self.replies.open(), self.watched.len());
        self.replies.close(number, out, |out| reply::write_watching(count, out));
        SessionAction::Continue
    }
}
