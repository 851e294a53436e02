//! Shared by several benches: a pure server with one client, and varied request lines.
//!
//! A repeated line flatters branchy parsers, so content and priority vary with the job's number.

use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::engine::Engine;
use jobcentre::model::driver::{Core, Protocol};
use jobcentre::model::id::ClientId;
use jobcentre::server::{Server, Settings};
use std::fmt::Write as _;

const NOW: Now = Now { mono: Mono(1), wall: Wall(1) };

/// A server with one client, and what it answered.
pub(crate) struct Bench {
    server: Server,
    client: ClientId,
    answer: Vec<u8>,
}

impl Bench {
    /// Its client comes in by `protocol`.
    pub(crate) fn new(protocol: Protocol) -> Self {
        let settings = Settings { max_request: 1 << 20, max_clients: 10, max_memory: None };
        let mut server = Server::new(settings, Engine::in_memory(1));
        let client = server.handle_open(protocol, NOW).expect("there is room");
        Self { server, client, answer: Vec::with_capacity(1 << 16) }
    }

    /// A server in which `backlog` jobs wait.
    pub(crate) fn with_backlog(backlog: u64) -> Self {
        let mut bench = Self::new(Protocol::JobCentre);
        for number in 0..backlog {
            bench.pass(put_lines(number, 1).as_bytes());
        }
        bench
    }

    /// One pass of the loop: hands the bytes over and takes all answers.
    pub(crate) fn pass(&mut self, bytes: &[u8]) -> &[u8] {
        self.server.handle_input(self.client, bytes, NOW);
        self.server.finish_pass(NOW);
        self.answer.clear();
        while let Some(client) = self.server.poll_touched() {
            let output = self.server.output(client);
            if !output.is_empty() {
                self.answer.extend_from_slice(output);
                let count = output.len();
                self.server.handle_sent(client, count, NOW);
            }
        }
        &self.answer
    }

    /// Lines that delete the jobs that the last answers handed out.
    pub(crate) fn delete_lines(&self) -> String {
        let answer = std::str::from_utf8(&self.answer).expect("answers are text");
        let mut lines = String::new();
        for line in answer.lines() {
            let rest = line.split("\"id\":").nth(1).expect("a job was handed out");
            let id = rest.split([',', '}']).next().expect("a number");
            writeln!(lines, "{{\"request\":\"delete\",\"id\":{id}}}").expect("strings grow");
        }
        lines
    }
}

const LETTERS: &[u8; 16] = b"etaoinshrdlu cmf";

/// A text of this length that varies with `number`.
pub(crate) fn text_of(number: u64, length: usize) -> String {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let letter = |place: usize| LETTERS[usize::from((mixed >> (place % 60)).to_le_bytes()[0] % 16)];
    (0..length).map(letter).map(char::from).collect()
}

/// Lines that put `count` jobs of 100 bytes, numbered from `first`.
pub(crate) fn put_lines(first: u64, count: u64) -> String {
    let mut lines = String::new();
    for number in first..first + count {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let head = format!("{{\"n\":{number},\"data\":\"");
        let data = text_of(number, 98 - head.len());
        let pri = mixed >> 44;
        writeln!(
            lines,
            "{{\"request\":\"put\",\"queue\":\"queue0\",\"job\":{head}{data}\"}},\"pri\":{pri}}}"
        )
        .expect("strings grow");
    }
    lines
}

/// Lines that take `count` jobs.
pub(crate) fn get_lines(count: u64) -> String {
    let line = "{\"request\":\"get\",\"queues\":[\"queue0\"]}\n";
    line.repeat(usize::try_from(count).expect("a small number"))
}
