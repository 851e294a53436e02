//! The thresholds: each is computed from the rounds of its scenario.

use crate::beanstalkd::among;
use crate::chapters::Chapter;
use crate::durable::scenarios::{DENSE, IN_MEMORY};
use crate::http::native::Cell;
use crate::http::scenarios::{GET, HEALTH, NO_QUERIES, POST};
use crate::metric::{Metric, figure};
use crate::passes;
use crate::processor::FEWER;
use crate::run::Outcome;
use crate::scenarios::{NAMED, Sizes, at_backlog, named, short};
use crate::stats::{Spread, paired};
use crate::targets::Target::{self, Beanstalkd, Echo, JobCentre, Pinpriq, Redis, Tubes};
use crate::workers::scenarios::WANTED;
use serde::Serialize;

/// How two lines, or one, are judged.
#[derive(Clone, Debug)]
enum How {
    /// The first line over the second, round by round.
    Ratio { ours: String, theirs: String },
    /// The first line minus the second, round by round.
    Difference { ours: String, theirs: String },
    /// The value of this line.
    Value(String),
    /// A figure in the record of instruction counts.
    Recorded(&'static str),
}

/// How far a figure may go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    Most(f64),
    Least(f64),
}

impl Limit {
    fn value(self) -> f64 {
        match self {
            Self::Most(value) | Self::Least(value) => value,
        }
    }
}

/// The record, which has a command of its own, because its figures depend on no machine.
const RECORD: &str = include_str!("../instruction_counts.json");

/// Something that must hold.
#[derive(Clone, Debug)]
pub(crate) struct Threshold {
    scenario: String,
    pub(crate) group: Chapter,
    what: String,
    metric: Metric,
    how: How,
    limit: Limit,
    unit: &'static str,
    /// It is wished for, and nothing is wrong if it does not hold.
    aim: bool,
}

/// Whether a rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Finding {
    Holds,
    /// The median holds and some rounds do not.
    HoldsBarely,
    /// The median does not hold and some rounds do.
    FailsBarely,
    Fails,
    NotMeasured,
}

impl Finding {
    fn text(self, aim: bool) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::HoldsBarely => "holds (not in every round)",
            Self::FailsBarely if aim => "is missed (in some rounds it holds)",
            Self::FailsBarely => "**does not hold** (in some rounds it does)",
            Self::Fails if aim => "is missed",
            Self::Fails => "**does not hold**",
            Self::NotMeasured => "not measured",
        }
    }

    pub(crate) fn of(spread: &Spread, limit: Limit) -> Self {
        let is_within = |value: f64| match limit {
            Limit::Most(most) => value <= most,
            Limit::Least(least) => value >= least,
        };
        let (worst, best) = match limit {
            Limit::Most(_) => (spread.max, spread.min),
            Limit::Least(_) => (spread.min, spread.max),
        };
        match (is_within(spread.median), is_within(worst), is_within(best)) {
            (true, true, _) => Self::Holds,
            (true, false, _) => Self::HoldsBarely,
            (false, _, true) => Self::FailsBarely,
            (false, _, false) => Self::Fails,
        }
    }
}

/// A rule and what was found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) scenario: String,
    pub(crate) group: Chapter,
    pub(crate) what: String,
    pub(crate) measured: Option<Spread>,
    pub(crate) must: String,
    pub(crate) aim: bool,
    pub(crate) finding: Finding,
    /// Why nothing was measured, or what lessens the finding.
    pub(crate) why: Option<String>,
    #[serde(skip)]
    unit: &'static str,
}

/// The unit of what is counted: jobs.
const COUNT: &str = "jobs";

impl Verdict {
    /// What was found, in words.
    pub(crate) fn text(&self) -> &'static str {
        self.finding.text(self.aim)
    }

    /// The measured figure as people read it.
    pub(crate) fn shown(&self) -> String {
        let Some(spread) = &self.measured else { return "-".to_owned() };
        let show = |value: f64| match self.unit {
            "%" => format!("{:.0}", 100.0 * value),
            "x" => format!("{value:.3}"),
            COUNT => format!("{value:.0}"),
            _ => figure(value),
        };
        let unit = self.unit;
        let space = if unit == "x" { "" } else { " " };
        let [median, min, max] = [spread.median, spread.min, spread.max].map(show);
        if spread.rounds == 1 {
            return format!("{median}{space}{unit}");
        }
        format!("{median}{space}{unit} ({min} - {max})")
    }
}

impl Threshold {
    fn ratio(scenario: &str, group: Chapter, metric: Metric, theirs: Target, most: f64) -> Self {
        let what = format!("{scenario}: {} / {}", metric_name(metric), theirs.name());
        let ours = JobCentre.name().to_owned();
        let how = How::Ratio { ours, theirs: theirs.name().to_owned() };
        let limit = Limit::Most(most);
        Self {
            scenario: scenario.to_owned(),
            group,
            what,
            metric,
            how,
            limit,
            unit: "x",
            aim: false,
        }
    }

    fn value(
        scenario: &str,
        group: Chapter,
        metric: Metric,
        most: f64,
        unit: &'static str,
    ) -> Self {
        let what = format!("{scenario}: {}", metric_name(metric));
        let (limit, how) = (Limit::Most(most), How::Value(JobCentre.name().to_owned()));
        Self { scenario: scenario.to_owned(), group, what, metric, how, limit, unit, aim: false }
    }

    /// The same limit from below.
    fn at_least(self) -> Self {
        Self { limit: Limit::Least(self.limit.value()), ..self }
    }

    /// Finds out.
    pub(crate) fn verdict(&self, outcomes: &[Outcome]) -> Verdict {
        let spread = self.measure(outcomes);
        let sign = if matches!(self.limit, Limit::Most(_)) { "<=" } else { ">=" };
        let limit = self.limit.value();
        let must = match self.unit {
            "%" => format!("{sign} {:.0} %", 100.0 * limit),
            "x" => format!("{sign} {limit:.2}x"),
            COUNT => format!("{limit:.0} {COUNT}"),
            unit => format!("{sign} {} {unit}", figure(limit)),
        };
        let must = if self.aim { format!("aim: {must}") } else { must };
        let finding =
            spread.as_ref().map_or(Finding::NotMeasured, |spread| Finding::of(spread, self.limit));
        Verdict {
            scenario: self.scenario.clone(),
            group: self.group,
            what: self.what.clone(),
            must,
            aim: self.aim,
            finding,
            why: spread.as_ref().err().cloned(),
            measured: spread.ok(),
            unit: self.unit,
        }
    }

    fn measure(&self, outcomes: &[Outcome]) -> Result<Spread, String> {
        if let How::Recorded(name) = self.how {
            let record: serde_json::Value =
                serde_json::from_str(RECORD).map_err(|error| error.to_string())?;
            let count = record[name].as_f64().ok_or("the record does not know it")?;
            return Spread::of(&[count]).ok_or_else(|| "no figure".to_owned());
        }
        let outcome = outcomes.iter().find(|outcome| outcome.id == self.scenario);
        let outcome = outcome.ok_or("this scenario was not run")?;
        let line = |label: &str| outcome.line(label).ok_or_else(|| format!("{label} is absent"));
        let nothing = |label: &str| {
            let failure = outcome.line(label).and_then(|line| line.failure());
            format!("{label}: {}", failure.unwrap_or("no figure"))
        };
        match &self.how {
            How::Recorded(_) => Err("this is no scenario".to_owned()),
            How::Value(ours) => line(ours)?.spread(self.metric).ok_or_else(|| nothing(ours)),
            How::Ratio { ours, theirs } | How::Difference { ours, theirs } => {
                let is_ratio = matches!(self.how, How::Ratio { .. });
                let combine = |a: f64, b: f64| if is_ratio { a / b } else { a - b };
                let values = (line(ours)?.values(self.metric), line(theirs)?.values(self.metric));
                paired(&values.0, &values.1, combine)
                    .ok_or_else(|| format!("{}; {}", nothing(ours), nothing(theirs)))
            }
        }
    }
}

fn metric_name(metric: Metric) -> &'static str {
    match metric {
        Metric::Cpu => "CPU a request",
        Metric::P50 => "p50",
        Metric::P99 => "p99",
        Metric::P999 => "p99.9",
        other => other.title(),
    }
}

/// All limits that a report is checked against.
pub(crate) fn all(sizes: &Sizes) -> Vec<Threshold> {
    let mut rules = Vec::new();
    let cpu = |scenario, group, theirs, most| {
        Threshold::ratio(scenario, group, Metric::Cpu, theirs, most)
    };
    for (scenario, theirs, most) in [
        ("cycle-64-1", Echo, 1.25),
        ("cycle-64-1", Beanstalkd, 0.80),
        ("cycle-64-16", Echo, 3.0),
        ("cycle-64-16", Redis, 0.33),
        ("cycle-64-16", Beanstalkd, 0.17),
        ("cycle-1-128", Redis, 0.25),
        ("cycle-1-128", Beanstalkd, 0.12),
        ("cycle-1000-1", Echo, 1.25),
    ] {
        rules.push(cpu(scenario, Chapter::Cycle, theirs, most));
    }
    rules.push(recorded("request/cycle", Chapter::Cycle, 2600.0));
    rules.push(cpu("kilobyte-1", Chapter::Payload, Echo, 1.25));
    rules.push(cpu("kilobyte-16", Chapter::Payload, Redis, 0.35));
    rules.push(Threshold::value("calls-1", Chapter::Calls, Metric::Calls, 2.05, "calls"));
    rules.push(Threshold::value("calls-16", Chapter::Calls, Metric::Calls, 0.15, "calls"));
    rules.extend(growth(sizes));
    for (payload, most) in [(100, 200.0), (1000, 1120.0)] {
        let scenario = format!("memory-{payload}");
        let of =
            |metric, most, unit| Threshold::value(&scenario, Chapter::Memory, metric, most, unit);
        rules.push(of(Metric::JobBytes, most, "B"));
        rules.push(of(Metric::KeptLater, 0.25, "%"));
    }
    let of =
        |metric, most| Threshold::value("connections", Chapter::Connections, metric, most, "B");
    rules.push(of(Metric::IdleBytes, 512.0));
    rules.push(of(Metric::WaitingBytes, 900.0));
    for scenario in ["wait-1", "wait-64"] {
        for metric in [Metric::P50, Metric::P99] {
            rules.push(Threshold::ratio(scenario, Chapter::Latency, metric, Beanstalkd, 1.0));
        }
    }
    rules.push(Threshold::ratio("rate-1000", Chapter::Latency, Metric::P999, Echo, 2.0));
    rules.push(Threshold {
        scenario: "naming".to_owned(),
        group: Chapter::Queues,
        what: "naming: CPU a get that names 100 queues instead of 1".to_owned(),
        metric: Metric::CycleCpu,
        how: How::Difference { ours: named(NAMED[1]), theirs: named(NAMED[0]) },
        limit: Limit::Most(1.2),
        unit: "us more",
        aim: false,
    });
    rules.extend(["packets-1", "packets-16"].map(|scenario| Threshold {
        how: How::Ratio { ours: Pinpriq.name().to_owned(), theirs: JobCentre.name().to_owned() },
        what: format!("{scenario}: CPU a request, pinpriq / jobcentre"),
        aim: true,
        ..Threshold::ratio(scenario, Chapter::Packets, Metric::Cpu, JobCentre, 0.80)
    }));
    rules.extend(tls());
    rules.extend(tubes(sizes));
    rules.push(Threshold::value("lateness", Chapter::Lateness, Metric::Missed, 0.0, COUNT));
    rules.extend(passes());
    rules.extend(durable());
    rules.extend(http());
    let jobs = Threshold::value("workers", Chapter::Workers, Metric::Jobs, WANTED, "jobs/s");
    rules.push(jobs.at_least());
    rules.extend(processor());
    rules
}

/// What TLS may cost.
fn tls() -> [Threshold; 2] {
    [("tls-1", 1.35), ("tls-16", 1.1)].map(|(scenario, most)| {
        let [ours, theirs] = [Target::Tls, JobCentre].map(|target| target.name().to_owned());
        Threshold {
            what: format!("{scenario}: {}, {ours} / {theirs}", metric_name(Metric::Cpu)),
            how: How::Ratio { ours, theirs },
            ..Threshold::ratio(scenario, Chapter::Tls, Metric::Cpu, JobCentre, most)
        }
    })
}

/// Those of the listener for clients of beanstalkd.
fn tubes(sizes: &Sizes) -> Vec<Threshold> {
    let ratio = |scenario, metric, ours: String, theirs: String, most| Threshold {
        what: format!("{scenario}: {}, {ours} / {theirs}", metric_name(metric)),
        how: How::Ratio { ours, theirs },
        ..Threshold::ratio(scenario, Chapter::Beanstalkd, metric, Beanstalkd, most)
    };
    let [ours, theirs] = [Tubes, Beanstalkd].map(|target| target.name().to_owned());
    let to_theirs =
        |scenario, metric, most| ratio(scenario, metric, ours.clone(), theirs.clone(), most);
    let [none, many] = [0, sizes.tubes].map(|tubes| among(Tubes, tubes));
    let memory = ("beanstalkd-memory", Metric::JobBytes);
    vec![
        to_theirs("beanstalkd-64-1", Metric::Cpu, 0.65),
        to_theirs("beanstalkd-64-16", Metric::Cpu, 0.08),
        recorded("beanstalkd_request/cycle", Chapter::Beanstalkd, 1500.0),
        ratio("beanstalkd-tubes", Metric::Cpu, many, none, 1.1),
        to_theirs("beanstalkd-durable", Metric::Throughput, 7.0).at_least(),
        Threshold {
            how: How::Value(ours.clone()),
            ..Threshold::value(memory.0, Chapter::Beanstalkd, memory.1, 200.0, "B")
        },
    ]
}

/// Instructions a request, as they are recorded.
fn recorded(name: &'static str, group: Chapter, most: f64) -> Threshold {
    Threshold {
        scenario: "instructions".to_owned(),
        group,
        what: format!("instructions a request, depth 16 (recorded, {name})"),
        metric: Metric::Calls,
        how: How::Recorded(name),
        limit: Limit::Most(most),
        unit: "instructions",
        aim: false,
    }
}

/// Those of the HTTP protocol.
fn http() -> Vec<Threshold> {
    let between = |scenario: &str, metric, ours: &str, theirs: &str, most| Threshold {
        how: How::Ratio { ours: ours.to_owned(), theirs: theirs.to_owned() },
        what: format!("{scenario}: {}, {ours} / {theirs}", metric_name(metric)),
        ..Threshold::ratio(scenario, Chapter::Http, metric, Echo, most)
    };
    let mut rules = Vec::new();
    for ours in [POST, GET] {
        rules.push(between("http-1", Metric::Throughput, ours, HEALTH, 0.60).at_least());
    }
    rules.push(between("http-1", Metric::Cpu, HEALTH, Echo.name(), 1.5));
    // Requests that arrive together share their system calls. What is left of GET /health is then
    // so little that parsing and storing a job are a multiple of it: so differences are judged.
    for (ours, theirs, most) in
        [(POST, HEALTH, 1.6), (GET, HEALTH, 0.5), (HEALTH, Echo.name(), 0.35)]
    {
        rules.push(Threshold {
            how: How::Difference { ours: ours.to_owned(), theirs: theirs.to_owned() },
            what: format!("http-16: CPU a request, {ours} instead of {theirs}"),
            unit: "us more",
            ..between("http-16", Metric::Cpu, ours, theirs, most)
        });
    }
    for (scenario, ours, theirs, most) in [
        // 0.7 of the rate.
        ("native-work", Cell::ReserveAndComplete, Cell::PostAndGet, 1.0 / 0.7),
        ("native-key", Cell::PutWithKey, Cell::Put, 1.3),
    ] {
        rules.push(between(scenario, Metric::CycleCpu, ours.label(), theirs.label(), most));
    }
    rules.push(Threshold {
        how: How::Value(Cell::Pages.label().to_owned()),
        ..Threshold::value("native-page", Chapter::Http, Metric::CycleCpu, 200.0, "us")
    });
    rules.push(between("queries", Metric::P999, JobCentre.name(), NO_QUERIES, 2.0));
    rules.push(
        Threshold::value("polls", Chapter::Http, Metric::Polls, 2_000.0, "polls/s").at_least(),
    );
    rules
}

/// Those of the loads that make passes long.
fn passes() -> Vec<Threshold> {
    let rules = |(attack, _): &(&str, &str)| {
        let scenario = passes::id(attack);
        let of =
            |metric, most, unit| Threshold::value(&scenario, Chapter::Passes, metric, most, unit);
        [of(Metric::PassCpu, 5.0, "ms"), of(Metric::P999, 20_000.0, "us")]
    };
    let streams = passes::id(passes::STREAMS);
    let of = |metric, most, unit| Threshold::value(&streams, Chapter::Passes, metric, most, unit);
    let own = [of(Metric::StreamsShare, 0.01, "%"), of(Metric::BesideStreams, 1.1, "x")];
    let begun = passes::id("tls_clients");
    let tls = Threshold::value(&begun, Chapter::Passes, Metric::P99, 20_000.0, "us");
    passes::ATTACKS.iter().flat_map(rules).chain(own).chain([tls]).collect()
}

/// Those of the processor.
fn processor() -> [Threshold; 2] {
    let rate = (Metric::Messages, 200_000.0, "messages/s");
    let rate = Threshold::value("processor", Chapter::Processor, rate.0, rate.1, rate.2).at_least();
    let memory = Threshold {
        how: How::Ratio { ours: JobCentre.name().to_owned(), theirs: FEWER.to_owned() },
        what: "processor: peak memory, ten times the messages".to_owned(),
        ..Threshold::value("processor", Chapter::Processor, Metric::PeakMemory, 1.1, "x")
    };
    [rate, memory]
}

/// Those of jobs on the disk.
fn durable() -> Vec<Threshold> {
    let value = |scenario, metric, limit, unit| {
        Threshold::value(scenario, Chapter::Durable, metric, limit, unit)
    };
    let ratio = |scenario, metric, theirs, limit| {
        Threshold::ratio(scenario, Chapter::Durable, metric, theirs, limit)
    };
    let rate = Metric::Throughput;
    let in_memory = How::Ratio { ours: JobCentre.name().to_owned(), theirs: IN_MEMORY.to_owned() };
    vec![
        value("durable-64-1", rate, 75_000.0, "requests/s").at_least(),
        ratio("durable-64-1", rate, Redis, 1.0).at_least(),
        ratio("durable-64-1", rate, Beanstalkd, 7.0).at_least(),
        value("durable-64-16", rate, 250_000.0, "requests/s").at_least(),
        ratio("durable-64-16", rate, Redis, 1.0).at_least(),
        ratio("durable-1-1", rate, Beanstalkd, 1.0).at_least(),
        value("durable-1-1", Metric::OverBare, 1.8, "x"),
        // How fast the disk of this machine is counts as well.
        Threshold { aim: true, ..value("durable-1-1", Metric::PutP50, 170.0, "us") },
        Threshold {
            how: in_memory,
            what: format!("durable-50ms: CPU a request / {IN_MEMORY}"),
            ..ratio("durable-50ms", Metric::Cpu, JobCentre, 1.12)
        },
        ratio("durable-50ms", rate, Beanstalkd, 1.1).at_least(),
        Threshold {
            how: How::Ratio { ours: JobCentre.name().to_owned(), theirs: DENSE.to_owned() },
            what: format!("compaction: p99.9 / {DENSE}"),
            ..ratio("compaction", Metric::P999, JobCentre, 2.0)
        },
        value("recovery", Metric::RecoveryRate, 1e6, "jobs/s").at_least(),
        value("recovery", Metric::RecoveryMemory, 1.1, "x"),
    ]
}

/// Those of the backlog: from its smallest size to its largest.
fn growth(sizes: &Sizes) -> [Threshold; 2] {
    let [first, _, last] = sizes.backlogs;
    let (ours, theirs) = (at_backlog(JobCentre, last), at_backlog(JobCentre, first));
    let rule = |depth: usize, how, most, unit| Threshold {
        scenario: format!("backlog-{depth}"),
        group: Chapter::Backlog,
        what: format!("backlog-{depth}: CPU a request, {} -> {}", short(first), short(last)),
        metric: Metric::Cpu,
        how,
        limit: Limit::Most(most),
        unit,
        aim: false,
    };
    let ratio = How::Ratio { ours: ours.clone(), theirs: theirs.clone() };
    let difference = How::Difference { ours, theirs };
    [rule(1, ratio, 1.15, "x"), rule(16, difference, 0.8, "us more")]
}
