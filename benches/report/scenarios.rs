//! The scenarios of the report. Each has a few entries that run interleaved, round after round, so
//! that a disturbance affects all of them alike.

use crate::beanstalkd;
use crate::chapters::Chapter;
use crate::durable::{self, Syncing};
use crate::http;
use crate::metric::{Metric, grouped};
use crate::passes;
use crate::processor;
use crate::targets::Target;
use crate::tls;
use crate::workers;
use serde::Serialize;

/// Some entries that are measured side by side.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// What `--only` names.
    pub(crate) id: String,
    pub(crate) group: Chapter,
    pub(crate) title: String,
    pub(crate) entries: Vec<Entry>,
    pub(crate) columns: Vec<Metric>,
    /// The columns whose ratios to the first entry are shown.
    pub(crate) compared: Vec<Metric>,
    /// What a reader has to know.
    pub(crate) note: Option<&'static str>,
}

/// One line of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) label: String,
    pub(crate) target: Target,
    pub(crate) task: Task,
}

/// What is done with a fresh server.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Task {
    /// `jobcentre bench` with these arguments.
    Load(Vec<String>),
    /// The same, at half of the rate that the server reaches with these arguments at most.
    HalfRate(Vec<String>),
    /// Fill it with jobs, and perhaps drain it again.
    Jobs { payload: usize, count: u64, drained_every_round: bool },
    /// Connect many clients that do nothing, then have them wait.
    Connections { count: usize },
    /// Count system calls.
    Calls { depth: usize, requests: u64 },
    /// Cycles whose gets name this many queues.
    Naming { queues: usize, cycles: usize },
    /// `jobcentre bench` with these arguments, while a job waits in each of so many other tubes.
    Tubes { tubes: usize, load: Vec<String> },
    /// Jobs whose time comes within so long.
    Lateness { jobs: usize, spread_ms: u64 },
    /// `jobcentre bench` with these arguments on a server that keeps jobs on the disk.
    Durable { sync: Syncing, load: Vec<String>, beside_bare: bool },
    /// The same at half of the rate that is reached at most, beside many standing jobs.
    Compaction { load: Vec<String>, standing: u64, journal: durable::compaction::Journal },
    /// Fill a server that keeps jobs on the disk, stop it and start it again.
    Recovery { payload: usize, count: u64 },
    /// `jobcentre bench` with these arguments, at half of the rate that is reached at most, beside
    /// many jobs in a watched queue, which are queried or not.
    Queries { load: Vec<String>, jobs: u64, queried: bool },
    /// Polls over this many jobs.
    Polls { jobs: u64, seconds: f64 },
    /// So many cycles of the native API.
    Native { cell: http::native::Cell, count: u64 },
    /// Jobs a second that are delivered to workers.
    Workers { rate: u32, seconds: f64 },
    /// The number of messages for the processor.
    Messages { messages: u64 },
    /// A load that makes passes long.
    Attack { attack: &'static str, small: bool },
}

/// How large everything is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) seconds: f64,
    pub(crate) rate_seconds: f64,
    pub(crate) backlogs: [u64; 3],
    pub(crate) jobs: u64,
    pub(crate) connections: usize,
    pub(crate) calls: u64,
    pub(crate) cycles: usize,
    pub(crate) drained: u64,
    pub(crate) tubes: usize,
    pub(crate) timed: usize,
    pub(crate) spread_ms: u64,
    pub(crate) recovered: u64,
    pub(crate) queried: u64,
    pub(crate) messages: u64,
    pub(crate) small_attacks: bool,
}

impl Sizes {
    /// Those of the report.
    pub(crate) const FULL: Self = Self {
        seconds: 2.0,
        rate_seconds: 4.0,
        backlogs: [1_000, 100_000, 1_000_000],
        jobs: 1_000_000,
        connections: 10_000,
        calls: 600_000,
        cycles: 200_000,
        drained: 400_000,
        tubes: 26_000,
        timed: 1_000_000,
        spread_ms: 10_000,
        recovered: 1_000_000,
        queried: 50_000,
        messages: 1_000_000,
        small_attacks: false,
    };
    /// Those of a trial.
    pub(crate) const QUICK: Self = Self {
        seconds: 0.4,
        rate_seconds: 1.0,
        backlogs: [1_000, 10_000, 100_000],
        jobs: 100_000,
        connections: 2_000,
        calls: 60_000,
        cycles: 20_000,
        drained: 40_000,
        tubes: 26_000,
        timed: 50_000,
        spread_ms: 2_000,
        recovered: 20_000,
        queried: 10_000,
        messages: 100_000,
        small_attacks: true,
    };
}

use Target::{Beanstalkd, Echo, JobCentre, Pinpriq, Redis, TokioCurrent};
const PEERS: [Target; 4] = [JobCentre, Echo, Beanstalkd, Redis];
/// Depths of the plot of throughput; 1 and 16 are measured with all targets.
const DEPTHS: [(usize, bool); 4] = [(1, true), (4, false), (16, true), (64, false)];
const WORKLOAD_COLUMNS: [Metric; 6] =
    [Metric::Cpu, Metric::Throughput, Metric::Share, Metric::P50, Metric::P99, Metric::P999];

/// All scenarios, in the order of the report.
pub(crate) fn all(sizes: &Sizes) -> Vec<Scenario> {
    let mut scenarios = cycles(sizes);
    scenarios.extend(payloads(sizes));
    scenarios.extend([1, 16].map(|depth| calls(depth, sizes)));
    scenarios.extend([1, 16].map(|depth| backlog(depth, sizes)));
    scenarios.extend([100, 1000].map(|payload| memory(payload, sizes)));
    scenarios.push(connections(sizes));
    scenarios.extend(tls::all(sizes));
    scenarios.extend([(1, 1), (8, 8)].map(|(connections, depth)| wait(connections, depth, sizes)));
    scenarios.push(rate(sizes));
    scenarios.push(naming(sizes));
    scenarios.extend([1, 16].map(|depth| packets(depth, sizes)));
    scenarios.extend([1, 16].map(|depth| pops(depth, sizes)));
    scenarios.extend([64, 1].map(|waiters| deliveries(waiters, sizes)));
    scenarios.extend(beanstalkd::all(sizes));
    scenarios.push(lateness(sizes));
    scenarios.extend(passes::all(sizes));
    scenarios.extend(durable::scenarios::all(sizes));
    scenarios.extend(http::scenarios::all(sizes));
    scenarios.extend(workers::scenarios::all(sizes));
    scenarios.push(processor::scenario(sizes));
    scenarios
}

pub(crate) fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn load(line: &str, targets: &[Target]) -> Vec<Entry> {
    let entry = |&target: &Target| Entry {
        label: target.name().to_owned(),
        target,
        task: Task::Load(words(line)),
    };
    targets.iter().map(entry).collect()
}

/// The arguments of a cycle.
pub(crate) fn cycle(connections: usize, depth: usize, payload: usize, seconds: f64) -> String {
    format!(
        "cycle -c {connections} -d {depth} --payload {payload} --warmup 0.2 --duration {seconds}"
    )
}

pub(crate) fn plain(id: String, group: Chapter, title: String, entries: Vec<Entry>) -> Scenario {
    let (columns, compared) = (WORKLOAD_COLUMNS.to_vec(), vec![Metric::Cpu]);
    Scenario { id, group, title, entries, columns, compared, note: None }
}

fn cycles(sizes: &Sizes) -> Vec<Scenario> {
    let shapes = DEPTHS.iter().map(|&(depth, all)| (64, depth, all));
    let shapes = shapes.chain([(1, 128, false), (1000, 1, true)]);
    let scenario = |(connections, depth, all): (usize, usize, bool)| {
        let targets: &[Target] = if all { &Target::SERVERS } else { &PEERS };
        let line = cycle(connections, depth, 100, sizes.seconds);
        let noun = if connections == 1 { "connection" } else { "connections" };
        plain(
            format!("cycle-{connections}-{depth}"),
            Chapter::Cycle,
            format!("{} {noun}, depth {depth}", grouped(&connections.to_string())),
            load(&line, targets),
        )
    };
    shapes.map(scenario).collect()
}

fn payloads(sizes: &Sizes) -> [Scenario; 2] {
    [1, 16].map(|depth| {
        plain(
            format!("kilobyte-{depth}"),
            Chapter::Payload,
            format!("64 connections, depth {depth}, 1,000 B"),
            load(&cycle(64, depth, 1000, sizes.seconds), &PEERS),
        )
    })
}

fn calls(depth: usize, sizes: &Sizes) -> Scenario {
    Scenario {
        id: format!("calls-{depth}"),
        group: Chapter::Calls,
        title: format!("cycle, 64 connections, depth {depth}"),
        entries: vec![Entry {
            label: JobCentre.name().to_owned(),
            target: JobCentre,
            task: Task::Calls { depth, requests: sizes.calls },
        }],
        columns: vec![Metric::Calls],
        compared: Vec::new(),
        note: None,
    }
}

fn backlog(depth: usize, sizes: &Sizes) -> Scenario {
    let targets: &[Target] =
        if depth == 1 { &[JobCentre] } else { &[JobCentre, Beanstalkd, Redis] };
    let mut entries = Vec::new();
    for &target in targets {
        for jobs in sizes.backlogs {
            entries.push(Entry {
                label: at_backlog(target, jobs),
                target,
                task: Task::Load(words(&format!(
                    "mixed -c 64 -d {depth} --backlog {jobs} --keep --warmup 0.2 --duration {}",
                    sizes.seconds
                ))),
            });
        }
    }
    plain(
        format!("backlog-{depth}"),
        Chapter::Backlog,
        format!("cycle over a standing backlog, 64 connections, depth {depth}"),
        entries,
    )
}

/// The label of an entry of a backlog scenario.
pub(crate) fn at_backlog(target: Target, jobs: u64) -> String {
    format!("{}, {} waiting", target.name(), short(jobs))
}

/// 1k, 100k, 1M.
pub(crate) fn short(count: u64) -> String {
    match count {
        1_000_000.. if count.is_multiple_of(1_000_000) => format!("{}M", count / 1_000_000),
        1_000.. if count.is_multiple_of(1_000) => format!("{}k", count / 1_000),
        _ => count.to_string(),
    }
}

fn memory(payload: usize, sizes: &Sizes) -> Scenario {
    let entry = |target: Target| Entry {
        label: target.name().to_owned(),
        target,
        task: Task::Jobs { payload, count: sizes.jobs, drained_every_round: target == JobCentre },
    };
    Scenario {
        id: format!("memory-{payload}"),
        group: Chapter::Memory,
        title: format!("{} waiting jobs of {} B", short(sizes.jobs), grouped(&payload.to_string())),
        entries: [JobCentre, Beanstalkd, Redis].map(entry).to_vec(),
        columns: vec![Metric::JobBytes, Metric::KeptAtOnce, Metric::KeptLater, Metric::KeptLast],
        compared: vec![Metric::JobBytes],
        note: None,
    }
}

fn connections(sizes: &Sizes) -> Scenario {
    let entry = |target: Target| Entry {
        label: target.name().to_owned(),
        target,
        task: Task::Connections { count: sizes.connections },
    };
    Scenario {
        id: "connections".to_owned(),
        group: Chapter::Connections,
        title: format!("{} connections", grouped(&sizes.connections.to_string())),
        entries: Target::SERVERS.map(entry).to_vec(),
        columns: vec![Metric::IdleBytes, Metric::WaitingBytes],
        compared: vec![Metric::IdleBytes],
        note: None,
    }
}

fn wait(connections: usize, depth: usize, sizes: &Sizes) -> Scenario {
    let flight = connections * depth;
    let line = format!(
        "wait --waiters 64 -c {connections} -d {depth} --warmup 0.2 --duration {}",
        sizes.seconds
    );
    let waiting: Vec<Target> =
        Target::SERVERS.into_iter().filter(|target| !matches!(target, Echo | Redis)).collect();
    let mut scenario = plain(
        format!("wait-{flight}"),
        Chapter::Latency,
        format!(
            "64 waiting workers, at most {flight} {} under way: from put to delivery",
            if flight == 1 { "job" } else { "jobs" }
        ),
        load(&line, &waiting),
    );
    scenario.compared = vec![Metric::P50];
    scenario
}

fn rate(sizes: &Sizes) -> Scenario {
    let line = cycle(1000, 1, 100, sizes.rate_seconds);
    let entry = |target: Target| Entry {
        label: target.name().to_owned(),
        target,
        task: Task::HalfRate(words(&line)),
    };
    let mut scenario = plain(
        "rate-1000".to_owned(),
        Chapter::Latency,
        "1,000 clients at half of the rate that saturates jobcentre".to_owned(),
        [JobCentre, Echo, TokioCurrent, Beanstalkd, Redis].map(entry).to_vec(),
    );
    scenario.columns = vec![
        Metric::Throughput,
        Metric::Share,
        Metric::P50,
        Metric::P99,
        Metric::P999,
        Metric::P9999,
        Metric::Max,
    ];
    scenario.compared = vec![Metric::P999];
    scenario
}

/// How many queues the gets of the scenario `naming` name.
pub(crate) const NAMED: [usize; 2] = [1, 100];

fn naming(sizes: &Sizes) -> Scenario {
    let entry = |queues| Entry {
        label: named(queues),
        target: JobCentre,
        task: Task::Naming { queues, cycles: sizes.cycles },
    };
    Scenario {
        id: "naming".to_owned(),
        group: Chapter::Queues,
        title: "one connection, depth 16; 100 queues, in each of which less urgent jobs wait"
            .to_owned(),
        entries: NAMED.map(entry).to_vec(),
        columns: vec![Metric::CycleCpu],
        compared: vec![Metric::CycleCpu],
        note: None,
    }
}

/// The label of an entry of the scenario `naming`.
pub(crate) fn named(queues: usize) -> String {
    format!("jobcentre, gets name {queues}")
}

/// What it means that a push has no answer.
const RECEIPTS: &str = "a request of pinpriq is a push or a pop, or the delivery to a subscriber; \
    one of jobcentre also a delete. A push has no answer: the generator asks for a receipt, a pop \
    of an empty queue, one for all pushes of a write, which is work of the server and counts as no \
    request";

/// Jobs of 100 B by either protocol of one server.
fn protocols(id: String, title: String, line: &str) -> Scenario {
    let mut scenario = plain(id, Chapter::Packets, title, load(line, &[JobCentre, Pinpriq]));
    scenario.columns.insert(1, Metric::JobCpu);
    scenario.compared.push(Metric::JobCpu);
    scenario.note = Some(RECEIPTS);
    scenario
}

fn packets(depth: usize, sizes: &Sizes) -> Scenario {
    protocols(
        format!("packets-{depth}"),
        format!("push and pop against put, get, delete: 64 connections, depth {depth}"),
        &cycle(64, depth, 100, sizes.seconds),
    )
}

fn pops(depth: usize, sizes: &Sizes) -> Scenario {
    let jobs = sizes.drained;
    protocols(
        format!("pops-{depth}"),
        format!(
            "pop against get and delete: {} jobs drained by 64 connections, depth {depth}",
            short(jobs)
        ),
        &format!("drain -c 64 -d {depth} --payload 100 --backlog {jobs}"),
    )
}

fn deliveries(waiters: usize, sizes: &Sizes) -> Scenario {
    let (noun, seconds) = (if waiters == 1 { "worker" } else { "workers" }, sizes.seconds);
    let mut scenario = protocols(
        format!("deliveries-{waiters}"),
        format!("{waiters} waiting {noun}, one job under way: from push or put to delivery"),
        &format!("wait --waiters {waiters} -c 1 -d 1 --warmup 0.2 --duration {seconds}"),
    );
    // How many puts there are in a second says the latency.
    scenario.columns.retain(|&column| column != Metric::Throughput);
    scenario.compared.push(Metric::P50);
    scenario
}

fn lateness(sizes: &Sizes) -> Scenario {
    let entry = Entry {
        label: JobCentre.name().to_owned(),
        target: JobCentre,
        task: Task::Lateness { jobs: sizes.timed, spread_ms: sizes.spread_ms },
    };
    Scenario {
        id: "lateness".to_owned(),
        group: Chapter::Lateness,
        title: format!(
            "{} jobs with delay, ttl or ttr, due within {} s",
            short(sizes.timed as u64),
            grouped(&(sizes.spread_ms / 1000).to_string())
        ),
        entries: vec![entry],
        columns: vec![
            Metric::DelayP50,
            Metric::DelayP99,
            Metric::DelayWorst,
            Metric::LeaseP50,
            Metric::LeaseP99,
            Metric::LeaseWorst,
            Metric::Missed,
            Metric::Share,
        ],
        compared: Vec::new(),
        note: Some(
            "counted from before the put (or the get that held the job) was sent until after the \
             read that brought the job; epoll counts in milliseconds, so an idle server is up to \
             1 ms late",
        ),
    }
}
