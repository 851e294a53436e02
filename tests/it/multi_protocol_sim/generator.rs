//! The generator: bytes with their meaning, and the profile of a run.

use super::requests::{self, Form};
use crate::oracle::types::{Load, Text};
use crate::oracle::{Job, Oracle, wire};
use crate::rng::TestRng;
use crate::server_oracle::beanstalkd;
use crate::server_oracle::types::{
    HttpOptions, QUEUES, Question, Queue, Request, STATES, State, Want,
};
use jobcentre::base::time::Now;
use jobcentre::engine::Engine;
use jobcentre::model::consumer::PeekedState;
use jobcentre::model::driver::{Core, Protocol};
use jobcentre::model::id::{ClientId, JobId};
use jobcentre::model::job::Encoding;
use jobcentre::server::{Server, Settings};

/// How wild a run is; drawn once from its seed.
#[derive(Debug)]
pub(super) struct Profile {
    /// How many peers the run tries to have connected.
    pub(super) peers: usize,
    pub(super) passes: usize,
    /// How many requests are written at once, at most.
    pub(super) burst: usize,
    /// How many in a hundred peers read late or never.
    pub(super) slow: usize,
    /// How many in a hundred passes a peer begins to leave.
    pub(super) leaving: usize,
    /// How many in a hundred peers come by HTTP, and how many by packets.
    pub(super) http: usize,
    pub(super) packets: usize,
    /// How many of the others come by beanstalkd's protocol.
    pub(super) tubes: usize,
    /// How many in a hundred passes much time passes.
    pub(super) idling: usize,
    /// In how many of a hundred passes searches end.
    pub(super) finding: usize,
    /// Whether more jobs are asked for than are put, so that many wait.
    more_gets_than_puts: bool,
    /// How many in a hundred questions are polls and advances.
    contention: usize,
    /// How many in a hundred queries ask for more than a state.
    searches: usize,
    /// How many in a hundred other questions are for everything that there is.
    full_listings: usize,
    /// Length of the padding in jobs, at most.
    padding: usize,
    queues: usize,
    priorities: usize,
}

impl Profile {
    pub(super) fn draw(rng: &mut TestRng) -> Self {
        let heavy = rng.percent(18);
        Self {
            peers: rng.between(2, 12),
            passes: rng.between(20, 100),
            burst: *rng.pick(&[1, 2, 6, 20]),
            slow: if heavy { 60 } else { *rng.pick(&[0, 20, 60]) },
            leaving: *rng.pick(&[1, 5, 20]),
            http: *rng.pick(&[40, 60, 80]),
            packets: *rng.pick(&[0, 0, 35]),
            tubes: 0,
            idling: *rng.pick(&[0, 2, 10]),
            finding: *rng.pick(&[5, 20, 100]),
            more_gets_than_puts: !heavy && rng.percent(30),
            contention: *rng.pick(&[0, 30, 70]),
            searches: *rng.pick(&[10, 40, 80]),
            full_listings: if heavy { 25 } else { 0 },
            padding: if heavy { 20_000 } else { *rng.pick(&[0, 20, 200]) },
            queues: if heavy { 2 } else { rng.between(1, QUEUES.len()) },
            priorities: *rng.pick(&[1, 3, 1_000]),
        }
    }
}

/// The limits of every run.
pub(super) const SETTINGS: Settings =
    Settings { max_request: 100_000, max_clients: 100, max_memory: None };

/// Jobs beyond this are not put: their backfill takes more than one pass.
pub(super) const JOBS_MAX: usize = 240;

/// A payload's text, in which `#` stands for something unique and `@` for a small number.
const OBJECTS: [&str; 6] = [
    r##"{"n":@,"s":"#"}"##,
    r##"{ "s" : "#" , "n" : @ }"##,
    r##"{"s":["#",0.10,-0,12345678901234567890123],"n":@}"##,
    r##"{"n":@,"#":{"a":[1,{"b":[[[[]]]]},"}"]},"last":"\\"}"##,
    r##"{"request":"get","queues":["#"],"pri":-1}"##,
    r##"{"é😀":"#"}"##,
];

/// Such payloads as only HTTP takes.
const VALUES: [&str; 6] =
    ["{\"n\":@,\n\"s\":\r\n\"#\"}", r##"["#",{"n":@}]"##, r##""#""##, "null", "-1.50", "[\n]"];

const EVENTS: [&str; 4] = ["7", r#""seen""#, r#"{"x":[1,2]}"#, "null"];

/// A line that means nothing.
const NONSENSE: &[u8] = b"nonsense\n";

/// What is no command of beanstalkd's protocol, and the reply.
const NO_COMMANDS: [(&[u8], &[u8]); 6] = [
    (b"nonsense\r\n", b"UNKNOWN_COMMAND\r\n"),
    (b"\r\n", b"UNKNOWN_COMMAND\r\n"),
    (b"peek x\r\n", b"BAD_FORMAT\r\n"),
    (b"reserve now\r\n", b"BAD_FORMAT\r\n"),
    (b"use -a\r\n", b"BAD_FORMAT\r\n"),
    (b"put 1 0 1 2\r\nabcd", b"EXPECTED_CRLF\r\n"),
];

/// Writes requests.
pub(super) struct Generator {
    refusal: Vec<u8>,
    serial: usize,
}

impl Generator {
    pub(super) fn new() -> Self {
        let mut server = Server::new(SETTINGS, Engine::in_memory(0));
        let client = server.handle_open(Protocol::JobCentre, Now::default()).unwrap();
        server.handle_input(client, NONSENSE, Now::default());
        Self { refusal: server.output(client).to_vec(), serial: 0 }
    }

    /// Bytes and what they mean. `full`: no job may be put.
    pub(super) fn write(
        &mut self,
        rng: &mut TestRng,
        profile: &Profile,
        (id, protocol): (ClientId, Protocol),
        store: &Oracle,
        full: bool,
    ) -> (Vec<u8>, Request) {
        match protocol {
            Protocol::JobCentre => {
                let (bytes, request) = self.line(rng, profile, id, store, full);
                (bytes, Request::Wire(request))
            }
            Protocol::Pinpriq => {
                let request = packets(rng, profile, full);
                let bytes = request.packet_bytes(|queue| QUEUES[queue].bytes);
                (bytes, Request::Wire(request))
            }
            Protocol::Http => self.http(rng, profile, store, full),
            Protocol::Beanstalkd => {
                let (bytes, request) = self.command(rng, profile, id, store, full);
                (bytes, Request::Beanstalkd(request))
            }
            Protocol::Processor => unreachable!("that protocol is not simulated"),
        }
    }

    fn line(
        &mut self,
        rng: &mut TestRng,
        profile: &Profile,
        client: ClientId,
        store: &Oracle,
        full: bool,
    ) -> (Vec<u8>, wire::Request) {
        let queue = rng.below(profile.queues);
        let name = rng.word(QUEUES[queue].written);
        let puts = if profile.more_gets_than_puts { 15 } else { 30 };
        let (text, request) = match rng.below(100) {
            part if part < puts && !full => {
                let shape = rng.word(&OBJECTS);
                let payload = self.payload(rng, profile, shape);
                let pri = match rng.below(10) {
                    0 => format!("1{:025}", rng.below(3)),
                    _ => rng.below(profile.priorities).to_string(),
                };
                let fields = format!("\"queue\":{name},\"pri\":{pri},\"job\":{payload}");
                let (pri, job) = (pri.parse().unwrap(), Load::json(&payload));
                let request = wire::Request::Put { queue, pri, job };
                (format!("{{\"request\":\"put\",{fields}}}"), request)
            }
            0..65 => {
                let mut queues = vec![queue];
                for _ in 0..rng.below(3) {
                    queues.push(rng.below(profile.queues));
                }
                let names: Vec<&str> =
                    queues.iter().map(|&queue| rng.word(QUEUES[queue].written)).collect();
                let wait = rng.percent(if profile.more_gets_than_puts { 80 } else { 40 });
                let fields = format!("\"queues\":[{}],\"wait\":{wait}", names.join(", "));
                (format!("{{\"request\":\"get\",{fields}}}"), wire::Request::Get { queues, wait })
            }
            part @ 65..97 => {
                let id = an_id(rng, Some(client), store);
                let (word, request) = if part < 83 || full {
                    ("delete", wire::Request::Delete(JobId(id)))
                } else {
                    ("abort", wire::Request::Abort(JobId(id)))
                };
                (format!("{{\"id\":{id},\"request\":\"{word}\"}}"), request)
            }
            _ => return (NONSENSE.to_vec(), wire::Request::Bad(self.refusal.clone())),
        };
        let end = rng.word(&["\n", "\n", "\r\n"]);
        (format!("{text}{end}").into_bytes(), request)
    }

    fn command(
        &mut self,
        rng: &mut TestRng,
        profile: &Profile,
        client: ClientId,
        store: &Oracle,
        full: bool,
    ) -> (Vec<u8>, beanstalkd::Request) {
        use beanstalkd::Request as Ask;
        // The names of the others are none of tubes.
        let tube = rng.below(profile.queues.min(3));
        let puts = if profile.more_gets_than_puts { 10 } else { 25 };
        let id = JobId(an_id(rng, Some(client), store));
        let priority = u32::try_from(rng.below(profile.priorities)).unwrap();
        let delay_s = *rng.pick(&[0, 0, 0, 1, 3]);
        let request = match rng.below(100) {
            part if part < puts && !full => {
                let ttr_s = *rng.pick(&[0, 1, 2, 30]);
                Ask::Put { priority, delay_s, ttr_s, body: self.body(rng, profile) }
            }
            0..45 => {
                let waits = rng.percent(if profile.more_gets_than_puts { 80 } else { 40 });
                Ask::Reserve(if waits { *rng.pick(&[None, Some(1), Some(5)]) } else { Some(0) })
            }
            45..53 => Ask::Delete(id),
            53..59 => Ask::Release { id, priority, delay_s },
            59..64 => Ask::Bury { id, priority },
            64..67 => Ask::Touch(id),
            67..71 => Ask::ReserveJob(id),
            71..74 => Ask::KickJob(id),
            74..78 => Ask::Kick(*rng.pick(&[0, 1, 2, 5, u32::MAX])),
            78..82 => Ask::Use(tube),
            82..86 => Ask::Watch(tube),
            86..89 => Ask::Ignore(tube),
            89..91 => Ask::PauseTube { tube, delay_s: *rng.pick(&[0, 0, 1, 5, 100]) },
            91..93 => Ask::Peek(id),
            93..96 => {
                let states = [PeekedState::Ready, PeekedState::Delayed, PeekedState::Buried];
                Ask::PeekFirst(*rng.pick(&states))
            }
            96 => Ask::ListTubeUsed,
            97 => Ask::ListTubesWatched,
            98 if rng.percent(30) => Ask::Quit,
            _ => {
                let (bytes, reply) = *rng.pick(&NO_COMMANDS);
                return (bytes.to_vec(), Ask::Bad(reply));
            }
        };
        (request.bytes(|queue| QUEUES[queue].bytes), request)
    }

    /// What a put carries: JSON, text or any bytes.
    fn body(&mut self, rng: &mut TestRng, profile: &Profile) -> Load {
        let shape = rng.word(&[&OBJECTS[..], &VALUES[..]].concat());
        let mut bytes = self.payload(rng, profile, shape).into_bytes();
        match rng.below(4) {
            0 => bytes.extend_from_slice(b" and text\r\n"),
            1 => bytes.extend_from_slice(b"\xff\0"),
            2 => bytes.clear(),
            _ => {}
        }
        Load { encoding: Encoding::Bytes, text: Text::new(&bytes) }
    }

    fn payload(&mut self, rng: &mut TestRng, profile: &Profile, shape: &str) -> String {
        self.serial += 1;
        let padding = rng.below(profile.padding + 1);
        let unique = format!("{}{}", self.serial, "x".repeat(padding));
        let number = rng.below(2);
        shape.replace('@', &number.to_string()).replace('#', &unique)
    }

    fn http(
        &mut self,
        rng: &mut TestRng,
        profile: &Profile,
        store: &Oracle,
        full: bool,
    ) -> (Vec<u8>, Request) {
        let mut queue = rng.below(profile.queues);
        if !store.exists(queue) && rng.percent(60) {
            queue = (0..QUEUES.len()).rfind(|&queue| store.exists(queue)).unwrap();
        }
        let question = if rng.percent(profile.contention) {
            contend(rng, profile, store, queue)
        } else if rng.percent(profile.full_listings) {
            Question::Find { queue, want: Want::default(), limit: None }
        } else {
            match rng.below(100) {
                0..25 if !full => {
                    let shape = rng.word(&[&OBJECTS[..], &VALUES[..]].concat());
                    let payload = self.payload(rng, profile, shape);
                    Question::Post { queue, payload, state: a_state(rng) }
                }
                0..30 => Question::Delete(queue, a_job_of(rng, queue, store)),
                30..45 => Question::Show(queue, a_job_of(rng, queue, store)),
                45..52 => Question::List(queue),
                52..60 => {
                    let limit = rng.percent(30).then(|| rng.below(4));
                    Question::Find { queue, want: a_want(rng, profile), limit }
                }
                60..68 => {
                    let event = rng.word(&EVENTS);
                    Question::Note { queue, id: a_job_of(rng, queue, store), event }
                }
                68..80 => contend(rng, profile, store, queue),
                80..87 => Question::Declare(queue),
                87..91 => Question::Queues,
                91..94 => Question::Drop(queue),
                _ => return requests::wrong(rng),
            }
        };
        let manner = HttpOptions { close: rng.percent(2), ..HttpOptions::default() };
        let form = Form::of(rng, &question);
        let (bytes, manner) = form.write(rng, manner);
        (bytes, Request::Http(question, manner))
    }
}

/// What several clients do to the same jobs at one time.
fn contend(rng: &mut TestRng, profile: &Profile, store: &Oracle, queue: Queue) -> Question {
    if rng.percent(50) {
        return Question::Poll { queue, want: a_want(rng, profile), new: a_state(rng) };
    }
    let id = a_job_of(rng, queue, store);
    let known = store.find(id).and_then(Job::state);
    let known = known.and_then(|it| STATES.iter().position(|state| state.shown.as_bytes() == it));
    let old = known.filter(|_| rng.percent(70)).unwrap_or_else(|| a_state(rng));
    Question::Advance { queue, id, old, new: a_state(rng) }
}

fn a_state(rng: &mut TestRng) -> State {
    if rng.percent(40) { 0 } else { rng.below(STATES.len()) }
}

fn a_want(rng: &mut TestRng, profile: &Profile) -> Want {
    let n = rng.percent(profile.searches).then(|| rng.below(2));
    let stateful = rng.percent(if n.is_some() { 25 } else { 80 });
    Want { state: stateful.then(|| a_state(rng)), n }
}

/// An id: of a job that the client holds, or of any other, or one that will be given out soon.
fn an_id(rng: &mut TestRng, client: Option<ClientId>, store: &Oracle) -> u64 {
    let mine = store.jobs.iter().filter(|job| client.is_some() && job.holder == client);
    let mine: Vec<u64> = mine.map(|job| job.id).collect();
    match rng.below(10) {
        0..5 if !mine.is_empty() => *rng.pick(&mine),
        0..8 if !store.jobs.is_empty() => rng.pick(&store.jobs).id,
        8 => rng.below(usize::try_from(store.last_id).unwrap() + 6) as u64,
        _ => (store.last_id + 1).saturating_sub(rng.below(3) as u64),
    }
}

fn a_job_of(rng: &mut TestRng, queue: Queue, store: &Oracle) -> u64 {
    let there = store.jobs.iter().filter(|job| job.queue == queue);
    let there: Vec<u64> = there.map(|job| job.id).collect();
    if there.is_empty() || rng.percent(20) { an_id(rng, None, store) } else { *rng.pick(&there) }
}

/// A request of packets.
fn packets(rng: &mut TestRng, profile: &Profile, full: bool) -> wire::Request {
    let queue = rng.below(profile.queues);
    if full || rng.percent(if profile.more_gets_than_puts { 70 } else { 50 }) {
        return match rng.below(100) {
            0..40 => wire::Request::Pop(queue),
            40..60 => wire::Request::Subscribe(queue),
            60..67 => wire::Request::Unsubscribe(queue),
            _ => wire::Request::Ready,
        };
    }
    let ttl_ms = *rng.pick(&[0, 0, 1, 100, 5_000]);
    let priority = *rng.pick(&[0, 1, 1, 2, u8::MAX]);
    let key = rng.word(&["", "k", "kk"]).as_bytes();
    let packet = Load::packet(key, &rng.seed().to_be_bytes());
    wire::Request::Push { queue, ttl_ms, priority, packet }
}
