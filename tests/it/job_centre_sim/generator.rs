//! The generator: lines with their meaning, and the profile of a run.

use crate::oracle::Oracle;
use crate::oracle::types::Load;
use crate::oracle::wire::Request;
use crate::rng::TestRng;
use crate::server_oracle::types::Name;
use jobcentre::base::time::Now;
use jobcentre::engine::Engine;
use jobcentre::model::driver::{Core, Protocol};
use jobcentre::model::id::{ClientId, JobId};
use jobcentre::server::{Server, Settings};
use std::fmt::Write;

const fn name(written: &'static [&'static str], shown: &'static str, bytes: &'static str) -> Name {
    Name { written, path: [""; 2], shown, bytes }
}

/// All queues of the simulated simulation. Elsewhere a queue is its number in this list.
pub(super) const QUEUES: [Name; 7] = [
    name(&[r#""a""#, r#""\u0061""#], r#""a""#, "a"),
    name(&[r#""b""#], r#""b""#, "b"),
    name(&[r#""""#], r#""""#, ""),
    name(&[r#""\u0000""#], r#""\u0000""#, "\0"),
    name(&[r#""\"\\\/\n""#, r#""\u0022\u005c\u002f\u000A""#], r#""\"\\/\n""#, "\"\\/\n"),
    name(&[r#""é😀""#, r#""\u00e9\ud83d\ude00""#], r#""é😀""#, "é😀"),
    name(&[r#""a ""#], r#""a ""#, "a "),
];

/// How wild a run is; drawn once from its seed.
#[derive(Debug)]
pub(super) struct Profile {
    pub(super) settings: Settings,
    /// How many peers the run tries to have connected.
    pub(super) peers: usize,
    pub(super) passes: usize,
    /// How many requests are written at once, at most.
    pub(super) burst: usize,
    /// How many in a hundred peers read their replies late or never.
    pub(super) slow: usize,
    /// How many in a hundred passes a peer begins to leave.
    pub(super) leaving: usize,
    /// How many in a hundred times a peer writes thousands of ill-formed lines.
    pub(super) malformed_bursts: usize,
    /// Whether more jobs are asked for than are put, so that many wait.
    more_gets_than_puts: bool,
    /// How many in a hundred times a peer asks for far too large packets.
    pub(super) oversized_reads: usize,
    /// How many in a hundred peers speak packets.
    pub(super) packets: usize,
    /// Length of the padding in jobs, at most.
    padding: usize,
    queues: usize,
    /// How many different priorities there are.
    priorities: usize,
}

impl Profile {
    pub(super) fn draw(rng: &mut TestRng) -> Self {
        let crowded = rng.percent(10);
        let heavy = rng.percent(12);
        let max_request = if heavy { 100_000 } else { *rng.pick(&[64, 120, 300, 2_000]) };
        Self {
            settings: Settings {
                max_request,
                max_clients: if crowded { rng.between(1, 3) } else { 100 },
                max_memory: None,
            },
            peers: if crowded { *rng.pick(&[5, 10, 30, 160]) } else { rng.between(1, 12) },
            passes: rng.between(20, 120),
            burst: *rng.pick(&[1, 2, 8, 40]),
            slow: *rng.pick(&[0, 20, 60]),
            leaving: *rng.pick(&[2, 10, 30]),
            more_gets_than_puts: rng.percent(40),
            malformed_bursts: usize::from(rng.percent(8)),
            padding: if heavy { 30_000 } else { *rng.pick(&[0, 20, 200]) },
            queues: rng.between(1, QUEUES.len()),
            priorities: *rng.pick(&[1, 3, 1_000]),
            oversized_reads: *rng.pick(&[0, 0, 0, 5]),
            packets: *rng.pick(&[0, 30, 60, 90]),
        }
    }
}

/// Some bytes that are no request, and a word that the error must hold.
const BAD: [(&[u8], &str); 44] = [
    (b"", "empty"),
    (b" ", "empty"),
    (b"\xef\xbb\xbf{}", "byte order mark"),
    (b"{\"request\":\"\xff\"}", "UTF-8"),
    (b"nonsense", "not JSON"),
    (b"{", "not JSON"),
    (b"{\"request\":\"get\",\"queues\":[],}", "not JSON"),
    (b"{\"request\":\"get\",\"queues\":[]}x", "not JSON"),
    (b"{\"request\":\"get\",\"queues\":[] \"wait\":true}", "not JSON"),
    (b"{\"request\":\"delete\",\"id\":01}", "not JSON"),
    (b"{\"request\":\"delete\",\"id\":+1}", "not JSON"),
    (b"{'request':'delete','id':1}", "not JSON"),
    (b"[]", "array"),
    (b"7", "number"),
    (b"null", "null"),
    (b"\"put\"", "string"),
    (b"true", "boolean"),
    (b"{}", "'request'"),
    (b"{\"request\":null}", "'request'"),
    (b"{\"request\":\"PUT\"}", "PUT"),
    (b"{\"request\":\"\\\"\\n\"}", "'request'"),
    (b"{\"request\":\"get\",\"request\":1}", "'request'"),
    (b"{\"request\":\"get\"}", "'queues'"),
    (b"{\"request\":\"get\",\"queues\":\"a\"}", "'queues'"),
    (b"{\"request\":\"get\",\"queues\":[\"a\",1]}", "'queues'"),
    (b"{\"request\":\"get\",\"queues\":[[]]}", "'queues'"),
    (b"{\"request\":\"get\",\"queues\":[\"\\ud800\"]}", "'queues'"),
    (b"{\"request\":\"get\",\"queues\":[\"a\"],\"wait\":1}", "'wait'"),
    (b"{\"request\":\"get\",\"queues\":[\"a\"],\"wait\":null}", "'wait'"),
    (b"{\"request\":\"delete\"}", "'id'"),
    (b"{\"request\":\"delete\",\"id\":\"1\"}", "'id'"),
    (b"{\"request\":\"delete\",\"id\":1.0}", "'id'"),
    (b"{\"request\":\"abort\",\"id\":1e2}", "'id'"),
    (b"{\"request\":\"abort\",\"id\":null}", "'id'"),
    (b"{\"request\":\"put\",\"queue\":\"a\",\"pri\":1}", "'job'"),
    (b"{\"request\":\"put\",\"queue\":\"a\",\"job\":{}}", "'pri'"),
    (b"{\"request\":\"put\",\"job\":{},\"pri\":1}", "'queue'"),
    (b"{\"request\":\"put\",\"queue\":\"a\",\"job\":[],\"pri\":1}", "'job'"),
    (b"{\"request\":\"put\",\"queue\":\"a\",\"job\":{},\"pri\":-0}", "'pri'"),
    (b"{\"request\":\"put\",\"queue\":\"a\",\"job\":{},\"pri\":-1}", "'pri'"),
    (b"{\"request\":\"put\",\"queue\":\"a\",\"job\":{},\"pri\":1e400}", "'pri'"),
    (b"{\"request\":\"put\",\"queue\":\"a\",\"job\":{},\"pri\":2,\"pri\":\"2\"}", "'pri'"),
    (b"{\"request\":\"put\",\"queue\":\"\\udc00\",\"job\":{},\"pri\":1}", "'queue'"),
    (b"{\"request\":\"put\",\"queue\":7,\"job\":{},\"pri\":1}", "'queue'"),
];

/// Objects that a job may be; `#` is replaced by something unique and padding.
const SHAPES: [&str; 10] = [
    r##"{"n":"#"}"##,
    r##"{ "n" : "#" }"##,
    "{\r\t\"n\":\"#\"\r}",
    r##"{"#":{"a":[1,{"b":[[[[]]]]},"}"]},"last":"\\"}"##,
    r##"{"n":12345678901234567890123,"s":"#"}"##,
    r##"{"n":[1e400,-0,0.10,1E-7],"s":"#"}"##,
    r#"{"\ud800":"\udfff#"}"#,
    r##"{"n":1,"n":2,"\u006e":"#"}"##,
    r##"{"request":"get","queues":["#"],"pri":-1}"##,
    r##"{"é😀":"#"}"##,
];

/// What a fresh server says to a line that it does not like: the wording is not what is simulated.
pub(super) fn error_of(line: &[u8], settings: Settings) -> Vec<u8> {
    let mut server = Server::new(settings, Engine::in_memory(0));
    let client = server.handle_open(Protocol::JobCentre, Now::default()).unwrap();
    server.handle_input(client, &[line, b"\n"].concat(), Now::default());
    let reply = server.output(client).to_vec();
    let text = String::from_utf8(reply.clone()).unwrap();
    assert!(text.starts_with(r#"{"status":"error","error":""#), "{text}");
    assert!(text.ends_with("\"}\n") && text.lines().count() == 1, "{text}");
    reply
}

/// Writes requests.
pub(super) struct Generator {
    bad: Vec<Vec<u8>>,
    serial: usize,
}

impl Generator {
    pub(super) fn new(settings: Settings) -> Self {
        let roomy = Settings { max_request: settings.max_request.max(1_000), ..settings };
        let bad = BAD.iter().map(|(line, word)| {
            let reply = error_of(line, roomy);
            assert!(String::from_utf8_lossy(&reply).contains(word), "{word} is not mentioned");
            reply
        });
        Self { bad: bad.collect(), serial: 0 }
    }

    /// A line, its end included, and what it means. `client` knows what happened so far.
    pub(super) fn line(
        &mut self,
        rng: &mut TestRng,
        profile: &Profile,
        client: ClientId,
        store: &Oracle,
    ) -> (Vec<u8>, Request) {
        let (mut line, request) = match rng.below(100) {
            0..16 => self.put(rng, profile),
            16..38 if !profile.more_gets_than_puts => self.put(rng, profile),
            16..66 => get(rng, profile),
            66..80 => {
                let (id, text) = an_id(rng, client, store);
                (write(rng, "delete", vec![("id", text)]), Request::Delete(id))
            }
            80..90 => {
                let (id, text) = an_id(rng, client, store);
                (write(rng, "abort", vec![("id", text)]), Request::Abort(id))
            }
            90..95 => {
                let bad = rng.below(BAD.len());
                (BAD[bad].0.to_vec(), Request::Bad(self.bad[bad].clone()))
            }
            _ => {
                // Around the limit; a line that is not too long is then still not JSON, and not the
                // beginning of another protocol either.
                let max = profile.settings.max_request;
                let length = rng.between(max - 2, max + 3).max(1);
                let line = vec![b']'; if rng.percent(10) { 70_000 } else { length }];
                (line, Request::Bad(error_of(b"]", profile.settings)))
            }
        };
        let crlf = rng.percent(if line.starts_with(b"]") { 60 } else { 10 });
        line.extend_from_slice(if crlf { b"\r\n" } else { b"\n" });
        (line, request)
    }

    /// The shortest invalid line, for clients that send thousands of them.
    pub(super) fn nonsense(&self) -> (Vec<u8>, Request) {
        (b"\n".to_vec(), Request::Bad(self.bad[0].clone()))
    }

    fn put(&mut self, rng: &mut TestRng, profile: &Profile) -> (Vec<u8>, Request) {
        let (queue, name) = a_queue(rng, profile);
        let pri = match rng.below(100) {
            0..80 => rng.below(profile.priorities).to_string(),
            80..90 => (u64::MAX / 2 - 2 + rng.below(4) as u64).to_string(),
            90..95 => (u64::MAX - rng.below(3) as u64).to_string(),
            _ => format!("1{:0width$}", rng.below(3), width = rng.between(19, 29)),
        };
        self.serial += 1;
        let mut padding = rng.below(profile.padding + 1);
        if profile.settings.max_request > 70_000 && rng.percent(10) {
            padding = 65_400 + rng.below(200);
        }
        let unique = format!("{}{}", self.serial, "x".repeat(padding));
        let job = rng.pick(&SHAPES).replace('#', &unique);
        let fields = vec![("queue", name), ("job", job.clone()), ("pri", pri.clone())];
        let (pri, job) = (pri.parse().unwrap(), Load::json(&job));
        (write(rng, "put", fields), Request::Put { queue, pri, job })
    }
}

/// A request of packets, as bytes and what it means.
pub(super) fn packets(rng: &mut TestRng, profile: &Profile) -> (Vec<u8>, Request) {
    let queue = rng.below(profile.queues);
    if rng.percent(if profile.more_gets_than_puts { 25 } else { 45 }) {
        return written(push(rng, profile, queue));
    }
    written(match rng.below(200) {
        0..60 => Request::Pop(queue),
        60..75 => Request::Unsubscribe(queue),
        75..110 => Request::Subscribe(queue),
        110..199 => Request::Ready,
        _ => {
            let junk = *rng.pick(&[0, b'G', b'p' + 1, 0xff]);
            return ([junk].repeat(rng.between(1, 300)), Request::Junk);
        }
    })
}

fn written(request: Request) -> (Vec<u8>, Request) {
    (request.packet_bytes(|queue| QUEUES[queue].bytes), request)
}

/// Asks for more than can be unsent at a time: by credits that come first, or by pops while a
/// credit waits for something else.
pub(super) fn oversized_reads(rng: &mut TestRng) -> Vec<(Vec<u8>, Request)> {
    const COUNT: u8 = 12;
    let times = |request: Request| (0..COUNT).map(move |_| request.clone());
    let mut oversized_reads = Vec::new();
    let pops = rng.percent(50);
    if !pops {
        oversized_reads.push(Request::Subscribe(0));
        oversized_reads.extend(times(Request::Ready));
    }
    for number in 0..COUNT {
        let key = vec![number; 60_000];
        let packet = Load::packet(&key, b"long");
        oversized_reads.push(Request::Push { queue: 0, ttl_ms: 0, priority: 1, packet });
    }
    if pops {
        oversized_reads.extend([Request::Subscribe(1), Request::Ready]);
        oversized_reads.extend(times(Request::Pop(0)));
    }
    oversized_reads.into_iter().map(written).collect()
}

fn push(rng: &mut TestRng, profile: &Profile, queue: usize) -> Request {
    let ttl_ms = *rng.pick(&[0, 0, 1, 100, 5_000, u16::MAX]);
    let priority = *rng.pick(&[0, 1, 1, 2, u8::MAX]);
    let key = rng.word(&["", "k", "kk", "l"]);
    let mut payload = rng.seed().to_be_bytes().to_vec();
    payload.resize(rng.below(profile.padding + 8), b'x');
    Request::Push { queue, ttl_ms, priority, packet: Load::packet(key.as_bytes(), &payload) }
}

fn get(rng: &mut TestRng, profile: &Profile) -> (Vec<u8>, Request) {
    let count = *rng.pick(&[0, 1, 1, 1, 2, 3, 6]);
    let (queues, names): (Vec<usize>, Vec<String>) =
        (0..count).map(|_| a_queue(rng, profile)).unzip();
    let comma = rng.word(&[",", " , "]);
    let mut fields = vec![("queues", format!("[{}]", names.join(comma)))];
    let wait = rng.percent(if profile.more_gets_than_puts { 80 } else { 30 });
    if wait || rng.percent(20) {
        fields.push(("wait", wait.to_string()));
    }
    (write(rng, "get", fields), Request::Get { queues, wait })
}

fn a_queue(rng: &mut TestRng, profile: &Profile) -> (usize, String) {
    let queue = rng.below(profile.queues);
    (queue, rng.word(QUEUES[queue].written).to_owned())
}

/// An id: of a job that the client holds, or of any other, or one that will be given out soon, or
/// one that never will be.
fn an_id(rng: &mut TestRng, client: ClientId, store: &Oracle) -> (JobId, String) {
    let mine = store.jobs.iter().filter(|job| job.holder == Some(client));
    let mine: Vec<u64> = mine.map(|job| job.id).collect();
    let last = usize::try_from(store.last_id).unwrap();
    let id = match rng.below(10) {
        0..5 if !mine.is_empty() => *rng.pick(&mine),
        5..8 if !store.jobs.is_empty() => rng.pick(&store.jobs).id,
        8 => rng.below(last + 6) as u64,
        9 => {
            let never = ["0", "-1", "-0", "9007199254740992", "9223372036854775807"];
            let text = rng.word(&never);
            let more = if text.len() > 3 && rng.percent(50) { "0" } else { "" };
            return (JobId::NEVER, format!("{text}{more}"));
        }
        _ => last.saturating_sub(rng.below(3)) as u64,
    };
    (JobId(id), id.to_string())
}

/// A request as a client may write it: fields in any order, blanks, fields that do not matter.
fn write(rng: &mut TestRng, request: &str, mut fields: Vec<(&str, String)>) -> Vec<u8> {
    fields.push(("request", format!("\"{request}\"")));
    if rng.percent(10) {
        fields.push(("x", r#"[{"id":"no"},"]}",{}]"#.to_owned()));
    }
    rng.shuffle(&mut fields);
    if rng.percent(5) {
        // The last of a name counts.
        let (name, _) = *rng.pick(&fields);
        let other = rng.word(&["null", r#"{"a":1}"#, "\"\\ud800\"", "[1]", "1.5", "-7"]);
        fields.insert(0, (name, other.to_owned()));
    }
    let blank = rng.word(&["", "", "", " ", "\t", " \r"]);
    let escaped = rng.percent(5);
    let mut line = String::from("{");
    for (number, (name, value)) in fields.iter().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        let name = if escaped { name.replace('e', "\\u0065") } else { (*name).to_owned() };
        write!(line, "{comma}{blank}\"{name}\"{blank}:{blank}{value}{blank}").unwrap();
    }
    line.push('}');
    line.into_bytes()
}
