//! What it costs that a get names many queues: a client of its own, because `jobcentre bench` names
//! one queue in each get.
//!
//! In each of a hundred queues a job of priority 0 waits all the time, so all of them exist and
//! none is empty. A cycle puts a more urgent job into one of them, in turn, takes it and deletes
//! it. Its get names either that queue alone, or all hundred. Everything else is the same, so the
//! difference between two such cycles is the price of naming ninety-nine more.

use crate::contestants::{Contestant, Programs};
use crate::metric::{Metric, Sample};
use crate::process::Moment;
use crate::stats::float;
use serde_json::json;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const QUEUES: usize = 100;
const DEPTH: usize = 16;
const PATIENCE: Duration = Duration::from_secs(30);

/// CPU time of the server for a cycle whose get names `names` queues.
pub(crate) fn measure(programs: &Programs, names: usize, cycles: usize) -> Result<Sample, String> {
    let server = programs.start(Contestant::JobCentre)?;
    let mut client = Client::connect(server.address)?;
    let standing: String = (0..QUEUES).map(|queue| put(queue, 0)).collect();
    client.ids(&standing, QUEUES)?;
    let gets = Gets::new(names);
    // The first ones warm up buffers and caches.
    let warm = (cycles / 20).max(QUEUES);
    client.cycles(warm, &gets)?;
    let before = Moment::now(server.pid())?;
    let done = client.cycles(cycles, &gets)?;
    let after = Moment::now(server.pid())?;
    let nanos = after.server - before.server;
    let each = float(nanos) / 1e3 / float(done as u64);
    let raw = json!({ "cycles": done, "queues_named": names, "server_cpu_nanos": nanos });
    let others = before.others_until(&after);
    Ok(Sample { values: [(Metric::CycleCpu, each)].into(), others, raw })
}

fn put(queue: usize, priority: u8) -> String {
    let job =
        "{\"text\":\"a job of a usual size, so that nothing is cheaper than it is elsewhere\"}";
    format!("{{\"request\":\"put\",\"queue\":\"queue{queue}\",\"job\":{job},\"pri\":{priority}}}\n")
}

/// The gets that find the job that was put into a queue.
enum Gets {
    One,
    /// One line for all.
    All(String),
}

impl Gets {
    fn new(names: usize) -> Self {
        if names == 1 {
            return Self::One;
        }
        let names: Vec<String> = (0..names).map(|queue| format!("\"queue{queue}\"")).collect();
        Self::All(format!("{{\"request\":\"get\",\"queues\":[{}]}}\n", names.join(",")))
    }

    fn push(&self, queue: usize, lines: &mut String) {
        match self {
            Self::One => {
                // Strings grow.
                let _ = writeln!(lines, "{{\"request\":\"get\",\"queues\":[\"queue{queue}\"]}}");
            }
            Self::All(line) => lines.push_str(line),
        }
    }
}

struct Client {
    stream: BufReader<TcpStream>,
    queue: usize,
}

impl Client {
    fn connect(address: SocketAddr) -> Result<Self, String> {
        let connect = || {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(Self { stream: BufReader::with_capacity(1 << 16, stream), queue: 0 })
        };
        connect().map_err(|error: std::io::Error| format!("cannot connect: {error}"))
    }

    /// At least so many cycles, in batches; gives how many they were.
    fn cycles(&mut self, count: usize, gets: &Gets) -> Result<usize, String> {
        let batches = count.div_ceil(DEPTH);
        for _ in 0..batches {
            let queues: Vec<usize> =
                (0..DEPTH).map(|place| (self.queue + place) % QUEUES).collect();
            self.queue = (self.queue + DEPTH) % QUEUES;
            let puts: String = queues.iter().map(|&queue| put(queue, 9)).collect();
            let mut put_ids = self.ids(&puts, DEPTH)?;
            let mut lines = String::new();
            for &queue in &queues {
                gets.push(queue, &mut lines);
            }
            let mut got = self.ids(&lines, DEPTH)?;
            put_ids.sort_unstable();
            got.sort_unstable();
            if put_ids != got {
                return Err(format!("put the jobs {put_ids:?} and got {got:?}"));
            }
            self.delete(&got)?;
        }
        Ok(batches * DEPTH)
    }

    /// Sends lines, and gives the ids in their answers.
    fn ids(&mut self, lines: &str, count: usize) -> Result<Vec<u64>, String> {
        self.send(lines)?;
        (0..count).map(|_| self.answer().and_then(|answer| id(&answer))).collect()
    }

    fn delete(&mut self, ids: &[u64]) -> Result<(), String> {
        let line = |id: &u64| format!("{{\"request\":\"delete\",\"id\":{id}}}\n");
        let lines: String = ids.iter().map(line).collect();
        self.send(&lines)?;
        for _ in ids {
            let answer = self.answer()?;
            if answer != "{\"status\":\"ok\"}\n" {
                return Err(format!("a delete was answered by {answer}"));
            }
        }
        Ok(())
    }

    fn send(&mut self, lines: &str) -> Result<(), String> {
        let sent = self.stream.get_mut().write_all(lines.as_bytes());
        sent.map_err(|error| format!("the server took no more: {error}"))
    }

    fn answer(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => Err("the server has closed the connection".to_owned()),
            Ok(_) => Ok(line),
            Err(error) => Err(format!("the server did not answer: {error}")),
        }
    }
}

fn id(answer: &str) -> Result<u64, String> {
    let rest = answer.strip_prefix("{\"status\":\"ok\",\"id\":");
    let digits = rest.and_then(|rest| rest.split([',', '}']).next());
    let id = digits.and_then(|digits| digits.parse().ok());
    id.ok_or_else(|| format!("the answer has no id: {answer}"))
}
