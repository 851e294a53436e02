//! A simulated worker: its answer to each request, and when it is sent.

use crate::rng::TestRng;
use jobcentre::base::time::Mono;
use jobcentre::protocol::http::lightjq::messages::WorkerJob;
use std::collections::BTreeMap;

/// What a worker is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// It takes every job and does it.
    Good,
    /// It does this and that.
    Flaky,
    /// It hardly ever does anything well.
    Bad,
    /// It cannot be reached.
    Dead,
}

impl Behaviour {
    /// How many of a hundred connections to it come about.
    pub(super) fn reach(self) -> usize {
        match self {
            Self::Good => 100,
            Self::Flaky => 97,
            Self::Bad => 70,
            Self::Dead => 0,
        }
    }
}

/// What comes from a worker on a connection.
#[derive(Clone, Debug)]
pub(super) enum Said {
    /// These bytes, which may make the refusal of a job whole.
    Bytes(Vec<u8>, Option<Refusal>),
    End,
    Reset,
}

/// A worker does not want a job.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) id: u64,
    /// Under which lease it was offered.
    pub(super) lease: u32,
    /// The name that it does not know, if that is why.
    pub(super) unknown: Option<String>,
}

/// What a worker does about a request: when, in milliseconds from now, it says what.
#[derive(Default)]
pub(super) struct Script {
    pub(super) says: Vec<(usize, Said)>,
    pub(super) reports: Vec<(usize, bool)>,
    pub(super) seen: Vec<&'static str>,
}

pub(super) struct SimWorker {
    pub(super) id: u64,
    pub(super) behaviour: Behaviour,
    pub(super) max_jobs: usize,
    /// The queues that it asked for; none: all.
    pub(super) asked: Vec<String>,
    /// Names of which it has said, and the server heard, that it does not know them; since when.
    pub(super) unknown: BTreeMap<String, Mono>,
    pub(super) dropped: bool,
    /// It was found after a restart, and its registration was not acknowledged: the next crash may
    /// lose it.
    pub(super) unacknowledged: bool,
}

/// Takes a whole request out of what was received: the job's id and name.
pub(super) fn read_request(received: &mut Vec<u8>) -> Option<(u64, String)> {
    let text = String::from_utf8_lossy(received);
    let head = text.find("\r\n\r\n")? + 4;
    assert!(text.starts_with("POST /worker-job HTTP/1.1\r\nHost: w"), "{text}");
    let (_, length) = text[..head].split_once("Content-Length: ").unwrap();
    let length: usize = length.lines().next().unwrap().parse().unwrap();
    assert!(received.len() <= head + length, "a request before the answer to another");
    let body = received.get(head..head + length)?;
    let job = WorkerJob::read(body).unwrap();
    assert_eq!(job.argument.bytes, b"\x92\x01\x02");
    let read = (job.id.parse().unwrap(), job.name.to_owned());
    received.clear();
    Some(read)
}

impl SimWorker {
    pub(super) fn new(id: u64, behaviour: Behaviour, max_jobs: usize, asked: Vec<String>) -> Self {
        let (unknown, dropped) = (BTreeMap::new(), false);
        Self { id, behaviour, max_jobs, asked, unknown, dropped, unacknowledged: false }
    }

    /// What it does about a job that it is offered under a lease.
    pub(super) fn answer(
        &self,
        (id, lease): (u64, u32),
        name: &str,
        rng: &mut TestRng,
        prefill_target: bool,
    ) -> Script {
        let mut script = Script::default();
        let wrong = match self.behaviour {
            Behaviour::Good => 0,
            Behaviour::Flaky => 20,
            Behaviour::Bad | Behaviour::Dead => 95,
        };
        if rng.percent(wrong) {
            fail(&mut script, (id, lease), name, rng);
            return script;
        }
        accept(&mut script, rng);
        if self.behaviour == Behaviour::Good {
            script.reports.push((rng.below(100), true));
            return script;
        }
        if prefill_target && rng.percent(20) {
            script.seen.push("a job was never reported");
            return script;
        }
        let good = rng.percent(70);
        let ms = *rng.pick(&[0, 1, 50, 1_000, 5_000]);
        script.reports.push((ms, good));
        if rng.percent(20) {
            script.reports.push((ms + rng.below(3_000), rng.percent(50)));
        }
        script
    }
}

/// An answer in pieces, at its times.
fn pieces(
    script: &mut Script,
    answer: &[u8],
    refuses: Option<Refusal>,
    rng: &mut TestRng,
) -> usize {
    let mut ms = *rng.pick(&[0, 5, 50, 2_000]);
    let head =
        answer.windows(4).position(|four| four == b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
    let (mut from, mut refuses) = (0, refuses);
    while from < answer.len() {
        let most = answer.len() - from;
        let count = if rng.percent(60) { most } else { rng.between(1, most) };
        let to = from + count;
        let whole = if to >= head { refuses.take() } else { None };
        script.says.push((ms, Said::Bytes(answer[from..to].to_vec(), whole)));
        from = to;
        ms += rng.below(30);
    }
    ms
}

fn accept(script: &mut Script, rng: &mut TestRng) {
    let answers: [&[u8]; 5] = [
        b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 202 Accepted\r\nContent-Length: 50\r\n\r\nnot all",
    ];
    if rng.percent(4) {
        script.seen.push("an answer came twice");
        // At once: what comes later may as well be the answer to the next request.
        script.says.push((rng.below(50), Said::Bytes([answers[0], answers[0]].concat(), None)));
        return;
    }
    let number = rng.below(answers.len());
    let ms = pieces(script, answers[number], None, rng);
    if number == 4 {
        script.seen.push("an answer ended in mid-body");
        script.says.push((ms, if rng.percent(50) { Said::End } else { Said::Reset }));
    } else if rng.percent(20) {
        script.seen.push("a kept connection was closed");
        script.says.push((ms + rng.below(2_000), Said::End));
    }
}

fn fail(script: &mut Script, (id, lease): (u64, u32), name: &str, rng: &mut TestRng) {
    match rng.below(7) {
        0 => {
            let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nbad";
            pieces(script, answer, Some(Refusal { id, lease, unknown: None }), rng);
        }
        6 => {
            let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
            pieces(
                script,
                answer,
                Some(Refusal { id, lease, unknown: Some(name.to_owned()) }),
                rng,
            );
        }
        1 => {
            script.seen.push("another status");
            let answers: [&[u8]; 2] = [
                b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n",
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            ];
            let number = rng.below(2);
            pieces(script, answers[number], None, rng);
        }
        2 => {
            script.seen.push("no HTTP");
            pieces(script, b"\x00\x01 what?", None, rng);
        }
        3 => {
            script.seen.push("no answer");
        }
        4 => {
            script.seen.push("an answer ended in mid-head");
            let ms = pieces(script, b"HTTP/1.1 202 Acc", None, rng);
            script.says.push((ms, if rng.percent(50) { Said::End } else { Said::Reset }));
        }
        _ => {
            script.seen.push("a connection ended instead of an answer");
            let ms = rng.below(100);
            script.says.push((ms, if rng.percent(50) { Said::End } else { Said::Reset }));
        }
    }
}
