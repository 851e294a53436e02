//! Arguments of `jobcentre bench`, and their validation.

use super::content::PAYLOAD_MIN;
use super::protocols::BenchProtocol;
use crate::cli::client_token::{ClientToken, TOKEN_VARIABLE, TokenSource};
use crate::cli::settings::size::Size;
use crate::cli::settings::whole_number::parse as parse_number;
use clap::{Args, ValueEnum};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Workload {
    /// Put jobs.
    Put,
    /// Get and delete jobs that were put before.
    Drain,
    /// Put a job, get one, delete it.
    Cycle,
    /// A cycle over many jobs that were put before and stand in the queues.
    Mixed,
    /// Waiting workers: the time from a put to the arrival of its job.
    Wait,
    /// A cycle beside many connections that do nothing.
    Idle,
}

/// The arguments of `bench`.
#[derive(Args, Debug)]
pub(in crate::cli) struct Bench {
    /// What the clients do.
    #[arg(value_enum, default_value_t = Workload::Cycle)]
    workload: Workload,

    /// The server: HOST:PORT, or tls:HOST:PORT [default: 127.0.0.1 and the usual port of the
    /// protocol: 11400, pinpriq 11401, jobq and health 11480, beanstalkd 11300, redis 6379].
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,

    /// Certificates (PEM) of authorities that may vouch for a server with tls:, besides those that
    /// browsers trust [default: none].
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    #[command(flatten)]
    token: TokenSource,

    /// Connections that send requests [default: 64; idle and wait: 1].
    #[arg(long, short, value_name = "N", value_parser = parse_number::<usize>)]
    connections: Option<usize>,

    /// Requests that each connection keeps in flight.
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = parse_number::<usize>)]
    depth: usize,

    /// Exact length of a job's JSON text, in bytes or with KiB or MiB.
    #[arg(long, value_name = "SIZE", default_value = "100")]
    payload: Size,

    /// Queues that the jobs are spread over.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_number::<u64>)]
    queues: u64,

    /// Different priorities of jobs [default: 1000; pinpriq: 255].
    #[arg(long, value_name = "N", value_parser = parse_number::<u64>)]
    priorities: Option<u64>,

    /// Jobs put before measuring [default: 50000 for mixed; for drain what --requests needs, or
    /// 100000].
    #[arg(long, value_name = "N", value_parser = parse_number::<u64>)]
    backlog: Option<u64>,

    /// Waiting workers, each a connection of its own (wait).
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = parse_number::<usize>)]
    waiters: usize,

    /// Connections that do nothing (idle).
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = parse_number::<usize>)]
    idle: usize,

    /// Send this many requests a second, and count latency from the time at which each should have
    /// been sent (wait: this many puts). Without it each connection sends as soon as it may.
    #[arg(long, value_name = "PER_SECOND", value_parser = parse_rate)]
    rate: Option<f64>,

    /// Measure this many requests, rounded up to whole jobs. A get that waits is not counted.
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "duration")]
    #[arg(value_parser = parse_number::<u64>)]
    requests: Option<u64>,

    /// Measure for so long: 10, 10s or 500ms [default: 10s; put and drain: 100000 requests].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,

    /// Work for so long before measuring.
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "0")]
    warmup: Duration,

    /// Give up when the server is silent for so long.
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "30s")]
    patience: Duration,

    /// Leave the jobs that are still in the queues. Without it they are taken, checked and deleted
    /// after measuring.
    #[arg(long)]
    keep: bool,

    /// Process id of the server, if it runs on this machine: reports its CPU time and memory. Bytes
    /// for each job (put) and each connection (idle) are right only for a fresh server, because
    /// memory that it has kept does not show.
    #[arg(long, value_name = "PID", value_parser = parse_number::<u32>)]
    server_pid: Option<u32>,

    /// Write the result as JSON; `-`: to stdout, instead of the table.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Draw the distribution of latencies, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,

    /// The protocol. Those of this server are job-centre, pinpriq, beanstalkd and, over HTTP, jobq
    /// and health.
    #[arg(alias = "dialect", long, value_enum, default_value_t = BenchProtocol::JobCentre)]
    protocol: BenchProtocol,

    /// Queues are called this and a number [default: a name that no other run uses].
    #[arg(long, value_name = "NAME")]
    queue_prefix: Option<String>,

    /// Decides the contents of jobs [default: a random one].
    #[arg(long, value_name = "N", value_parser = parse_number::<u64>)]
    seed: Option<u64>,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunLength {
    Requests(u64),
    Time(Duration),
}

/// The validated arguments, with defaults filled in.
#[derive(Clone, Debug)]
pub(super) struct BenchSettings {
    pub(super) workload: Workload,
    pub(super) protocol: BenchProtocol,
    pub(super) address: String,
    pub(super) tls_ca: Option<PathBuf>,
    pub(super) token: Option<ClientToken>,
    pub(super) connections: usize,
    pub(super) depth: usize,
    pub(super) payload: usize,
    pub(super) queues: u64,
    pub(super) priorities: u64,
    pub(super) backlog: u64,
    pub(super) waiters: usize,
    pub(super) idle: usize,
    pub(super) rate: Option<f64>,
    pub(super) run_length: RunLength,
    pub(super) warmup: Duration,
    pub(super) patience: Duration,
    pub(super) keep: bool,
    pub(super) server_pid: Option<u32>,
    pub(super) json: Option<PathBuf>,
    pub(super) plot: Option<PathBuf>,
    pub(super) prefix: String,
    pub(super) seed: u64,
}

/// Valid in the names of tubes and keys of the other servers too.
const PREFIX_MAX_BYTES: usize = 100;
const QUEUES_MAX: u64 = 1_000_000;
const DEFAULT_PRIORITIES: u64 = 1000;
const IN_FLIGHT_MAX: usize = 10_000_000;
const MIXED_BACKLOG_JOBS: u64 = 50_000;
const DEFAULT_REQUESTS: u64 = 100_000;
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

impl Bench {
    /// Fills in the defaults.
    ///
    /// # Errors
    /// A message about the argument that is wrong.
    pub(super) fn settings(&self, entropy: u64) -> Result<BenchSettings, String> {
        self.check()?;
        let token = self.client_token()?;
        let has_default_count = matches!(self.workload, Workload::Put | Workload::Drain);
        let run_length = match (self.requests, self.duration) {
            (Some(requests), _) => RunLength::Requests(requests),
            (None, Some(duration)) => RunLength::Time(duration),
            // A drain ends with its backlog.
            (None, None) if self.workload == Workload::Drain && self.backlog.is_some() => {
                RunLength::Requests(u64::MAX)
            }
            (None, None) if has_default_count => RunLength::Requests(DEFAULT_REQUESTS),
            (None, None) => RunLength::Time(DEFAULT_DURATION),
        };
        let backlog = match (self.workload, self.backlog, run_length) {
            (_, Some(backlog), _) => backlog,
            (Workload::Mixed, None, _) => MIXED_BACKLOG_JOBS,
            (Workload::Drain, None, RunLength::Requests(requests)) => {
                requests.div_ceil(1 + u64::from(self.protocol.deletes()))
            }
            (Workload::Drain, None, RunLength::Time(_)) => DEFAULT_REQUESTS,
            _ => 0,
        };
        let if_workload = |workload, count| if self.workload == workload { count } else { 0 };
        let connections =
            if matches!(self.workload, Workload::Idle | Workload::Wait) { 1 } else { 64 };
        let prefix = self.queue_prefix.clone();
        let priorities_max = self.protocol.priorities_max();
        Ok(BenchSettings {
            workload: self.workload,
            protocol: self.protocol,
            address: self.address.clone().unwrap_or_else(|| self.protocol.default_address()),
            tls_ca: self.tls_ca.clone(),
            token,
            connections: self.connections.unwrap_or(connections),
            depth: self.depth,
            payload: self.payload.0,
            queues: self.queues,
            priorities: self.priorities.unwrap_or_else(|| DEFAULT_PRIORITIES.min(priorities_max)),
            backlog,
            waiters: if_workload(Workload::Wait, self.waiters),
            idle: if_workload(Workload::Idle, self.idle),
            rate: self.rate,
            run_length,
            warmup: self.warmup,
            patience: self.patience,
            keep: self.keep,
            server_pid: self.server_pid,
            json: self.json.clone(),
            plot: self.plot.clone(),
            prefix: prefix.unwrap_or_else(|| format!("bench-{:08x}-", entropy & 0xffff_ffff)),
            seed: self.seed.unwrap_or(entropy),
        })
    }

    fn check(&self) -> Result<(), String> {
        let connections = self.connections.unwrap_or(1);
        let in_flight = connections.checked_mul(self.depth);
        if in_flight.is_none_or(|count| count == 0 || count > IN_FLIGHT_MAX) {
            return Err(format!(
                "--connections and --depth: at least 1 each, at most {IN_FLIGHT_MAX} multiplied"
            ));
        }
        if self.payload.0 < PAYLOAD_MIN {
            return Err(format!(
                "--payload: a job that can be recognised has at least {PAYLOAD_MIN} bytes"
            ));
        }
        if !(1..=QUEUES_MAX).contains(&self.queues) {
            return Err(format!("--queues: a number from 1 to {QUEUES_MAX} is possible"));
        }
        let payload_max = self.protocol.payload_max();
        if self.payload.0 > payload_max {
            return Err(format!(
                "--payload: a job in this protocol has at most {payload_max} bytes"
            ));
        }
        let priorities_max = self.protocol.priorities_max();
        if self.priorities.is_some_and(|count| !(1..=priorities_max).contains(&count)) {
            return Err(format!("--priorities: a number from 1 to {priorities_max} is possible"));
        }
        let is_empty = self.requests == Some(0) || self.duration.is_some_and(|time| time.is_zero());
        if is_empty {
            return Err("--requests, --duration: there is nothing to measure".to_owned());
        }
        if self.backlog.is_some() && !matches!(self.workload, Workload::Drain | Workload::Mixed) {
            return Err("--backlog: only drain and mixed have one (a cycle over a backlog is \
                        called mixed)"
                .to_owned());
        }
        self.check_wait()?;
        self.check_files()?;
        match &self.queue_prefix {
            Some(prefix) if !is_valid_prefix(prefix) => Err(format!(
                "--queue-prefix: letters, digits, '.', '_' and inner '-' are possible, at most \
                 {PREFIX_MAX_BYTES}"
            )),
            _ => Ok(()),
        }
    }

    /// The token with which connections authenticate.
    fn client_token(&self) -> Result<Option<ClientToken>, String> {
        if self.protocol.authenticates() {
            return self.token.token(std::env::var_os(TOKEN_VARIABLE));
        }
        if self.token.has_file() {
            return Err("--token-file: this protocol has no way to give a token".to_owned());
        }
        Ok(None)
    }

    /// Checks that the output files can be written.
    fn check_files(&self) -> Result<(), String> {
        if let Some(path) = &self.plot {
            let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
            if ending.is_some_and(|ending| ending != "svg") {
                return Err(format!(
                    "--plot {}: the picture is SVG, and no other: give a name that ends in .svg",
                    path.display()
                ));
            }
            check_writable("--plot", path)?;
        }
        match &self.json {
            Some(path) if path.as_os_str() != "-" => check_writable("--json", path),
            _ => Ok(()),
        }
    }

    fn check_wait(&self) -> Result<(), String> {
        if self.workload != Workload::Wait {
            return Ok(());
        }
        if !self.protocol.takes() || self.protocol == BenchProtocol::Redis {
            return Err(
                "wait: an echo has no jobs to wait for, a Redis script cannot wait, and health \
                 and jobq have no request that does"
                    .to_owned(),
            );
        }
        if self.waiters == 0 || (self.waiters as u64) < self.queues {
            return Err("--waiters: every queue (--queues) needs at least one worker".to_owned());
        }
        Ok(())
    }
}

/// Checks by opening it that a file can be written; a file created for that is removed.
fn check_writable(flag: &str, path: &Path) -> Result<(), String> {
    let message = |why: &str| format!("{flag} {}: {why}", path.display());
    if path.is_dir() {
        return Err(message("this is a directory: give the name of a file"));
    }
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    if parent.is_some_and(|parent| !parent.is_dir()) {
        return Err(message("there is no such directory"));
    }
    let result = match File::options().write(true).create_new(true).open(path) {
        Ok(_) => std::fs::remove_file(path),
        // Opening a pipe or device may block, or have effects.
        Err(_) if path.exists() && !path.is_file() => Ok(()),
        Err(_) if path.is_file() => File::options().write(true).open(path).map(drop),
        Err(error) => Err(error),
    };
    result.map_err(|error| message(&format!("it cannot be written: {error}")))
}

fn is_valid_prefix(prefix: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=PREFIX_MAX_BYTES).contains(&prefix.len())
        && !prefix.starts_with('-')
        && prefix.bytes().all(is_allowed)
}

fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.001..=1e8).contains(&rate) => Ok(rate),
        _ => Err("give a number of requests a second".to_owned()),
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let (number, factor) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => (text, 1.0),
    };
    match number.trim_end().parse::<f64>() {
        Ok(number) if (0.0..=1e6).contains(&number) => Ok(Duration::from_secs_f64(number * factor)),
        _ => Err("give a number of seconds, or one with ms".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct TestCli {
        #[command(flatten)]
        bench: Bench,
    }

    fn settings_of(line: &str) -> Result<BenchSettings, String> {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        let line = TestCli::try_parse_from(words).map_err(|error| error.to_string())?;
        line.bench.settings(0xabc)
    }

    #[test]
    fn defaults_depend_on_the_workload() {
        let valid = |line: &str| settings_of(line).unwrap();
        assert_eq!(valid("").workload, Workload::Cycle);
        assert_eq!(valid("").run_length, RunLength::Time(DEFAULT_DURATION));
        assert_eq!(valid("put").run_length, RunLength::Requests(100_000));
        assert_eq!(valid("drain -n 10").backlog, 5);
        assert_eq!(valid("drain --backlog 7").run_length, RunLength::Requests(u64::MAX));
        assert_eq!(valid("mixed").backlog, 50_000);
        assert_eq!((valid("idle").connections, valid("idle").idle), (1, 1000));
        assert_eq!((valid("wait").connections, valid("wait").waiters), (1, 64));
        assert_eq!((valid("cycle").idle, valid("cycle").waiters), (0, 0));
        assert_eq!(valid("cycle").prefix, "bench-00000abc-");
        let settings = valid("cycle --payload 1KiB --duration 500ms --rate 1e3");
        assert_eq!((settings.payload, settings.rate), (1024, Some(1000.0)));
        assert_eq!(settings.run_length, RunLength::Time(Duration::from_millis(500)));
        assert_eq!(settings.priorities, 1000);
        let settings = valid("drain -n 10 --protocol pinpriq --payload 65535");
        assert_eq!((settings.backlog, settings.priorities), (10, 255), "a pop is final");
        for (protocol, address) in [
            ("job-centre", "127.0.0.1:11400"),
            ("pinpriq", "127.0.0.1:11401"),
            ("jobq", "127.0.0.1:11480"),
            ("health", "127.0.0.1:11480"),
            ("redis", "127.0.0.1:6379"),
        ] {
            assert_eq!(valid(&format!("cycle --protocol {protocol}")).address, address);
        }
        assert_eq!(valid("cycle --protocol redis --address x:1").address, "x:1");
    }

    #[test]
    fn what_makes_no_sense_is_explained() {
        for (line, word) in [
            ("cycle -c 0", "--connections"),
            ("cycle -d 0", "--depth"),
            ("cycle --payload 31", "--payload"),
            ("cycle --queues 0", "--queues"),
            ("cycle --priorities 0", "--priorities"),
            ("cycle --duration 0", "nothing to measure"),
            ("cycle --duration x", "seconds"),
            ("cycle --rate 0", "requests a second"),
            ("cycle --rate nan", "requests a second"),
            ("cycle --backlog 5", "mixed"),
            ("cycle -n 5 --duration 5", "cannot be used with"),
            ("cycle --queue-prefix a\"", "--queue-prefix"),
            ("cycle --queue-prefix=-a", "--queue-prefix"),
            ("wait --protocol redis", "wait"),
            ("wait --protocol jobq", "wait"),
            ("cycle --protocol pinpriq --token-file x", "no way to give a token"),
            ("cycle --token-file /no/such/file", "/no/such/file"),
            ("cycle --protocol pinpriq --payload 65536", "65535"),
            ("cycle --protocol pinpriq --priorities 256", "255"),
            ("wait --waiters 1 --queues 2", "--waiters"),
        ] {
            let error = settings_of(line).unwrap_err();
            assert!(error.contains(word), "{line}: {error}");
        }
    }
}
