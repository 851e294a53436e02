//! Transcripts over a shared engine: `--engine` with a real Redis. Both by a process, and by the
//! pure server, where time passes as the transcript says. Each has a prefix of its own for its
//! keys, so all of them share one Redis. Where there is no `redis-server` they are passed over.

use super::pure::Pure;
use super::real::{EMPTY_GET, Real};
use super::{Mode, parse::Transcript, play, play_named};
use crate::process::engine::Redis;
use jobcentre::base::buf::Input;
use jobcentre::base::time::Now;
use jobcentre::engine::Engine;
use jobcentre::engine::shared::redis::{self, Address, CallError, Calls, Lead, Requests};
use jobcentre::engine::shared::{Begin, Leader, Settings};
use jobcentre::model::driver::{Link, LinkAction, Target};
use jobcentre::wire::resp::Framer;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// Transcripts that a shared engine answers otherwise than one in memory, and why. Nothing else
/// may: a line here needs a sentence.
const DIFFERENT: [(&str, &str); 2] = [
    ("http/native-stats.txt", "It shows the kind of the engine, and the figures of one in memory."),
    ("http/native-transfer.txt", "Its refusal of a backup names the setting that is in use."),
];

/// Whether a transcript is for an engine that completes late, and is answered as usual.
fn is_played(name: &str, transcript: &Transcript) -> bool {
    !transcript.prompt && DIFFERENT.iter().all(|(different, _)| *different != name)
}

/// A connection to a node, on which each answer is waited for.
pub(super) struct BlockingLink {
    stream: TcpStream,
}

impl BlockingLink {
    fn connect(target: &Target) -> Self {
        let stream = TcpStream::connect((&*target.host, target.port)).unwrap();
        stream.set_read_timeout(Some(crate::support::TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream }
    }

    /// The next whole answers, this many of them.
    fn answers(&mut self, wanted: usize) -> Vec<u8> {
        let (mut answers, mut piece) = (Vec::new(), [0; 4096]);
        while values(&answers) < wanted {
            let count = self.stream.read(&mut piece).unwrap();
            assert!(count > 0, "the node has closed the connection");
            answers.extend_from_slice(&piece[..count]);
        }
        answers
    }

    /// Does all that the engine's link has to do. Whether that was anything.
    pub(super) fn drive(&mut self, link: &mut dyn Link, now: Now) -> bool {
        let mut is_busy = false;
        while let Some(action) = link.poll_action() {
            let LinkAction::Connect(target) = action else { panic!("the link closes") };
            *self = Self::connect(&target);
            link.handle_connected(now);
            is_busy = true;
        }
        while !link.output().is_empty() {
            let (count, requests) = (link.output().len(), values(link.output()));
            self.stream.write_all(link.output()).unwrap();
            link.handle_sent(count);
            link.handle_input(&self.answers(requests), now);
            is_busy = true;
        }
        is_busy
    }
}

/// How many whole requests or answers these bytes are.
fn values(bytes: &[u8]) -> usize {
    let (mut input, mut framer) = (Input::new(bytes), Framer::new(1 << 30));
    std::iter::from_fn(|| framer.next(&mut input).unwrap().map(drop)).count()
}

impl Calls for BlockingLink {
    fn send(&mut self, request: &[u8]) -> Result<(), CallError> {
        self.stream.write_all(request).unwrap();
        Ok(())
    }

    fn receive(&mut self) -> Result<Vec<u8>, CallError> {
        Ok(self.answers(1))
    }
}

/// The engine of a server that leads, and its connection.
fn lead(redis: &Redis, prefix: &str) -> (Engine, BlockingLink) {
    let target = Arc::new(Target { host: "127.0.0.1".into(), port: redis.port(), tls: false });
    let mut link = BlockingLink::connect(&target);
    let settings = Settings {
        address: Address::Node(target),
        user: None,
        password: None,
        database: 0,
        prefix: prefix.into(),
        lease: Duration::from_mins(1),
        patience: Duration::from_secs(10),
        wait: Some(0),
        server: *b"golden01",
        name: "golden".into(),
        addresses: "".into(),
    };
    let requests = Requests::new(&settings);
    let birth = redis::init(&mut link, &requests, (7, None)).unwrap();
    let Lead::Led { epoch, seq, mark } = redis::lead(&mut link, &requests, &birth).unwrap() else {
        panic!("another server leads");
    };
    let begin = Begin { birth, epoch, seq, mark };
    let (now, go_on) = (Now::default(), &mut |_: &mut dyn Calls| Ok(()));
    let restored = Engine::load_shared(&mut link, &requests, &begin, (1, None), now, go_on);
    let leader = Leader::new(settings, begin);
    (Engine::leading(restored.unwrap(), leader), link)
}

/// Step by step, as over any engine that completes late.
#[test]
fn every_transcript_passes_on_the_pure_server_over_redis() {
    let Some(redis) = Redis::start() else { return };
    let mut number = 0;
    play_named(is_played, &[Mode::Steps], |transcript, mode| {
        number += 1;
        let (engine, link) = lead(&redis, &format!("pure{number}"));
        play(transcript, mode, &mut Pure::over_link(engine, link, transcript.settings))
    });
}

#[test]
fn every_transcript_passes_on_the_real_process_over_redis() {
    let Some(redis) = Redis::start() else { return };
    let (url, mut number) = (redis.url(), 0);
    let wanted =
        |name: &str, transcript: &Transcript| !transcript.pure && is_played(name, transcript);
    play_named(wanted, &[Mode::Steps], |transcript, mode| {
        number += 1;
        let prefix = format!("real{number}");
        let flags = ["--engine", &url, "--engine-prefix", &prefix];
        play(transcript, mode, &mut Real::start_with(transcript, &flags, EMPTY_GET))
    });
}

#[test]
fn list_of_different_transcripts_names_files_that_are_there() {
    for (name, why) in DIFFERENT {
        assert!(super::golden().join(name).is_file(), "{name}");
        assert!(why.ends_with('.'), "{name}: a sentence");
    }
}
