//! Runs a scenario: all of its entries in turn, round after round, each run with a fresh server.

use crate::beanstalkd;
use crate::chapters::Chapter;
use crate::load::{drive, number, sample};
use crate::metric::{Metric, Sample};
use crate::scenarios::{Entry, Scenario, Task};
use crate::stats::Spread;
use crate::targets::{Programs, Target};
use crate::{
    durable, http, many_queues, memory, passes, processor, syscalls, timer_lateness, workers,
};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

/// What came of a scenario.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) id: String,
    pub(crate) group: Chapter,
    pub(crate) title: String,
    pub(crate) columns: Vec<Metric>,
    pub(crate) compared: Vec<Metric>,
    pub(crate) lines: Vec<Line>,
    /// What a reader has to know.
    pub(crate) notes: Vec<String>,
    pub(crate) seconds: f64,
}

/// What came of an entry.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) target: Target,
    pub(crate) task: Task,
    /// One for each round: a sample, or why there is none.
    pub(crate) runs: Vec<Result<Sample, String>>,
}

impl Line {
    /// The values of a metric, round by round.
    pub(crate) fn values(&self, metric: Metric) -> Vec<Option<f64>> {
        let value = |run: &Result<Sample, String>| run.as_ref().ok()?.values.get(&metric).copied();
        self.runs.iter().map(value).collect()
    }

    pub(crate) fn spread(&self, metric: Metric) -> Option<Spread> {
        Spread::of(&self.values(metric).into_iter().flatten().collect::<Vec<_>>())
    }

    /// The first run that failed.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.runs.iter().find_map(|run| run.as_ref().err()).map(String::as_str)
    }
}

impl Outcome {
    pub(crate) fn line(&self, label: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.label == label)
    }

    /// The most that other programs used in any run, and in how many runs it was too much.
    pub(crate) fn disturbance(&self) -> Option<(f64, usize, usize)> {
        let runs = self.lines.iter().flat_map(|line| &line.runs).flatten();
        let others: Vec<f64> = runs.filter_map(|run| run.others).collect();
        let most = others.iter().copied().reduce(f64::max)?;
        let disturbed = others.iter().filter(|&&others| others > DISTURBED).count();
        Some((most, disturbed, others.len()))
    }
}

/// Above this share of a CPU, other programs are a disturbance.
pub(crate) const DISTURBED: f64 = 0.1;

/// Runs scenarios.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) programs: Programs,
    pub(crate) rounds: usize,
    pub(crate) scratch: PathBuf,
}

impl Runner {
    /// Runs one scenario. What fails is told in its place and stops nothing else.
    pub(crate) fn run(&self, scenario: &Scenario) -> Outcome {
        let start = Instant::now();
        let present = |entry: &&Entry| self.programs.has(entry.target);
        let entries: Vec<&Entry> = scenario.entries.iter().filter(present).collect();
        let mut notes: Vec<String> = scenario.note.iter().map(|&note| note.to_owned()).collect();
        let rate = self.half_rate(&entries, &mut notes);
        let mut runs: Vec<Vec<Result<Sample, String>>> = vec![Vec::new(); entries.len()];
        for round in 0..self.rounds {
            for (entry, runs) in entries.iter().zip(&mut runs) {
                let run = self.perform(entry, round, rate.as_ref());
                let told = match &run {
                    Ok(sample) => told(scenario, sample),
                    Err(why) => format!("failed: {why}"),
                };
                eprintln!(
                    "  {} {}/{}: {}: {told}",
                    scenario.id,
                    round + 1,
                    self.rounds,
                    entry.label
                );
                runs.push(run);
            }
        }
        let line = |(entry, runs): (&&Entry, Vec<_>)| Line {
            label: entry.label.clone(),
            target: entry.target,
            task: entry.task.clone(),
            runs,
        };
        Outcome {
            id: scenario.id.clone(),
            group: scenario.group,
            title: scenario.title.clone(),
            columns: scenario.columns.clone(),
            compared: scenario.compared.clone(),
            lines: entries.iter().zip(runs).map(line).collect(),
            notes,
            seconds: start.elapsed().as_secs_f64(),
        }
    }

    fn perform(
        &self,
        entry: &Entry,
        round: usize,
        rate: Option<&Result<f64, String>>,
    ) -> Result<Sample, String> {
        let (programs, target) = (&self.programs, entry.target);
        match &entry.task {
            Task::Load(words) => self.load(target, words),
            Task::HalfRate(words) => {
                let rate = rate.ok_or("no rate")?.as_ref().map_err(Clone::clone)?;
                self.load(target, &[&words[..], &["--rate".into(), rate.to_string()]].concat())
            }
            Task::Jobs { payload, count, drained_every_round } => {
                let drained = *drained_every_round || round == 0;
                memory::jobs(programs, target, *payload, *count, drained)
            }
            Task::Connections { count } => memory::connections(programs, target, *count),
            Task::Calls { depth, requests } => {
                syscalls::count(programs, &self.scratch, *depth, *requests)
            }
            Task::Naming { queues, cycles } => many_queues::measure(programs, *queues, *cycles),
            Task::Tubes { tubes, load } => beanstalkd::beside_tubes(programs, target, *tubes, load),
            Task::Lateness { jobs, spread_ms } => {
                timer_lateness::measure(programs, *jobs, *spread_ms)
            }
            Task::Durable { sync, load, beside_bare } => {
                durable::load(programs, &self.scratch, target, *sync, load, *beside_bare)
            }
            Task::Compaction { load, standing, journal } => {
                let rate = *rate.ok_or("no rate")?.as_ref().map_err(Clone::clone)?;
                durable::compaction::load(programs, &self.scratch, load, *standing, *journal, rate)
            }
            Task::Recovery { payload, count } => {
                durable::recovery(programs, &self.scratch, *payload, *count)
            }
            Task::Queries { load, jobs, queried } => {
                let rate = rate.ok_or("no rate")?.as_ref().map_err(Clone::clone)?;
                let words = [&load[..], &["--rate".into(), rate.to_string()]].concat();
                http::beside_queries(programs, &words, *jobs, *queried)
            }
            Task::Polls { jobs, seconds } => http::polls(programs, *jobs, *seconds),
            Task::Native { cell, count } => http::native::measure(programs, *cell, *count),
            Task::Workers { rate, seconds } => workers::measure(programs, *rate, *seconds),
            Task::Messages { messages } => processor::measure(programs, *messages),
            Task::Attack { attack, small } => passes::measure(programs, attack, *small),
        }
    }

    fn load(&self, target: Target, words: &[String]) -> Result<Sample, String> {
        let server = self.programs.start(target)?;
        drive(&self.programs, &server, target, words).map(sample)
    }

    /// Half of what the server reaches without a fixed rate, if an entry wants to know.
    fn half_rate(
        &self,
        entries: &[&Entry],
        notes: &mut Vec<String>,
    ) -> Option<Result<f64, String>> {
        let is_at_half = |task: &Task| {
            matches!(task, Task::HalfRate(_) | Task::Compaction { .. } | Task::Queries { .. })
        };
        let task = &entries.iter().find(|entry| is_at_half(&entry.task))?.task;
        let reached = || match task {
            Task::Compaction { load, .. } => {
                durable::compaction::reached(&self.programs, &self.scratch, load)
            }
            Task::HalfRate(words) | Task::Queries { load: words, .. } => {
                let server = self.programs.start(Target::JobCentre)?;
                let raw = drive(&self.programs, &server, Target::JobCentre, words)?;
                number(&raw, &["requests_per_second"]).ok_or_else(|| "no rate was told".to_owned())
            }
            _ => unreachable!("others have no rate"),
        };
        let rates: Result<Vec<f64>, String> = (0..3).map(|_| reached()).collect();
        let rate = rates.and_then(|rates| {
            let full = Spread::of(&rates).ok_or("no rate was told")?.median;
            let half = (full / 2.0 / 100.0).round() * 100.0;
            notes.push(format!(
                "jobcentre reaches {full:.0} requests a second with these clients (median of 3 \
                 runs); all targets get {half:.0}"
            ));
            Ok(half)
        });
        Some(rate)
    }
}

/// A run in a few words.
fn told(scenario: &Scenario, sample: &Sample) -> String {
    let part = |metric: &Metric| {
        let value = sample.values.get(metric)?;
        Some(format!("{} {}", metric.show(*value), metric.title()))
    };
    let mut parts: Vec<String> = scenario.columns.iter().filter_map(part).take(4).collect();
    if let Some(others) = sample.others.filter(|&others| others > DISTURBED) {
        parts.push(format!("disturbed: others used {:.0} % of a CPU", 100.0 * others));
    }
    parts.join(", ")
}
