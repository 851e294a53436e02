//! Protocol behaviour as text: every file under `tests/golden/` is a conversation, played against
//! the pure server and against the real process. A new case is a file, not code.
//!
//! A transcript is a list of lines. Clients have one-letter names and connect when they are first
//! named. Ids are literal: each transcript has a server of its own, whose first job is job 1.
//!
//! ```text
//! # comment                 (and empty lines)
//! ! max-request 100         a setting of the server; also max-clients, max-memory
//! ! pure                    for the pure server only, whatever the reason in the comment says
//! ! tokens                  clients send tokens of leases that they have received: step by step
//! ! prompt                  not for an engine that completes late: credits and pops of one client
//!                           get what has come in between
//! ! protocol pinpriq P Q P and Q come in by this protocol, not as other clients by job-centre
//!
//! A> text                   A sends this line and a newline
//! A>> "a\r\n" + "[" * 9     A sends these bytes: see below
//! A< text                   the next line that A receives is exactly this
//! A<< "text" + "]" * 9      the same, written as for >>, without the last newline
//! A<~ text                  the next line that A receives is an error whose message contains this
//! P>> 50 0001 "q"           P, who speaks no lines, sends these bytes; it has no other way to send
//! P<< 0001 0001 0003 "kabc" the next bytes that P receives are exactly these, not a line
//! H> GET / HTTP/1.1         H, who comes in by http, sends this line and CR LF; >> as for P
//! H< HTTP/1.1 200 OK        the next bytes that H receives are this and CR LF; << as for P
//! H? POST /path {"a":1}     H sends a request with this method, target and body, if there is one
//! H= 200 {"a":"%d"}         the next that H receives is an answer with this status and this body,
//!                           whatever its head says; %d stands for any digits, %m for a moment
//!                           in quotes, %s for a text up to a quote, %t for a token; also in
//!                           what follows A<
//! H?j POST /path {"a":1}    the same as H? with Content-Type: application/json; with `! tokens`,
//!                           %t is the last token that was received, %u the one before
//! H?~ POST /path @7 {"a":1}  the same with the body in MessagePack, and the field Worker-Id: 7
//! H=~ 200 {"a":"%d"}        the same for an answer whose body is MessagePack, shown as JSON
//! A<|                       A has received all and finds its connection closed by the server
//! A.                        A has nothing to receive now
//!
//! A| connect                A connects and does nothing else yet
//! A| half-close             A shuts down its sending side
//! A| close                  A closes its socket
//! A| reset                  A's connection is reset
//! A| stop-reading           A takes nothing of what the server sends, from now on (pure)
//! A| read                   A takes again what the server sends (pure)
//! @ +5s                     time passes (pure); also ms
//! ```
//!
//! Bytes are strings with \n \r \t \0 \\ \" \xHH, hexadecimal bytes in runs as they make sense, and
//! any of it in parentheses; `* 9` repeats what stands before it, and a blank or `+` joins.
//!
//! At the end no client may have anything left to receive. Against the pure server each transcript
//! runs in every [`Mode`]; silence is checked exactly in both worlds, without waiting: see
//! [`real::Real`].

mod answers;
mod parse;
mod pure;
mod real;
mod shared;
#[cfg(target_os = "linux")]
mod variants;

use answers::Tokens;
use parse::{Expected, Step, Transcript, What};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How what a client sends reaches the server. The conversation must not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Each step by itself.
    Steps,
    /// Byte by byte, each in a pass of its own; what is very long in pieces but for its end.
    Bytes,
    /// What a client sends without receiving between in one piece, its half-close at the same time.
    Merged,
    /// The same, and a client sends everything first that it sends before another one acts.
    Pipelined,
}

/// Where a transcript is played.
trait Target {
    /// Connects by the protocol of this name.
    fn connect(&mut self, client: char, protocol: &str) -> Result<(), String>;
    /// Sends `bytes`, which may be none, and shuts the sending side down if this is the last of it.
    fn send(&mut self, client: char, bytes: &[u8], last: bool) -> Result<(), String>;
    fn close(&mut self, client: char) -> Result<(), String>;
    fn reset(&mut self, client: char) -> Result<(), String>;
    fn set_reading(&mut self, client: char, reads: bool) -> Result<(), String>;
    fn pass_time(&mut self, time: Duration) -> Result<(), String>;
    /// Returns once the server has dealt with everything so far.
    fn settle(&mut self) -> Result<(), String>;
    /// The next line, without its newline.
    fn receive(&mut self, client: char) -> Result<Vec<u8>, String>;
    /// The next bytes, as many as are expected, or fewer if they differ.
    fn receive_bytes(&mut self, client: char, expected: &[u8]) -> Result<Vec<u8>, String>;
    /// The next `count` bytes, or fewer if there are no more.
    fn receive_count(&mut self, client: char, count: usize) -> Result<Vec<u8>, String>;
    fn check_silent(&mut self, client: char) -> Result<(), String>;
    fn check_ended(&mut self, client: char) -> Result<(), String>;
}

/// Plays the steps and returns what went wrong first.
fn play(transcript: &Transcript, mode: Mode, simulation: &mut dyn Target) -> Result<(), String> {
    let steps = arrange(&transcript.steps, mode);
    let mut known = Vec::new();
    let mut tokens = Tokens::default();
    for (number, step) in steps.iter().enumerate() {
        if !known.contains(&step.client) && !matches!(step.what, What::Time(_)) {
            known.push(step.client);
            let protocol = transcript.protocol(step.client);
            simulation.connect(step.client, protocol).map_err(|problem| at(step, &problem))?;
        }
        let next = steps.get(number + 1);
        let filled = match &step.what {
            What::Send { bytes, last } if transcript.tokens => Step {
                what: What::Send { bytes: tokens.fill_in(bytes), last: *last },
                ..step.clone()
            },
            _ => step.clone(),
        };
        perform(&filled, next, simulation, &mut tokens).map_err(|problem| at(step, &problem))?;
    }
    simulation.settle()?;
    for client in known {
        simulation.check_silent(client).map_err(|problem| format!("in the end: {problem}"))?;
    }
    Ok(())
}

fn at(step: &Step, problem: &str) -> String {
    format!("line {}: {problem}", step.line)
}

fn perform(
    step: &Step,
    next: Option<&Step>,
    simulation: &mut dyn Target,
    tokens: &mut Tokens,
) -> Result<(), String> {
    let client = step.client;
    match &step.what {
        What::Connect => {}
        What::Send { bytes, last } => simulation.send(client, bytes, *last)?,
        What::Close => simulation.close(client)?,
        What::Reset => simulation.reset(client)?,
        What::StopReading => simulation.set_reading(client, false)?,
        What::Read => simulation.set_reading(client, true)?,
        What::Time(time) => simulation.pass_time(*time)?,
        What::Receive(expected @ Expected::Bytes(bytes)) => {
            return check(expected, &simulation.receive_bytes(client, bytes)?, tokens);
        }
        What::Receive(Expected::Answer(status, body)) => {
            return answers::check(*status, body, simulation, client, tokens);
        }
        What::Receive(Expected::Packed(status, body)) => {
            return answers::check_packed(*status, body, simulation, client, tokens);
        }
        What::Receive(Expected::Exactly(lines)) => {
            for line in lines.split(|&byte| byte == b'\n') {
                check(&Expected::Exactly(line.to_vec()), &simulation.receive(client)?, tokens)?;
            }
            return Ok(());
        }
        What::Receive(expected) => return check(expected, &simulation.receive(client)?, tokens),
        What::Silent => return simulation.check_silent(client),
        What::Ended => return simulation.check_ended(client),
    }
    let answered = next.is_some_and(|next| {
        next.client == client && matches!(next.what, What::Receive(_) | What::Send { .. })
    });
    if answered { Ok(()) } else { simulation.settle() }
}

fn check(expected: &Expected, received: &[u8], tokens: &mut Tokens) -> Result<(), String> {
    match expected {
        Expected::Exactly(bytes)
            if tokens.fits(&String::from_utf8_lossy(bytes), &String::from_utf8_lossy(received)) =>
        {
            Ok(())
        }
        Expected::Bytes(bytes) | Expected::Exactly(bytes) if bytes == received => Ok(()),
        Expected::Bytes(bytes) | Expected::Exactly(bytes) => {
            Err(format!("expected {}\n    received {}", show(bytes), show(received)))
        }
        Expected::Answer(..) | Expected::Packed(..) => {
            unreachable!("an answer is not received at once")
        }
        Expected::Error(text) => {
            let problem =
                || format!("expected an error about '{text}'\n    received {}", show(received));
            let json: serde_json::Value =
                serde_json::from_slice(received).map_err(|_| problem())?;
            let message = json["error"].as_str().unwrap_or_default();
            let fields = json.as_object().map_or(0, serde_json::Map::len);
            let right = json["status"] == "error" && fields == 2 && message.contains(text.as_str());
            if right { Ok(()) } else { Err(problem()) }
        }
    }
}

/// Bytes for people, not too many of them.
fn show(bytes: &[u8]) -> String {
    const SHOWN: usize = 1_000;
    let text = bytes[..bytes.len().min(SHOWN)].escape_ascii().to_string().replace("\\\"", "\"");
    if bytes.len() > SHOWN { format!("{text}... ({} bytes)", bytes.len()) } else { text }
}

/// The steps as `mode` wants them.
fn arrange(steps: &[Step], mode: Mode) -> Vec<Step> {
    let mut arranged: Vec<Step> = Vec::new();
    for step in steps {
        let What::Send { bytes, last } = &step.what else {
            arranged.push(step.clone());
            continue;
        };
        // With what is sent here could it be sent together?
        let place = match mode {
            Mode::Steps | Mode::Bytes => None,
            Mode::Merged => arranged.len().checked_sub(1),
            Mode::Pipelined => arranged
                .iter()
                .rposition(|earlier| !matches!(earlier.what, What::Receive(_)))
                .filter(|&place| {
                    arranged[place..].iter().all(|earlier| earlier.client == step.client)
                }),
        };
        match place.map(|place| &mut arranged[place]) {
            Some(Step { client, what: What::Send { bytes: sent, last: ended }, .. })
                if *client == step.client && !*ended =>
            {
                sent.extend_from_slice(bytes);
                *ended = *last;
            }
            _ => arranged.push(step.clone()),
        }
    }
    arranged
}

/// The folders of `tests/golden` whose protocols the server has.
const PLAYED: [&str; 4] = ["beanstalkd", "http", "job-centre", "pinpriq"];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The transcripts in a folder of `tests/golden`, with their names.
fn transcripts(folder: &str) -> Vec<(String, Transcript)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(golden().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| {
            let name = format!("{folder}/{}", file.file_name().unwrap().display());
            let transcript = parse::parse(&std::fs::read_to_string(file).unwrap());
            let transcript = transcript.unwrap_or_else(|problem| panic!("{name}: {problem}"));
            (name, transcript)
        })
        .collect()
}

/// Plays every transcript that is wanted in every mode and tells all that went wrong.
fn play_all(
    wanted: impl Fn(&Transcript) -> bool,
    modes: &[Mode],
    play: impl FnMut(&Transcript, Mode) -> Result<(), String>,
) {
    play_named(|_, transcript| wanted(transcript), modes, play);
}

/// The same, with the names of transcripts: folder and file.
fn play_named(
    wanted: impl Fn(&str, &Transcript) -> bool,
    modes: &[Mode],
    mut play: impl FnMut(&Transcript, Mode) -> Result<(), String>,
) {
    let (mut problems, mut played) = (String::new(), 0);
    let transcripts = PLAYED.into_iter().flat_map(transcripts);
    for (name, transcript) in transcripts.filter(|(name, transcript)| wanted(name, transcript)) {
        let in_order = |mode| matches!(mode, Mode::Steps | Mode::Bytes);
        for &mode in modes.iter().filter(|&&mode| !transcript.tokens || in_order(mode)) {
            played += 1;
            if let Err(problem) = play(&transcript, mode) {
                writeln!(problems, "{name} ({mode:?}) {problem}").unwrap();
            }
        }
    }
    assert!(problems.is_empty(), "\n{problems}");
    assert!(played > 0, "no transcript was found");
}

#[test]
fn every_transcript_passes_on_the_pure_server() {
    let modes = [Mode::Steps, Mode::Bytes, Mode::Merged, Mode::Pipelined];
    play_all(
        |_| true,
        &modes,
        |transcript, mode| {
            let mut simulation = pure::Pure::new(transcript.settings, mode == Mode::Bytes);
            play(transcript, mode, &mut simulation)
        },
    );
}

#[test]
fn every_transcript_passes_over_an_engine_that_completes_late() {
    play_all_late(0);
}

#[test]
fn every_transcript_passes_over_an_engine_that_completes_late_in_another_order() {
    play_all_late(1);
}

/// Step by step: what clients do while completions are held would depend on how long they are.
fn play_all_late(seed: u64) {
    play_all(
        |transcript| !transcript.prompt,
        &[Mode::Steps],
        |transcript, mode| {
            let mut simulation = pure::Pure::late(transcript.settings, seed);
            play(transcript, mode, &mut simulation)
                .map_err(|problem| format!("{problem} (seed {seed} of the engine)"))
        },
    );
}

#[test]
fn every_transcript_passes_on_the_real_process() {
    play_all(
        |transcript| !transcript.pure,
        &[Mode::Steps, Mode::Pipelined],
        |transcript, mode| {
            let mut simulation = real::Real::start(transcript);
            play(transcript, mode, &mut simulation)
        },
    );
}

#[test]
fn every_transcript_parses() {
    let folders = std::fs::read_dir(golden()).unwrap().map(|entry| entry.unwrap().file_name());
    let folders: Vec<String> = folders.map(|name| name.into_string().unwrap()).collect();
    for played in PLAYED {
        assert!(folders.iter().any(|folder| folder == played), "{played} has no transcripts");
    }
    for folder in folders {
        assert!(transcripts(&folder).iter().all(|(_, transcript)| !transcript.steps.is_empty()));
    }
}

#[test]
fn failed_transcript_is_reported_with_its_line() {
    let outcome = |text: &str| {
        let transcript = parse::parse(text).unwrap();
        let mut pure = pure::Pure::new(transcript.settings, false);
        let mut real = real::Real::start(&transcript);
        [play(&transcript, Mode::Steps, &mut pure), play(&transcript, Mode::Steps, &mut real)]
    };
    let wait = r#"A> {"request":"get","queues":["q"],"wait":true}"#;
    let put = r#"B> {"request":"put","queue":"q","pri":1,"job":{}}"#;
    for (text, expected) in [
        ("A>\nA< {}", "line 2: expected {}"),
        ("A>\nA<~ queue", "line 2: expected an error about 'queue'"),
        ("A>\nA.", "line 2: A has"),
        ("A>", "in the end: A has"),
        ("A>\nA<|", "line 2: A has"),
        (&format!("{wait}\n{put}\nB< {{\"status\":\"ok\",\"id\":1}}"), "in the end: A has"),
    ] {
        for outcome in outcome(text) {
            let problem = outcome.expect_err(text);
            assert!(problem.starts_with(expected), "{text}: {problem}");
        }
    }
    let transcript = parse::parse("A| connect\nA<|").unwrap();
    let mut pure = pure::Pure::new(transcript.settings, false);
    let problem = play(&transcript, Mode::Steps, &mut pure).unwrap_err();
    assert!(problem.starts_with("line 2: A is still connected"), "{problem}");
}
