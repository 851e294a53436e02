//! beanstalkd's protocol: what its commands ask of the oracle, and how the oracle's answers are
//! written. What a connection uses and watches is kept here.

use super::ServerModel;
use super::client::State;
use super::types::{DEFAULT, Queue, Reply};
use crate::oracle::types::{Answer, Load, Replies, View};
use crate::oracle::{NewJob, Oracle};
use jobcentre::model::command::Wait;
use jobcentre::model::consumer::PeekedState;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{Encoding, JobOptions};

/// A command. Times are in seconds.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Put {
        priority: u32,
        delay_s: u64,
        ttr_s: u64,
        body: Load,
    },
    Use(Queue),
    /// `None`: without end.
    Reserve(Option<u64>),
    ReserveJob(JobId),
    Delete(JobId),
    Release {
        id: JobId,
        priority: u32,
        delay_s: u64,
    },
    Bury {
        id: JobId,
        priority: u32,
    },
    Touch(JobId),
    Watch(Queue),
    Ignore(Queue),
    Peek(JobId),
    PeekFirst(PeekedState),
    Kick(u32),
    KickJob(JobId),
    PauseTube {
        tube: Queue,
        delay_s: u64,
    },
    ListTubeUsed,
    ListTubesWatched,
    Quit,
    /// What is no command, with its reply.
    Bad(&'static [u8]),
}

/// What a connection uses and watches.
#[derive(Debug)]
pub(crate) struct Tubes {
    pub(super) used: Queue,
    pub(super) watched: Vec<Queue>,
}

impl Default for Tubes {
    fn default() -> Self {
        Self { used: DEFAULT, watched: vec![DEFAULT] }
    }
}

impl Tubes {
    /// Whether the store is asked about a command on what is used or watched.
    pub(super) fn asks(&self, request: &Request) -> bool {
        match *request {
            Request::Use(tube) => tube != self.used,
            Request::Watch(tube) => tube != DEFAULT && !self.watched.contains(&tube),
            Request::Ignore(tube) => {
                tube != DEFAULT && self.watched.contains(&tube) && self.watched.len() > 1
            }
            _ => false,
        }
    }
}

/// The tube as far as it counts: `default` exists always.
fn counted(tube: Queue) -> Option<Queue> {
    Some(tube).filter(|&tube| tube != DEFAULT)
}

impl Request {
    pub(crate) fn bytes(&self, name: impl Fn(Queue) -> &'static str) -> Vec<u8> {
        let among = |among: &PeekedState| match among {
            PeekedState::Ready => "ready",
            PeekedState::Delayed => "delayed",
            PeekedState::Buried => "buried",
        };
        let line = match self {
            Self::Put { priority, delay_s, ttr_s, body } => {
                let text = body.text.bytes();
                let line = format!("put {priority} {delay_s} {ttr_s} {}\r\n", text.len());
                return [line.as_bytes(), text, b"\r\n"].concat();
            }
            Self::Use(tube) => format!("use {}", name(*tube)),
            Self::Reserve(None) => "reserve".to_owned(),
            Self::Reserve(Some(wait_s)) => format!("reserve-with-timeout {wait_s}"),
            Self::ReserveJob(id) => format!("reserve-job {}", id.0),
            Self::Delete(id) => format!("delete {}", id.0),
            Self::Release { id, priority, delay_s } => {
                format!("release {} {priority} {delay_s}", id.0)
            }
            Self::Bury { id, priority } => format!("bury {} {priority}", id.0),
            Self::Touch(id) => format!("touch {}", id.0),
            Self::Watch(tube) => format!("watch {}", name(*tube)),
            Self::Ignore(tube) => format!("ignore {}", name(*tube)),
            Self::Peek(id) => format!("peek {}", id.0),
            Self::PeekFirst(state) => format!("peek-{}", among(state)),
            Self::Kick(bound) => format!("kick {bound}"),
            Self::KickJob(id) => format!("kick-job {}", id.0),
            Self::PauseTube { tube, delay_s } => format!("pause-tube {} {delay_s}", name(*tube)),
            Self::ListTubeUsed => "list-tube-used".to_owned(),
            Self::ListTubesWatched => "list-tubes-watched".to_owned(),
            Self::Quit => "quit".to_owned(),
            Self::Bad(_) => unreachable!("there are many ways to be wrong"),
        };
        format!("{line}\r\n").into_bytes()
    }

    /// Has the oracle perform a command about one job, or about the jobs of a tube.
    fn perform(&self, oracle: &mut Oracle, ticket: Ticket, tubes: &Tubes) {
        let used = tubes.used;
        match *self {
            Self::Put { priority, delay_s, ttr_s, ref body } => {
                let options = JobOptions {
                    delay_ms: delay_s * 1_000,
                    lease_ms: ttr_s.max(1) * 1_000,
                    ..JobOptions::default()
                };
                let plain = NewJob::plain(used, Some(-i128::from(priority)), body.clone());
                oracle.put(ticket, NewJob { options: Some(options), ..plain });
            }
            Self::Reserve(wait_s) => {
                let wait = Wait::UntilLeaseEnds(wait_s.map_or(u64::MAX, |wait_s| wait_s * 1_000));
                oracle.reserve(ticket, &tubes.watched, wait);
            }
            Self::ReserveJob(id) => oracle.reserve_job(ticket, id),
            Self::Delete(id) => oracle.delete_own(ticket, id),
            Self::Release { id, priority, delay_s } => {
                oracle.release_with(ticket, (id, -i128::from(priority), delay_s * 1_000));
            }
            Self::Bury { id, priority } => oracle.bury_with(ticket, (id, -i128::from(priority))),
            Self::Touch(id) => oracle.touch(ticket, id, None),
            Self::Peek(id) => oracle.peek(ticket, id),
            Self::PeekFirst(among) => oracle.peek_first(ticket, used, among),
            Self::Kick(limit) => oracle.kick_either(ticket, used, limit),
            Self::KickJob(id) => oracle.kick_one(ticket, id),
            Self::PauseTube { tube, delay_s } => {
                oracle.pause_used(ticket, (tube, tube == DEFAULT), delay_s * 1_000);
            }
            ref other => unreachable!("that is the session's affair: {other:?}"),
        }
    }

    fn write(&self, said: &Answer) -> Vec<u8> {
        match (self, said) {
            (Self::Put { .. }, Answer::Put(id)) => format!("INSERTED {id}\r\n").into_bytes(),
            (Self::Reserve(_), answer) => reserved(answer),
            (Self::ReserveJob(_), Answer::Job(view)) => job("RESERVED", view),
            (Self::Delete(_), Answer::Done) => b"DELETED\r\n".to_vec(),
            (Self::Release { .. }, Answer::Done) => b"RELEASED\r\n".to_vec(),
            (Self::Bury { .. }, Answer::Done) => b"BURIED\r\n".to_vec(),
            (Self::Touch(_), Answer::Done) => b"TOUCHED\r\n".to_vec(),
            (Self::Peek(_) | Self::PeekFirst(_), Answer::Seen { view, .. }) => job("FOUND", view),
            (Self::Kick(_), Answer::Kicked(count)) => format!("KICKED {count}\r\n").into_bytes(),
            (Self::KickJob(_), Answer::Done) => b"KICKED\r\n".to_vec(),
            (Self::PauseTube { .. }, Answer::Done) => b"PAUSED\r\n".to_vec(),
            (_, Answer::NoJob | Answer::Refused(_)) => b"NOT_FOUND\r\n".to_vec(),
            (asked, answer) => panic!("{asked:?} is answered by {answer:?}"),
        }
    }
}

/// What a reserve is answered.
///
/// # Panics
/// If none is answered so.
pub(crate) fn reserved(said: &Answer) -> Vec<u8> {
    match said {
        Answer::Job(view) => job("RESERVED", view),
        Answer::NoJob | Answer::Cancelled => b"TIMED_OUT\r\n".to_vec(),
        Answer::LeaseEnding => b"DEADLINE_SOON\r\n".to_vec(),
        other => panic!("no reserve is answered by {other:?}"),
    }
}

/// A job behind a word: of a packet without its key.
fn job(word: &str, view: &View) -> Vec<u8> {
    let body = match view.load.encoding {
        Encoding::Packet { key_len } => &view.load.text.bytes()[usize::from(key_len)..],
        _ => view.load.text.bytes(),
    };
    [format!("{word} {} {}\r\n", view.id, body.len()).as_bytes(), body, b"\r\n"].concat()
}

impl ServerModel {
    /// A command: what the client is answered, and what others are.
    pub(super) fn command(&mut self, id: ClientId, request: &Request) -> (Reply, Replies) {
        let names = |queues: &[Queue], names: &[&'static [u8]]| {
            let lines = queues.iter().map(|&queue| [b"- ", names[queue], b"\n"].concat());
            let text = [b"---\n".to_vec(), lines.collect::<Vec<_>>().concat()].concat();
            [format!("OK {}\r\n", text.len()).as_bytes(), &text, b"\r\n"].concat()
        };
        let bytes = match *request {
            Request::Bad(reply) => reply.to_vec(),
            Request::Use(tube) => return self.use_tube(id, tube),
            Request::Watch(tube) => return self.watch(id, tube),
            Request::Ignore(tube) => return self.ignore(id, tube),
            Request::ListTubeUsed => self.using(id),
            Request::ListTubesWatched => {
                let watched = self.client(id).tubes.watched.clone();
                names(&watched, self.store.names())
            }
            Request::Quit => {
                let client = self.client(id);
                client.end();
                client.eof = true;
                self.see("beanstalkd: quit");
                return (Reply::Nothing, Replies::new());
            }
            _ => return self.command_on_jobs(id, request),
        };
        (Reply::Bytes(bytes), Replies::new())
    }

    fn command_on_jobs(&mut self, id: ClientId, request: &Request) -> (Reply, Replies) {
        let ticket = Ticket { client: id, serial: 0 };
        let tubes = std::mem::take(&mut self.client(id).tubes);
        let mut said = self.store.submit(|oracle| request.perform(oracle, ticket, &tubes));
        self.client(id).tubes = tubes;
        let Some(own) = said.iter().position(|(answered, _)| *answered == ticket) else {
            return (Reply::Later, said);
        };
        let (_, answer) = said.remove(own);
        if let (Request::Reserve(_) | Request::ReserveJob(_), Answer::Job(view)) =
            (request, &answer)
        {
            self.see(match view.load.encoding {
                Encoding::Bytes => "beanstalkd: a body",
                Encoding::Packet { .. } => "beanstalkd: a packet of another protocol",
                _ => "beanstalkd: JSON of another protocol",
            });
        }
        (Reply::Bytes(request.write(&answer)), said)
    }

    fn using(&mut self, id: ClientId) -> Vec<u8> {
        let used = self.client(id).tubes.used;
        [b"USING ", self.store.names()[used], b"\r\n"].concat()
    }

    fn watching(&mut self, id: ClientId) -> Vec<u8> {
        format!("WATCHING {}\r\n", self.client(id).tubes.watched.len()).into_bytes()
    }

    /// Performs a command whose answer is this, and tells the others.
    fn enter_or_leave(
        &mut self,
        ticket: Ticket,
        bytes: Vec<u8>,
        act: impl FnOnce(&mut Oracle),
    ) -> (Reply, Replies) {
        let mut said = self.store.submit(act);
        said.retain(|(answered, _)| *answered != ticket);
        (Reply::Bytes(bytes), said)
    }

    fn use_tube(&mut self, id: ClientId, tube: Queue) -> (Reply, Replies) {
        let former = std::mem::replace(&mut self.client(id).tubes.used, tube);
        let (bytes, ticket) = (self.using(id), Ticket { client: id, serial: 0 });
        if former == tube {
            return (Reply::Bytes(bytes), Replies::new());
        }
        let (used, former) = (counted(tube), counted(former));
        self.enter_or_leave(ticket, bytes, |oracle| oracle.use_queue(ticket, used, former))
    }

    fn watch(&mut self, id: ClientId, tube: Queue) -> (Reply, Replies) {
        let watched = &mut self.client(id).tubes.watched;
        let is_new = !watched.contains(&tube);
        if is_new {
            watched.push(tube);
        }
        let (bytes, ticket) = (self.watching(id), Ticket { client: id, serial: 0 });
        match counted(tube).filter(|_| is_new) {
            None => (Reply::Bytes(bytes), Replies::new()),
            Some(tube) => {
                self.enter_or_leave(ticket, bytes, |oracle| oracle.watch_queue(ticket, tube))
            }
        }
    }

    fn ignore(&mut self, id: ClientId, tube: Queue) -> (Reply, Replies) {
        let watched = &mut self.client(id).tubes.watched;
        let is_watched = watched.contains(&tube);
        if is_watched && watched.len() == 1 {
            return (Reply::Bytes(b"NOT_IGNORED\r\n".to_vec()), Replies::new());
        }
        if let Some(place) = watched.iter().position(|&it| it == tube) {
            watched.remove(place);
        }
        let (bytes, ticket) = (self.watching(id), Ticket { client: id, serial: 0 });
        match counted(tube).filter(|_| is_watched) {
            None => (Reply::Bytes(bytes), Replies::new()),
            Some(tube) => self.enter_or_leave(ticket, bytes, |oracle| {
                oracle.leave_queues(ticket, None, &[tube]);
            }),
        }
    }

    /// A connection ends: it uses and watches nothing any more.
    pub(super) fn lose_tubes(&mut self, tubes: &Tubes) -> Replies {
        let watched: Vec<Queue> = tubes.watched.iter().copied().filter_map(counted).collect();
        let used = counted(tubes.used);
        if used.is_none() && watched.is_empty() {
            return Replies::new();
        }
        self.store.submit(|oracle| oracle.drop_queue_user(used, &watched))
    }

    /// A client that sends no more waits for a job: it is told that there is none, and what it has
    /// sent behind the reserve is served.
    pub(super) fn end_wait(&mut self, id: ClientId) {
        self.see("beanstalkd: a wait ended with the input");
        let ticket = Ticket { client: id, serial: 0 };
        debug_assert_eq!(self.client(id).state, State::Waiting);
        let said = self.store.run(|oracle| oracle.cancel(ticket));
        self.deliver(said, None);
    }
}
