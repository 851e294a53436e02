//! Payloads that follow from a token, so that they need not be stored to be checked.

use crate::rng::TestRng;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use jobcentre::wire::packets::{Request, push_request};

/// Queues that jobs are put into by lines, by packets, and by beanstalkd's protocol. The last one
/// of the first is popped from by packets, too.
pub(super) const LINE_QUEUES: [&str; 4] = ["l0", "l1", "l2", "l3"];
pub(super) const PACKET_QUEUES: [&str; 2] = ["p0", "p1"];
pub(super) const TUBES: [&str; 2] = ["t0", "t1"];
pub(super) const POPPED_QUEUES: [&str; 3] = ["p0", "p1", "l3"];

/// How many keys packets have.
const KEYS: u64 = 12;

/// Which protocol a job came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Lines,
    Packets,
    Bodies,
}

/// A job that is to be put, or was.
pub(super) struct Content {
    pub(super) queue: &'static str,
    /// As it is shown by the line protocol.
    pub(super) pri: String,
    pub(super) job: String,
    /// The fields of a put besides.
    options: &'static str,
    /// As it is shown by the packet protocol: key, payload.
    pub(super) key: Vec<u8>,
    pub(super) payload: Vec<u8>,
    priority: u8,
}

fn padding(rng: &mut TestRng) -> String {
    let length = if rng.percent(5) { rng.below(20_000) } else { rng.below(300) };
    let letters = ["a", "b", "é", " ", "7"];
    let letter = rng.word(&letters);
    letter.repeat(length)
}

impl Content {
    pub(super) fn new(protocol: Protocol, token: u64) -> Self {
        let mut rng = TestRng::new(token);
        let pad = padding(&mut rng);
        let job = format!(r#"{{"n":{token}, "pad":"{pad}"}}"#);
        match protocol {
            Protocol::Lines => {
                let number = rng.below(1_000);
                let digits = if rng.percent(5) { "12345678901234567890" } else { "" };
                let options = ["", "", "", r#","ttl":3600000"#, r#","ttr":60000"#];
                Self {
                    queue: rng.word(&LINE_QUEUES),
                    pri: format!("{}{number:03}", if digits.is_empty() { "1" } else { digits }),
                    options: rng.word(&options),
                    key: Vec::new(),
                    payload: job.clone().into_bytes(),
                    job,
                    priority: 0,
                }
            }
            Protocol::Bodies => {
                let text = format!(r#"{{"t":{token}, "pad":"{pad}"}}"#);
                // JSON, or what is none behind the same beginning.
                let end = if token.is_multiple_of(2) { &b""[..] } else { b"\xff\r\n" };
                let payload = [text.as_bytes(), end].concat();
                let job = match end {
                    [] => text,
                    _ => format!(r#"{{"base64":"{}"}}"#, BASE64_STANDARD.encode(&payload)),
                };
                Self {
                    queue: rng.word(&TUBES),
                    pri: format!("-{}", 1 + rng.below(1_000)),
                    job,
                    options: "",
                    key: Vec::new(),
                    payload,
                    priority: 0,
                }
            }
            Protocol::Packets => {
                let key = format!("key {}", token % KEYS).into_bytes();
                let priority = u8::try_from(rng.between(1, 255)).unwrap();
                let payload = [&token.to_be_bytes()[..], pad.as_bytes()].concat();
                let [first, second] = [&key, &payload].map(|bytes| BASE64_STANDARD.encode(bytes));
                Self {
                    queue: rng.word(&PACKET_QUEUES),
                    pri: format!("-{priority}"),
                    job: format!(r#"{{"key":"{first}","payload":"{second}"}}"#),
                    options: "",
                    key,
                    payload,
                    priority,
                }
            }
        }
    }

    /// The request that puts it, by lines.
    pub(super) fn push_put(&self, out: &mut Vec<u8>) {
        let Self { queue, pri, job, options, .. } = self;
        let line = format!(
            "{{\"request\":\"put\",\"queue\":\"{queue}\",\"pri\":{pri},\"job\":{job}{options}}}\n"
        );
        out.extend_from_slice(line.as_bytes());
    }

    /// Its priority for beanstalkd's protocol.
    pub(super) fn urgency(&self) -> &str {
        self.pri.trim_start_matches('-')
    }

    /// The same by beanstalkd's protocol, into the tube that is used.
    pub(super) fn push_body(&self, out: &mut Vec<u8>) {
        let (urgency, length) = (self.urgency(), self.payload.len());
        out.extend_from_slice(format!("put {urgency} 0 60 {length}\r\n").as_bytes());
        out.extend_from_slice(&self.payload);
        out.extend_from_slice(b"\r\n");
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
pub(super) fn recognise(reply: &str) -> (Protocol, u64, u64) {
    let json: serde_json::Value = serde_json::from_str(reply).unwrap();
    let id = json["id"].as_u64().unwrap_or_else(|| panic!("no job: {reply}"));
    let (protocol, token) = if let Some(token) = json["job"]["n"].as_u64() {
        (Protocol::Lines, token)
    } else if let Some(token) = json["job"]["t"].as_u64() {
        (Protocol::Bodies, token)
    } else if let Some(text) = json["job"]["base64"].as_str() {
        (Protocol::Bodies, token_of_body(&BASE64_STANDARD.decode(text).unwrap()).1)
    } else {
        let text = json["job"]["payload"].as_str().unwrap();
        (Protocol::Packets, token_of(&BASE64_STANDARD.decode(text).unwrap()))
    };
    assert_eq!(reply, Content::new(protocol, token).line(id), "a job has come back as another");
    (protocol, token, id)
}

/// Whose body it is: by lines, or by beanstalkd's protocol. And its token.
pub(super) fn token_of_body(body: &[u8]) -> (Protocol, u64) {
    let digits = |name: &[u8]| {
        let rest = body.strip_prefix(name)?;
        let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
        std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
    };
    let of_lines = digits(br#"{"n":"#).map(|token| (Protocol::Lines, token));
    let own = || digits(br#"{"t":"#).map(|token| (Protocol::Bodies, token));
    of_lines.or_else(own).unwrap_or_else(|| panic!("no body: {}", body.escape_ascii()))
}

/// The token of a packet.
pub(super) fn token_of(payload: &[u8]) -> u64 {
    u64::from_be_bytes(payload[..8].try_into().unwrap())
}
