//! Lines of Job Centre and packets: what their requests ask of the oracle, and how its answers are
//! written.

use super::types::{Answer, Load, Queue, Replies};
use super::{NewJob, Oracle};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use jobcentre::model::command::Wait;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{Encoding, JobOptions, TieBreak};
use jobcentre::model::reply::Rejection;

/// The serial of a client's open pop, which waits in its subscribed queues. Of other requests only
/// one is open at a time; theirs is 0.
pub(crate) const OPEN_POP: u32 = 1;

/// What a line or a run of bytes asks for.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Put {
        queue: Queue,
        pri: i128,
        job: Load,
    },
    Get {
        queues: Vec<Queue>,
        wait: bool,
    },
    Delete(JobId),
    Abort(JobId),
    /// An ill-formed line, with the reply that it gets.
    Bad(Vec<u8>),

    Push {
        queue: Queue,
        ttl_ms: u16,
        priority: u8,
        packet: Load,
    },
    Pop(Queue),
    Subscribe(Queue),
    Unsubscribe(Queue),
    Ready,
    /// A byte that begins no request, and whatever is behind it.
    Junk,
}

impl Request {
    /// A request of packets as bytes; `name`: of a queue.
    ///
    /// # Panics
    /// If it is a line, or no request.
    pub(crate) fn packet_bytes(&self, name: impl Fn(Queue) -> &'static str) -> Vec<u8> {
        let short = |number: usize| u16::try_from(number).unwrap().to_be_bytes();
        let named = |kind: u8, queue: Queue| {
            let name = name(queue).as_bytes();
            [&[kind][..], &short(name.len()), name].concat()
        };
        match *self {
            Self::Pop(queue) => named(b'P', queue),
            Self::Subscribe(queue) => named(b's', queue),
            Self::Unsubscribe(queue) => named(b'u', queue),
            Self::Ready => b"A".to_vec(),
            Self::Push { queue, ttl_ms, priority, ref packet } => {
                let (name, key_len) = (name(queue).as_bytes(), packet.key().unwrap().len());
                let [named, key, payload] =
                    [name.len(), key_len, packet.text.len() - key_len].map(short);
                let ttl = ttl_ms.to_be_bytes();
                let head = [b"p", &named[..], &ttl, &[priority], &key, &payload].concat();
                [&head, packet.text.bytes(), name].concat()
            }
            _ => panic!("no packets: {self:?}"),
        }
    }

    /// Has the oracle perform it.
    ///
    /// # Panics
    /// If it is the session's affair: ill-formed, or about subscriptions.
    pub(crate) fn perform(&self, oracle: &mut Oracle, client: ClientId) -> Replies {
        let ticket = Ticket { client, serial: 0 };
        oracle.submit(|oracle| match *self {
            Self::Put { queue, pri, ref job } => {
                oracle.put(ticket, NewJob::plain(queue, Some(pri), job.clone()));
            }
            Self::Push { queue, ttl_ms, priority, ref packet } => {
                let priority = (priority > 0).then_some(-i128::from(priority));
                let options = JobOptions { ttl_ms: ttl_ms.into(), ..JobOptions::default() };
                let options = (ttl_ms > 0).then_some(options);
                let tie_break = TieBreak::Lifo;
                let plain = NewJob::plain(queue, priority, packet.clone());
                oracle.put(ticket, NewJob { tie_break, options, ..plain });
            }
            Self::Get { ref queues, wait } => {
                oracle.reserve(ticket, queues, if wait { Wait::Forever } else { Wait::No });
            }
            Self::Pop(queue) => oracle.pop(ticket, &[queue], Wait::No),
            Self::Delete(id) => oracle.delete(ticket, id),
            Self::Abort(id) => oracle.release(ticket, id, None),
            _ => panic!("{self:?} is the session's affair"),
        })
    }
}

/// A client wants packets of these queues, and waits for them.
pub(crate) fn open_pop(oracle: &mut Oracle, client: ClientId, queues: &[Queue]) -> Replies {
    let ticket = Ticket { client, serial: OPEN_POP };
    oracle.submit(|oracle| oracle.pop(ticket, queues, Wait::Forever))
}

/// An open pop waits in one more queue.
pub(crate) fn subscribe(oracle: &mut Oracle, client: ClientId, queue: Queue) -> Replies {
    let ticket = Ticket { client, serial: 0 };
    oracle.submit(|oracle| oracle.subscribe(ticket, OPEN_POP, queue))
}

/// An open pop waits in one queue less.
pub(crate) fn unsubscribe(oracle: &mut Oracle, client: ClientId, queue: Queue) -> Replies {
    let ticket = Ticket { client, serial: 0 };
    oracle.submit(|oracle| oracle.unsubscribe(ticket, OPEN_POP, queue))
}

/// A client waits no more, and is not told so.
pub(crate) fn stop_waiting(oracle: &mut Oracle, client: ClientId) {
    while let Some(ticket) = oracle.waiting(client) {
        oracle.run(|oracle| oracle.cancel(ticket));
    }
}

/// A payload as JSON.
pub(crate) fn json(encoding: Encoding, bytes: &[u8]) -> String {
    match encoding {
        Encoding::Packet { key_len } => {
            let (key, payload) = bytes.split_at(usize::from(key_len));
            let [key, payload] = [key, payload].map(|bytes| BASE64_STANDARD.encode(bytes));
            format!("{{\"key\":\"{key}\",\"payload\":\"{payload}\"}}")
        }
        Encoding::Bytes => match serde_json::from_slice::<serde::de::IgnoredAny>(bytes) {
            Ok(_) => String::from_utf8(bytes.trim_ascii().to_vec()).unwrap().replace('\n', " "),
            Err(_) => format!("{{\"base64\":\"{}\"}}", BASE64_STANDARD.encode(bytes)),
        },
        _ => String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

/// A line; `names` are those of the queues, in JSON.
///
/// # Panics
/// If no request of a line is answered so.
pub(crate) fn line(said: &Answer, names: &[&str]) -> Vec<u8> {
    let refused = |id: u64, why: &str| {
        format!("{{\"status\":\"error\",\"error\":\"field 'id': job {id} {why}\"}}\n")
    };
    let line = match said {
        Answer::Done => "{\"status\":\"ok\"}\n".to_owned(),
        Answer::NoJob => "{\"status\":\"no-job\"}\n".to_owned(),
        Answer::Put(id) => format!("{{\"status\":\"ok\",\"id\":{id}}}\n"),
        Answer::Refused(Rejection::NotReserved(id)) => refused(id.0, "is not reserved"),
        Answer::Refused(Rejection::ReservedByAnother(id)) => {
            refused(id.0, "is being worked on by another client")
        }
        Answer::Job(view) => {
            let (id, pri, queue) = (view.id, view.priority.unwrap(), names[view.queue]);
            let job = json(view.load.encoding, view.load.text.bytes()).replace('\n', " ");
            let fields = format!("\"id\":{id},\"job\":{job},\"pri\":{pri},\"queue\":{queue}");
            format!("{{\"status\":\"ok\",{fields}}}\n")
        }
        other => panic!("no line is answered by {other:?}"),
    };
    line.into_bytes()
}

/// What a pop is answered; nothing for requests that have no answer.
///
/// # Panics
/// If no request of packets is answered so.
pub(crate) fn packets(said: &Answer) -> Option<Vec<u8>> {
    let short = |number: usize| u16::try_from(number).unwrap().to_be_bytes();
    let packets = match said {
        Answer::Packets(packets) => &packets[..],
        Answer::NoJob | Answer::TooLarge(_) => &[],
        Answer::Put(_) | Answer::Done => return None,
        other => panic!("no request of packets is answered by {other:?}"),
    };
    let mut bytes = short(packets.len()).to_vec();
    for (key_len, text) in packets {
        let payload_len = text.len() - usize::from(*key_len);
        bytes.extend(key_len.to_be_bytes().into_iter().chain(short(payload_len)));
        bytes.extend_from_slice(text.bytes());
    }
    Some(bytes)
}
