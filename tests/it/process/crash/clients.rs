//! Clients that send requests until their server is gone, and record the replies.

use super::content::{
    Content, LINE_QUEUES, PACKET_QUEUES, POPPED_QUEUES, Protocol, TUBES, recognise, token_of,
};
use super::job_log::Event;
use crate::rng::TestRng;
use crate::support::{NO_JOB, Server, TIMEOUT, delete, number};
use jobcentre::wire::packets::{Request, push_request};
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) fn connect(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

/// Runs until the server is gone; a server that is silent is another matter.
pub(super) fn until_the_end(mut round: impl FnMut() -> io::Result<()>) {
    loop {
        if let Err(error) = round() {
            let silent = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            assert!(!silent, "the server does not answer: {error}");
            return;
        }
    }
}

/// What all clients share.
#[derive(Default)]
pub(super) struct Common {
    /// How many jobs were to be put.
    tokens: AtomicU64,
    /// How many puts were answered.
    pub(super) puts: AtomicU64,
    /// How many deletions were answered, or pops brought jobs.
    pub(super) ends: AtomicU64,
}

impl Common {
    pub(super) fn token(&self) -> u64 {
        1 + self.tokens.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether as much has happened as belongs to these rounds: a test whose clients never got to
    /// ask for anything would find nothing, and disks may be slow.
    pub(super) fn is_enough(&self, rounds: usize) -> bool {
        let [puts, ends] = [&self.puts, &self.ends].map(|count| count.load(Ordering::Relaxed));
        puts >= PUTS * rounds as u64 && ends >= ENDS * rounds as u64
    }
}

/// What a round is to bring at least.
const PUTS: u64 = 40;
const ENDS: u64 = 20;

/// A client of the line protocol.
pub(super) struct Lines<'t> {
    address: SocketAddr,
    rng: TestRng,
    common: &'t Common,
    /// Jobs that it may delete, with their ids.
    known: Vec<(u64, u64)>,
    events: Vec<Event>,
}

/// What a request was.
enum Asked {
    Put(u64),
    Get,
    Delete(u64),
}

/// A client that knows of more jobs than this deletes most of the time.
const KNOWN_MANY: usize = 250;

impl<'t> Lines<'t> {
    pub(super) fn new(
        address: SocketAddr,
        rng: TestRng,
        common: &'t Common,
        known: Vec<(u64, u64)>,
    ) -> Self {
        Self { address, rng, common, known, events: Vec::new() }
    }

    /// Asks until the server is gone; returns what was acknowledged.
    pub(super) fn run(mut self) -> Vec<Event> {
        if let Ok(mut stream) = connect(self.address) {
            until_the_end(|| self.batch(&mut stream));
        }
        self.events
    }

    fn batch(&mut self, stream: &mut BufReader<TcpStream>) -> io::Result<()> {
        let (mut bytes, mut asked) = (Vec::new(), Vec::new());
        for _ in 0..self.rng.between(1, 24) {
            asked.push(self.ask(&mut bytes));
        }
        stream.get_mut().write_all(&bytes)?;
        for request in asked {
            let mut reply = String::new();
            stream.read_line(&mut reply)?;
            let Some(reply) = reply.strip_suffix('\n') else {
                return Err(ErrorKind::UnexpectedEof.into());
            };
            self.take_in(&request, reply);
        }
        Ok(())
    }

    fn ask(&mut self, bytes: &mut Vec<u8>) -> Asked {
        let deletes = if self.known.len() > KNOWN_MANY { 60 } else { 25 };
        if self.rng.percent(deletes) && !self.known.is_empty() {
            let place = self.rng.below(self.known.len());
            let (token, id) = self.known.swap_remove(place);
            self.events.push(Event::EndAsked(token));
            bytes.extend_from_slice(format!("{}\n", delete(id)).as_bytes());
            Asked::Delete(token)
        } else if self.rng.percent(60) {
            let token = self.common.token();
            self.events.push(Event::Put(Protocol::Lines, token));
            Content::new(Protocol::Lines, token).push_put(bytes);
            Asked::Put(token)
        } else {
            let seconds = [&LINE_QUEUES[..], &TUBES].concat();
            let (first, second) = (self.rng.word(&LINE_QUEUES), self.rng.word(&seconds));
            let timeout = if self.rng.percent(10) { r#","timeout":3"# } else { "" };
            let line = format!(r#"{{"request":"get","queues":["{first}","{second}"]{timeout}}}"#);
            bytes.extend_from_slice(format!("{line}\n").as_bytes());
            Asked::Get
        }
    }

    fn take_in(&mut self, request: &Asked, reply: &str) {
        match request {
            Asked::Put(token) => {
                let id = number(reply, "id");
                self.common.puts.fetch_add(1, Ordering::Relaxed);
                self.events.push(Event::There(*token, id));
                self.known.push((*token, id));
            }
            Asked::Get => {
                if reply != NO_JOB {
                    let (_, token, id) = recognise(reply);
                    self.events.push(Event::There(token, id));
                    self.known.push((token, id));
                }
            }
            Asked::Delete(token) => {
                // Another client may have deleted it before.
                assert!(reply == r#"{"status":"ok"}"# || reply == NO_JOB, "{reply}");
                self.common.ends.fetch_add(1, Ordering::Relaxed);
                self.events.push(Event::EndTold(*token));
            }
        }
    }
}

/// A client of the packet protocol.
pub(super) struct Packets<'t> {
    address: SocketAddr,
    rng: TestRng,
    common: &'t Common,
    events: Vec<Event>,
    /// Queues of pops that are not answered.
    open: VecDeque<&'static str>,
}

impl<'t> Packets<'t> {
    pub(super) fn new(address: SocketAddr, rng: TestRng, common: &'t Common) -> Self {
        Self { address, rng, common, events: Vec::new(), open: VecDeque::new() }
    }

    /// Asks until the server is gone; returns what was acknowledged.
    pub(super) fn run(mut self) -> Vec<Event> {
        if let Ok(mut stream) = connect(self.address) {
            until_the_end(|| self.batch(&mut stream));
        }
        self.events.extend(self.open.into_iter().map(Event::PopOpen));
        self.events
    }

    fn batch(&mut self, stream: &mut BufReader<TcpStream>) -> io::Result<()> {
        let mut bytes = Vec::new();
        for _ in 0..self.rng.between(1, 20) {
            let token = self.common.token();
            self.events.push(Event::Put(Protocol::Packets, token));
            Content::new(Protocol::Packets, token).push_packet(&mut bytes);
        }
        for _ in 0..self.rng.between(0, 4) {
            let queue = self.rng.word(&POPPED_QUEUES);
            self.open.push_back(queue);
            push_request(&mut bytes, &Request::Pop { queue: queue.as_bytes() });
        }
        stream.get_mut().write_all(&bytes)?;
        while !self.open.is_empty() {
            let packets = read_packets(stream)?;
            let queue = self.open.pop_front().unwrap();
            for (key, payload) in packets {
                self.take_in(queue, &key, &payload);
            }
        }
        Ok(())
    }

    fn take_in(&mut self, queue: &str, key: &[u8], payload: &[u8]) {
        let (protocol, token) = if key.is_empty() {
            let json: serde_json::Value = serde_json::from_slice(payload).unwrap();
            (Protocol::Lines, json["n"].as_u64().unwrap())
        } else {
            (Protocol::Packets, token_of(payload))
        };
        let content = Content::new(protocol, token);
        assert_eq!((queue, key, payload), (content.queue, &content.key[..], &content.payload[..]));
        self.common.ends.fetch_add(1, Ordering::Relaxed);
        self.events.push(Event::EndTold(token));
    }
}

/// The answer to a pop: keys and payloads.
fn read_packets(stream: &mut impl Read) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut count = [0; 2];
    stream.read_exact(&mut count)?;
    let mut packets = Vec::new();
    for _ in 0..u16::from_be_bytes(count) {
        let mut lengths = [0; 4];
        stream.read_exact(&mut lengths)?;
        let [key, payload] = [[lengths[0], lengths[1]], [lengths[2], lengths[3]]]
            .map(|length| vec![0; usize::from(u16::from_be_bytes(length))]);
        let (mut key, mut payload) = (key, payload);
        stream.read_exact(&mut key)?;
        stream.read_exact(&mut payload)?;
        packets.push((key, payload));
    }
    Ok(packets)
}

/// All jobs of the server. The client that reserves them disconnects, so they are released.
pub(super) fn look(server: &Server) -> Vec<(Protocol, u64, u64)> {
    const PIECE: usize = 200;
    super::bodies::kick_all(server.address_of("beanstalkd"));
    let queues: Vec<_> = LINE_QUEUES.iter().chain(&PACKET_QUEUES).chain(&TUBES).collect();
    let line = format!("{}\n", serde_json::json!({"request": "get", "queues": queues}));
    let mut client = server.connect();
    let mut seen = Vec::new();
    loop {
        let replies = client.exchange(line.repeat(PIECE).as_bytes(), PIECE);
        let jobs = replies.iter().filter(|reply| *reply != NO_JOB);
        seen.extend(jobs.map(|reply| recognise(reply)));
        if replies.last().is_some_and(|reply| reply == NO_JOB) {
            return seen;
        }
    }
}
