//! A node in memory that does what the functions of the library do, at one partition, and the links
//! of a leader to it: links break, before a request arrives or before its answer does.

use super::Simulation;
use super::follower::{Succession, Waiting};
use crate::rng::TestRng;
use crate::seeds;
use jobcentre::base::buf::Input;
use jobcentre::base::time::Now;
use jobcentre::engine::shared::redis::{self, Address, CallError, Calls, Lead, Requests};
use jobcentre::engine::shared::{Begin, Leader, Settings};
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::driver::{LinkAction, Target};
use jobcentre::store::Counts;
use jobcentre::wire::resp::{Framer, push_array, push_bulk};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

type Hash = BTreeMap<Vec<u8>, Vec<u8>>;

/// What the node keeps.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) birth: Vec<u8>,
    epoch: u64,
    pub(super) seq: u64,
    mark: Vec<u8>,
    jobs: Hash,
    more: Hash,
    /// Memory is full for those that do not say that they add nothing.
    is_full: bool,
    /// Replicas that are connected.
    replicas: usize,
    /// They have nothing of what is written for this many questions.
    late: u64,
    pub(super) succession: Succession,
}

/// The node, and the link of the life that runs.
pub(super) struct SimNode {
    pub(super) kept: Kept,
    rng: TestRng,
    is_connected: bool,
    answers: Vec<u8>,
    /// What has arrived, and is no whole request yet.
    arrived: Vec<u8>,
    pub(super) lives: u64,
    /// Links break no more.
    is_steady: bool,
    pub(super) waiting: Waiting,
    /// Lives that began with what was read before.
    pub(super) followed: u64,
}

pub(super) fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text).unwrap().parse().unwrap()
}

pub(super) fn list(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    push_array(&mut out, parts.len());
    for part in parts {
        push_bulk(&mut out, part);
    }
    out
}

impl Kept {
    /// Calls a function with its arguments, the keys not counted.
    fn call(&mut self, function: &[u8], args: &[&[u8]]) -> Vec<u8> {
        match function {
            b"jl_version" => format!(":{}\r\n", redis::LIBRARY_VERSION).into_bytes(),
            b"jl_init" => {
                if self.birth.is_empty() {
                    self.birth = args[3].to_vec();
                    self.mark = b"0".to_vec();
                }
                list(&[b"1", b"1", b"0", &self.birth])
            }
            b"jl_lead" => {
                self.epoch += 1;
                self.succession = Succession::default();
                let (epoch, seq) = (self.epoch.to_string(), self.seq.to_string());
                list(&[b"LED", epoch.as_bytes(), seq.as_bytes(), &self.mark])
            }
            b"jl_read" => {
                assert_eq!((args[0], number(args[2])), (&self.birth[..], self.epoch));
                let (cursor, fields) = self.part(args[4] == b"jobs", args[5], args[6]);
                let mut out = b"*3\r\n$2\r\nOK\r\n".to_vec();
                push_bulk(&mut out, &cursor);
                out.extend(fields);
                out
            }
            b"jl_write" if self.is_full => b"-OOM command not allowed\r\n".to_vec(),
            b"jl_write" | b"jl_tight" => self.write(args),
            b"jl_follow" => self.follow(args),
            b"jl_resign" => {
                assert_eq!(number(args[3]), self.seq, "the lead is given back before a write");
                list(&[b"OK"])
            }
            _ => panic!("the node does not know {}", function.escape_ascii()),
        }
    }

    /// About `count` fields of a hash from a cursor on, in an order that is not that of their
    /// names, some of them once more with the next part; and the next cursor. What is there all the
    /// time is in one of the parts: a cursor is a bucket of the hash.
    pub(super) fn part(&self, bases: bool, cursor: &[u8], count: &[u8]) -> (Vec<u8>, Vec<u8>) {
        const BUCKETS: usize = 97;
        let hash = if bases { &self.jobs } else { &self.more };
        let turn = |name: &[u8]| {
            name.iter().fold(7_usize, |turn, &byte| turn * 31 % BUCKETS + usize::from(byte))
        };
        let mut buckets: Vec<Vec<(&Vec<u8>, &Vec<u8>)>> = vec![Vec::new(); BUCKETS];
        for field in hash {
            buckets[turn(field.0) % BUCKETS].push(field);
        }
        let mut at = usize::try_from(number(cursor)).unwrap();
        let count = usize::try_from(number(count)).unwrap().min(7);
        let mut part = buckets[at.saturating_sub(1)].clone();
        let from = at;
        while at < BUCKETS && (at == from || part.len() < count) {
            part.extend(&buckets[at]);
            at += 1;
        }
        let words: Vec<&[u8]> =
            part.iter().flat_map(|(name, value)| [&name[..], &value[..]]).collect();
        let next = if at < BUCKETS { at } else { 0 };
        (next.to_string().into_bytes(), list(&words))
    }

    fn write(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let (epoch, seq) = (number(args[2]), number(args[3]));
        let words = (self.epoch.to_string(), self.seq.to_string());
        let refuse = |word: &[u8]| list(&[word, words.0.as_bytes(), words.1.as_bytes(), b"other"]);
        assert_eq!(args[0], self.birth);
        if self.epoch > epoch {
            return refuse(b"FENCED");
        }
        if seq == self.seq {
            return list(&[b"OK"]);
        }
        if seq != self.seq + 1 {
            return refuse(b"GAP");
        }
        let counts: Vec<usize> =
            args[6..10].iter().map(|count| usize::try_from(number(count)).unwrap()).collect();
        let mut rest = &args[10..];
        let changes = rest.get(counts.iter().sum::<usize>()).copied();
        assert_eq!(
            rest.len(),
            counts.iter().sum::<usize>() + usize::from(changes.is_some()),
            "arguments are counted wrong"
        );
        for (kind, count) in counts.into_iter().enumerate() {
            let (part, later) = rest.split_at(count);
            rest = later;
            let hash = if kind % 2 == 0 { &mut self.jobs } else { &mut self.more };
            if kind < 2 {
                for pair in part.chunks(2) {
                    hash.insert(pair[0].to_vec(), pair[1].to_vec());
                }
            } else {
                for name in part {
                    hash.remove(*name);
                }
            }
        }
        self.seq = seq;
        self.mark = args[5].to_vec();
        self.succession.note_write(seq, changes)
    }

    /// What waits for an answer, and each request has one.
    pub(super) fn calls(&mut self) -> impl Calls {
        Direct(self, VecDeque::new())
    }

    /// Answers whole requests.
    fn answer(&mut self, requests: &[u8]) -> Vec<u8> {
        let (mut input, mut out) = (Input::new(requests), Vec::new());
        let mut framer = Framer::new(1 << 30);
        while let Some(raw) = framer.next(&mut input).unwrap() {
            let words: Vec<&[u8]> = raw.elements().map(|word| word.data().unwrap()).collect();
            match words[0] {
                b"ROLE" => {
                    let replicas = "*0\r\n".repeat(self.replicas);
                    let role = format!("*3\r\n$6\r\nmaster\r\n:0\r\n*{}\r\n", self.replicas);
                    out.extend_from_slice((role + &replicas).as_bytes());
                }
                b"HSCAN" => {
                    let (cursor, fields) =
                        self.part(words[1].ends_with(b":jobs"), words[2], words[4]);
                    out.extend_from_slice(b"*2\r\n");
                    push_bulk(&mut out, &cursor);
                    out.extend(fields);
                }
                b"WAIT" => {
                    let answer = match self.late {
                        0 => format!(":{}\r\n", self.replicas),
                        // As a primary that has become a replica meanwhile, and is one again.
                        late if late % 3 == 1 => "-UNBLOCKED state changed\r\n".to_owned(),
                        _ => ":0\r\n".to_owned(),
                    };
                    self.late = self.late.saturating_sub(1);
                    out.extend_from_slice(answer.as_bytes());
                }
                _ => {
                    assert_eq!(words[0], b"FCALL");
                    let keys = usize::try_from(number(words[2])).unwrap();
                    out.extend(self.call(words[1], &words[3 + keys..]));
                }
            }
        }
        out
    }
}

/// What waits for an answer, and each request has one.
struct Direct<'a>(&'a mut Kept, VecDeque<Vec<u8>>);

impl Calls for Direct<'_> {
    fn send(&mut self, request: &[u8]) -> Result<(), CallError> {
        self.1.push_back(self.0.answer(request));
        Ok(())
    }

    fn receive(&mut self) -> Result<Vec<u8>, CallError> {
        Ok(self.1.pop_front().expect("nothing was asked"))
    }
}

impl SimNode {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            kept: Kept::default(),
            rng: TestRng::new(seed),
            is_connected: false,
            answers: Vec::new(),
            arrived: Vec::new(),
            lives: 0,
            is_steady: false,
            waiting: Waiting::new(seed),
            followed: 0,
        }
    }

    /// Those of the server of this life.
    pub(super) fn settings(life: u64) -> Settings {
        let node = Arc::new(Target { host: "node".into(), port: 1, tls: false });
        Settings::new(Address::Node(node), life.to_be_bytes(), "sim")
    }

    /// The engine of a program that leads from now on.
    pub(super) fn start_engine(&mut self, seed: u64, now: Now) -> Engine {
        self.catch_up(now);
        self.lives += 1;
        self.is_connected = false;
        let settings = Self::settings(self.lives);
        let requests = Requests::new(&settings);
        let (birth, lead) = {
            let mut calls = self.kept.calls();
            let birth = redis::init(&mut calls, &requests, (7, None)).unwrap();
            let lead = redis::lead(&mut calls, &requests, &birth).unwrap();
            (birth, lead)
        };
        let Lead::Led { epoch, seq, mark } = lead else {
            panic!("another server leads");
        };
        let begin = Begin { birth, epoch, seq, mark };
        let followed = self.take_followed(&begin, now);
        let mut calls = self.kept.calls();
        let go_on = &mut |_: &mut dyn Calls| Ok(());
        let restored = Engine::load_shared(&mut calls, &requests, &begin, (seed, None), now, go_on);
        let mut restored = restored.unwrap();
        if let Some(followed) = followed {
            let kept = |counts: Counts| Counts { queues: 0, deadlines: 0, ..counts };
            // Queues whose jobs are gone are remembered for a while, and delays end meanwhile.
            let (counts, others) = (kept(followed.counts()), kept(restored.counts()));
            assert_eq!(counts, others, "what was followed is something else");
            restored = followed;
        }
        seeds::say(|| {
            format!("loaded: {:?} records and bytes, {begin:?}", restored.records_read())
        });
        Engine::leading(restored, Leader::new(settings, begin))
    }

    /// Does at most this many steps of the link.
    pub(super) fn work(&mut self, engine: &mut Engine, most: usize, now: Now) {
        for _ in 0..most {
            self.step(engine, now);
        }
    }

    fn step(&mut self, engine: &mut Engine, now: Now) {
        let Some(link) = engine.link() else { return };
        while let Some(action) = link.poll_action() {
            self.is_connected = false;
            if let LinkAction::Connect(_) = action {
                self.is_connected = true;
                self.arrived.clear();
                self.answers.clear();
                link.handle_connected(now);
            }
        }
        if !self.is_connected {
            return;
        }
        let chance = self.rng.below(200);
        if chance < 2 && !self.is_steady {
            // Before a request arrives, or before its answer does.
            if chance == 0 && !link.output().is_empty() {
                self.arrived.extend_from_slice(link.output());
                self.kept.answer(&self.arrived);
            }
            seeds::say(|| format!("the link breaks: {chance}"));
            self.is_connected = false;
            return link.handle_lost("it broke", now);
        }
        if !self.answers.is_empty() {
            let part = self.rng.between(1, self.answers.len());
            let part: Vec<u8> = self.answers.drain(..part).collect();
            return link.handle_input(&part, now);
        }
        let count = link.output().len();
        if count > 0 {
            // Requests may arrive in parts, and are answered when they are whole.
            let part = if self.rng.percent(70) { count } else { self.rng.between(1, count) };
            self.arrived.extend_from_slice(&link.output()[..part]);
            link.handle_sent(part);
            if part == count {
                let request = std::mem::take(&mut self.arrived);
                self.answers = self.kept.answer(&request);
            }
        }
    }

    /// The faults stop: links break no more, and memory has room.
    pub(super) fn steady(&mut self) {
        self.is_steady = true;
        self.kept.is_full = false;
        self.kept.late = 0;
    }

    /// Memory is full, or has room again.
    pub(super) fn set_full(&mut self, is_full: bool) {
        self.kept.is_full = is_full;
    }

    /// This many replicas are connected, and late for that many questions.
    fn set_replicas(&mut self, replicas: usize, late: u64) {
        self.kept.replicas = replicas;
        self.kept.late = late;
    }
}

impl Simulation {
    /// Lets the disk do so much, or the node.
    pub(super) fn work(&self, engine: &mut Engine, most: usize) {
        match &self.node {
            Some(node) => {
                let mut node = node.borrow_mut();
                node.work(engine, 2 * most, self.now);
                node.follow(engine, self.now);
            }
            None => {
                self.disk.work(most);
            }
        }
    }

    /// Replicas that stay late would keep answers back for ever.
    pub(super) fn let_replicas_catch_up(&self) {
        if let Some(node) = &self.node {
            node.borrow_mut().kept.late = 0;
        }
    }

    /// A broken link is made anew after a time.
    pub(super) fn pass_time_of_node(&mut self) {
        if self.node.is_some() {
            self.now.mono = self.now.mono.after(Duration::from_millis(10));
            self.now.wall.0 += 10;
        }
    }

    pub(super) fn inject_fault_of_node(&mut self) {
        let Some(node) = &self.node else { return };
        match self.rng.below(60) {
            0 => node.borrow_mut().set_full(true),
            1..=9 => node.borrow_mut().set_full(false),
            10 => node.borrow_mut().set_replicas(1, 5),
            11..=16 => node.borrow_mut().set_replicas(1, 0),
            17 => node.borrow_mut().set_replicas(0, 0),
            _ => {}
        }
    }
}
