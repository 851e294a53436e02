//! What jobs hold: everything follows from a token, so that nothing need be kept to know it again.

use crate::dice::Dice;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use jobcentre::wire::packets::{Request, push_request};

/// Queues that jobs are put into by lines and by packets. The last one of the first is popped from
/// by packets, too.
pub(super) const LINE_QUEUES: [&str; 4] = ["l0", "l1", "l2", "l3"];
pub(super) const PACKET_QUEUES: [&str; 2] = ["p0", "p1"];
pub(super) const POPPED_QUEUES: [&str; 3] = ["p0", "p1", "l3"];

/// How many keys packets have.
const KEYS: u64 = 12;

/// Which door a job came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Lines,
    Packets,
}

/// A job that is to be put, or was.
pub(super) struct Content {
    pub(super) queue: &'static str,
    /// As it is shown by the line door.
    pub(super) pri: String,
    pub(super) job: String,
    /// The fields of a put besides.
    terms: &'static str,
    /// As it is shown by the packet door: key, payload.
    pub(super) key: Vec<u8>,
    pub(super) payload: Vec<u8>,
    priority: u8,
}

fn padding(dice: &mut Dice) -> String {
    let length = if dice.percent(5) { dice.below(20_000) } else { dice.below(300) };
    let letters = ["a", "b", "é", " ", "7"];
    let letter = dice.word(&letters);
    letter.repeat(length)
}

impl Content {
    pub(super) fn new(door: Door, token: u64) -> Self {
        let mut dice = Dice::new(token);
        let pad = padding(&mut dice);
        let job = format!(r#"{{"n":{token}, "pad":"{pad}"}}"#);
        match door {
            Door::Lines => {
                let number = dice.below(1_000);
                let digits = if dice.percent(5) { "12345678901234567890" } else { "" };
                let terms = ["", "", "", r#","ttl":3600000"#, r#","ttr":60000"#];
                Self {
                    queue: dice.word(&LINE_QUEUES),
                    pri: format!("{}{number:03}", if digits.is_empty() { "1" } else { digits }),
                    terms: dice.word(&terms),
                    key: Vec::new(),
                    payload: job.clone().into_bytes(),
                    job,
                    priority: 0,
                }
            }
            Door::Packets => {
                let key = format!("key {}", token % KEYS).into_bytes();
                let priority = u8::try_from(dice.between(1, 255)).unwrap();
                let payload = [&token.to_be_bytes()[..], pad.as_bytes()].concat();
                let [first, second] = [&key, &payload].map(|bytes| BASE64_STANDARD.encode(bytes));
                Self {
                    queue: dice.word(&PACKET_QUEUES),
                    pri: format!("-{priority}"),
                    job: format!(r#"{{"key":"{first}","payload":"{second}"}}"#),
                    terms: "",
                    key,
                    payload,
                    priority,
                }
            }
        }
    }

    /// The request that puts it, by lines.
    pub(super) fn push_put(&self, out: &mut Vec<u8>) {
        let Self { queue, pri, job, terms, .. } = self;
        let line = format!(
            "{{\"request\":\"put\",\"queue\":\"{queue}\",\"pri\":{pri},\"job\":{job}{terms}}}\n"
        );
        out.extend_from_slice(line.as_bytes());
    }

    /// The same by packets.
    pub(super) fn push_packet(&self, out: &mut Vec<u8>) {
        let packet = &[&self.key[..], &self.payload].concat();
        let (queue, priority) = (self.queue.as_bytes(), self.priority);
        let key_len = u16::try_from(self.key.len()).unwrap();
        push_request(out, &Request::Push { queue, ttl_ms: 0, priority, key_len, packet });
    }

    /// The answer to a get that hands it out.
    pub(super) fn line(&self, id: u64) -> String {
        let Self { queue, pri, job, .. } = self;
        format!(r#"{{"status":"ok","id":{id},"job":{job},"pri":{pri},"queue":"{queue}"}}"#)
    }
}

/// The token of the job in an answer to a get, whose every byte must be right, and its id.
#[track_caller]
pub(super) fn recognise(reply: &str) -> (Door, u64, u64) {
    let json: serde_json::Value = serde_json::from_str(reply).unwrap();
    let id = json["id"].as_u64().unwrap_or_else(|| panic!("no job: {reply}"));
    let (door, token) = if let Some(token) = json["job"]["n"].as_u64() {
        (Door::Lines, token)
    } else {
        let text = json["job"]["payload"].as_str().unwrap();
        (Door::Packets, token_of(&BASE64_STANDARD.decode(text).unwrap()))
    };
    assert_eq!(reply, Content::new(door, token).line(id), "a job has come back as another");
    (door, token, id)
}

/// The token of a packet.
pub(super) fn token_of(payload: &[u8]) -> u64 {
    u64::from_be_bytes(payload[..8].try_into().unwrap())
}
