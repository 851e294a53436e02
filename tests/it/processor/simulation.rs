//! A server without sockets, the processor's connection to it, and scripts of what is said and
//! received there.
//!
//! ```text
//! > add q j 3              add_job of job j to queue q, of priority 3; without it none is said
//! > idle q w               worker_idle of worker w; `idle q w 4000`: it was sent that many ms ago
//! > accept q w j           job_accepted;  > finish q w j   job_finished
//! > busy q w j 0.5         worker_busy;   > progress q w j 0.5
//! > del q j                del_job;       > tick
//! > list job q             list_job_queue, and so on
//! > {"topic":...           this line
//! < w j                    worker w is assigned job j
//! = [...]                  this list is the payload of a result
//! ! text                   a line of the log contains this
//! J> line, J< line         the same with a Job Centre client
//! @ 3000                   that many milliseconds pass
//! ```
//!
//! What is not expected behind a step must not come.

use crate::journal::disk::{End, SimDisk};
use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::engine::Engine;
use jobcentre::journal::{JournalOptions, SyncMode};
use jobcentre::model::driver::{Action, Core, Incident, Protocol, Severity};
use jobcentre::model::id::ClientId;
use jobcentre::protocol::processor;
use jobcentre::server::{Server, Settings};
use serde_json::Value as Json;
use std::collections::VecDeque;
use std::time::Duration;

/// When the first life begins.
const START: u64 = 1_700_000_000_000;

/// What comes out of the server.
#[derive(Debug, Default)]
pub(super) struct Received {
    pub(super) lines: VecDeque<String>,
    pub(super) notices: VecDeque<(Severity, String)>,
    jobs: VecDeque<String>,
    /// What has come without a line end.
    rest: Vec<u8>,
    ended: bool,
}

pub(super) struct Simulation {
    server: Option<Server>,
    pub(super) now: Now,
    pub(super) client: ClientId,
    other: Option<ClientId>,
    disk: Option<SimDisk>,
    /// The most bytes that are read at one time.
    pub(super) piece: usize,
    /// Bytes of output that are taken in a pass.
    pub(super) room: usize,
    pub(super) received: Received,
    settings: processor::Settings,
}

fn options() -> JournalOptions {
    JournalOptions { segment_bytes: 65_536, sync: SyncMode::Always, salt: 5 }
}

impl Simulation {
    pub(super) fn new() -> Self {
        Self::with(processor::Settings { uuid: "su".into(), ..processor::Settings::default() })
    }

    pub(super) fn with(settings: processor::Settings) -> Self {
        let mut simulation = Self {
            server: None,
            now: Now { mono: Mono(7_000_000), wall: Wall(START) },
            client: ClientId { index: 0, generation: 0 },
            other: None,
            disk: None,
            piece: usize::MAX,
            room: usize::MAX,
            received: Received::default(),
            settings,
        };
        simulation.start(Engine::in_memory(3));
        simulation
    }

    /// A simulation whose jobs outlive restarts.
    pub(super) fn durable() -> Self {
        let mut simulation = Self::new();
        let disk = SimDisk::new(9);
        simulation.disk = Some(disk);
        simulation.recover();
        simulation
    }

    fn recover(&mut self) {
        let engine = self.disk.as_ref().unwrap().start_engine(&options(), 3, self.now);
        self.start(engine);
    }

    fn start(&mut self, engine: Engine) {
        let settings = Settings { max_request: 1_000, max_clients: 5, max_memory: None };
        let server = Server::new(settings, engine).with_processor(self.settings.clone());
        self.server = Some(server);
        let now = self.now;
        self.client = self.server().handle_open(Protocol::Processor, now).unwrap();
        self.other = None;
        self.received = Received::default();
        self.pass();
        self.settle();
    }

    pub(super) fn is_durable(&self) -> bool {
        self.disk.is_some()
    }

    /// The program ends, as it does when the power is cut, and begins anew after so long.
    pub(super) fn restart(&mut self, ms: u64) {
        drop(self.server.take());
        self.disk.as_ref().unwrap().end(End::PowerCut);
        self.now = Now { mono: Mono(1), wall: Wall(self.now.wall.0 + ms) };
        self.recover();
    }

    pub(super) fn server(&mut self) -> &mut Server {
        self.server.as_mut().unwrap()
    }

    /// One pass of the loop.
    pub(super) fn pass(&mut self) {
        let now = self.now;
        if let Some(disk) = &self.disk {
            disk.work(10);
        }
        self.server().finish_pass(now);
        while self.server().poll_touched().is_some() {}
        self.write(self.client);
        if let Some(other) = self.other {
            self.write(other);
        }
        while let Some(action) = self.server().poll_action() {
            self.received.ended |= action == Action::Close(self.client);
        }
        while let Some(notice) = self.server().poll_notice() {
            let Incident::LogLine(remark) = notice.incident else { panic!("{notice:?}") };
            self.received.notices.push_back((remark.severity, remark.text));
        }
    }

    fn write(&mut self, client: ClientId) {
        let (now, room) = (self.now, self.room);
        let output = self.server().output(client).to_vec();
        let taken = &output[..output.len().min(room)];
        self.server().handle_sent(client, taken.len(), now);
        if client != self.client {
            let lines = String::from_utf8(taken.to_vec()).unwrap();
            self.received.jobs.extend(lines.lines().map(str::to_owned));
            return;
        }
        self.received.rest.extend_from_slice(taken);
        while let Some(end) = self.received.rest.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.received.rest.drain(..=end).collect();
            self.received.lines.push_back(String::from_utf8(line[..end].to_vec()).unwrap());
        }
    }

    /// Passes until nothing is to be done now.
    pub(super) fn settle(&mut self) {
        for _ in 0..5 {
            self.pass();
        }
        let (mut passes, now) = (0, self.now);
        while self.server().poll_timeout(now).is_some_and(|at| at <= now.mono) {
            self.pass();
            passes += 1;
            assert!(passes < 10_000, "the server is never done");
        }
        self.server().check_invariants();
    }

    /// Time passes, with a pass at each moment that the server asks for.
    pub(super) fn sleep(&mut self, ms: u64) {
        let end = self.now.mono.after(Duration::from_millis(ms));
        while self.now.mono < end {
            let now = self.now;
            let timeout = self.server().poll_timeout(now);
            let next = timeout.map_or(end, |at| at.min(end).max(self.now.mono));
            // The wall clock has whole milliseconds.
            let nanos = next.0 - self.now.mono.0;
            self.now.wall.0 += nanos / 1_000_000;
            self.now.mono = next;
            self.pass();
            if self.is_durable() {
                // The disk is done long before the next millisecond.
                self.settle();
            }
        }
        self.settle();
    }

    pub(super) fn send(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(self.piece) {
            let (client, now) = (self.client, self.now);
            let mut passes = 0;
            while !self.server().wants_input(client) {
                self.pass();
                passes += 1;
                assert!(passes < 10_000, "input is never wanted");
            }
            self.server().handle_input(client, piece, now);
            self.pass();
        }
    }

    /// The input ends; tells whether the connection does.
    pub(super) fn end(&mut self) -> bool {
        let (client, now) = (self.client, self.now);
        self.server().handle_eof(client, now);
        self.settle();
        self.received.ended
    }

    fn message(&self, words: &str) -> String {
        if words.starts_with('{') {
            return words.to_owned();
        }
        let words: Vec<&str> = words.split(' ').collect();
        let word = |place: usize| words.get(place).copied().unwrap_or_default();
        let queue = word(1);
        let (verb, worker, payload) = match words[0] {
            "add" => {
                let priority = words.get(3).map(|pri| format!(",\"priority\":{pri}"));
                let rest = priority.unwrap_or_default();
                ("job_queue/add_job".into(), "", format!("\"uuid\":\"{}\"{rest}", word(2)))
            }
            "idle" => (workers(word(2), "worker_idle"), word(2), "\"x\":1".into()),
            "accept" | "busy" | "progress" | "finish" => {
                let verb = match words[0] {
                    "accept" => "job_accepted",
                    "busy" => "worker_busy",
                    "progress" => "worker_progress",
                    _ => "job_finished",
                };
                let progress = words.get(4).map(|part| format!(",\"progress\":{part}"));
                let rest = progress.unwrap_or_default();
                let payload = format!("\"uuid\":\"{}\"{rest}", word(3));
                (workers(word(2), verb), word(2), payload)
            }
            "del" => ("job_queue/del_job".into(), "", format!("\"uuid\":\"{}\"", word(2))),
            "tick" => ("tick".into(), "", "\"x\":1".into()),
            "list" => {
                let verb = format!("job_queue/list_{queue}_queue");
                return self.envelope(&verb, "", 0, &format!("{{\"queue_name\":\"{}\"}}", word(2)));
            }
            other => panic!("what is {other}?"),
        };
        let ago = if words[0] == "idle" { word(3).parse().unwrap_or(0) } else { 0 };
        let payload = format!("{{\"queue_name\":\"{queue}\",{payload}}}");
        self.envelope(&verb, worker, ago, &payload)
    }

    fn envelope(&self, verb: &str, worker: &str, ago: u64, payload: &str) -> String {
        let worker = match worker {
            "" => String::new(),
            worker => format!("\"service_uuid\":\"{worker}\","),
        };
        let (topic, at) = (format!("{}/{verb}", self.settings.listener), self.now.wall.0 - ago);
        format!("{{\"topic\":\"{topic}\",{worker}\"created_at\":{at},\"payload\":{payload}}}")
    }

    /// Says what is meant by these words, without waiting for what comes of it.
    pub(super) fn say(&mut self, words: &str) {
        let line = self.message(words) + "\n";
        self.send(line.as_bytes());
    }

    /// Plays a script.
    pub(super) fn play(&mut self, script: &str) {
        for (number, step) in script.lines().map(str::trim).enumerate() {
            let at = |problem: String| format!("line {number}, {step}: {problem}");
            let Some((mark, rest)) = step.split_once(' ') else { continue };
            if matches!(mark, ">" | "@" | "J>") {
                self.assert_quiet(step);
            }
            match mark {
                "#" => {}
                ">" => {
                    self.say(rest);
                    self.settle();
                }
                "@" => self.sleep(rest.parse().unwrap()),
                "<" => {
                    let line = self.received.lines.pop_front();
                    let line = line.unwrap_or_else(|| panic!("{}", at("nothing came".into())));
                    assert_eq!(self.assignment(&line), rest, "{}", at(line));
                }
                "=" => {
                    let line = self.received.lines.pop_front();
                    let line = line.unwrap_or_else(|| panic!("{}", at("nothing came".into())));
                    let found: Json = serde_json::from_str(&line).unwrap();
                    let expected: Json = serde_json::from_str(rest).unwrap();
                    assert_eq!(found["payload"], expected, "{}", at(line));
                }
                "!" => {
                    let remark = self.received.notices.pop_front();
                    let remark = remark.unwrap_or_else(|| panic!("{}", at("no remark".into())));
                    assert!(remark.1.contains(rest), "{}", at(format!("{remark:?}")));
                }
                "J>" => self.ask(rest),
                "J<" => {
                    let line = self.received.jobs.pop_front();
                    assert_eq!(line.as_deref(), Some(rest), "{}", at(String::new()));
                }
                other => panic!("what is {other}?"),
            }
        }
        self.assert_quiet("the end");
    }

    fn ask(&mut self, line: &str) {
        let now = self.now;
        let other = match self.other {
            Some(other) => other,
            None => self.server().handle_open(Protocol::JobCentre, now).unwrap(),
        };
        self.other = Some(other);
        self.server().handle_input(other, format!("{line}\n").as_bytes(), now);
        self.settle();
    }

    /// What a client of the HTTP protocol is answered: the body.
    pub(super) fn get(&mut self, path: &str) -> String {
        let now = self.now;
        let client = self.server().handle_open(Protocol::Http, now).unwrap();
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        self.server().handle_input(client, request.as_bytes(), now);
        let mut answer = Vec::new();
        loop {
            let output = self.server().output(client).to_vec();
            self.server().handle_sent(client, output.len(), now);
            answer.extend_from_slice(&output);
            if output.is_empty() && !answer.is_empty() {
                break;
            }
            self.pass();
        }
        self.server().handle_reset(client, now);
        let text = String::from_utf8(answer).unwrap();
        text.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    fn assert_quiet(&self, step: &str) {
        assert_eq!(self.received.lines, [""; 0], "before {step}");
        assert!(self.received.notices.is_empty(), "before {step}: {:?}", self.received.notices);
        assert_eq!(self.received.jobs, [""; 0], "before {step}");
    }

    /// Worker and job of an assignment, which is checked.
    pub(super) fn assignment(&self, line: &str) -> String {
        let message: Json = serde_json::from_str(line).unwrap();
        let topic = message["topic"].as_str().unwrap();
        let prefix = format!("{}/job_queue/workers/", self.settings.publisher);
        let worker =
            topic.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix("/job_assignment"));
        let payload = &message["payload"];
        assert!(payload["queue_name"].is_string(), "{line}");
        assert_eq!(payload["dispatched_at"], message["created_at"], "{line}");
        for (field, value) in [
            ("service_name", &self.settings.name),
            ("service_uuid", &self.settings.uuid),
            ("service_host", &self.settings.host),
        ] {
            assert_eq!(message[field], *value, "{line}");
        }
        format!("{} {}", worker.unwrap(), payload["uuid"].as_str().unwrap())
    }
}

fn workers(worker: &str, verb: &str) -> String {
    format!("job_queue/workers/{worker}/{verb}")
}
