//! The scenarios of durability.

use super::Syncing;
use super::compaction::Journal;
use crate::chapters::Chapter;
use crate::metric::{Metric, grouped};
use crate::scenarios::{Entry, Scenario, Sizes, Task, cycle, plain, short, words};
use crate::targets::Target::{self, Beanstalkd, JobCentre, Redis};

/// The label of a jobcentre that keeps nothing on the disk.
pub(crate) const IN_MEMORY: &str = "jobcentre, in memory";

/// The label of a jobcentre whose journal needs no compaction.
pub(crate) const DENSE: &str = "jobcentre, without compaction";

const PAYLOAD: usize = 100;

/// What is true of all scenarios with load.
const NOTE: &str = "what is on the disk: puts and deletes, of redis also gets (its lease is a \
    change; a get of jobcentre and beanstalkd syncs nothing itself); kernel threads that write to \
    the disk count as other programs";

pub(crate) fn all(sizes: &Sizes) -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = [1, 16].map(|depth| many(depth, sizes)).into();
    scenarios.extend([one(sizes), relaxed(sizes), compaction(sizes), recovery(sizes)]);
    scenarios
}

fn entry(target: Target, sync: Syncing, line: &str, beside_bare: bool) -> Entry {
    Entry {
        label: target.name().to_owned(),
        target,
        task: Task::Durable { sync, load: words(line), beside_bare },
    }
}

fn scenario(id: &str, title: String, entries: Vec<Entry>) -> Scenario {
    let mut scenario = plain(id.to_owned(), Chapter::Durable, title, entries);
    scenario.compared.push(Metric::Throughput);
    scenario.note = Some(NOTE);
    scenario
}

fn many(depth: usize, sizes: &Sizes) -> Scenario {
    let line = cycle(64, depth, PAYLOAD, sizes.seconds);
    let entry = |target| entry(target, Syncing::Always, &line, false);
    scenario(
        &format!("durable-64-{depth}"),
        format!("64 connections, depth {depth}, synced before every answer"),
        [JobCentre, Beanstalkd, Redis].map(entry).to_vec(),
    )
}

fn one(sizes: &Sizes) -> Scenario {
    let line = cycle(1, 1, PAYLOAD, sizes.seconds);
    let entry = |target| entry(target, Syncing::Always, &line, true);
    let mut scenario = scenario(
        "durable-1-1",
        "1 connection, depth 1, synced before every answer".to_owned(),
        [JobCentre, Beanstalkd].map(entry).to_vec(),
    );
    scenario.columns = vec![
        Metric::Cpu,
        Metric::Throughput,
        Metric::P50,
        Metric::PutP50,
        Metric::BareP50,
        Metric::OverBare,
        Metric::P99,
    ];
    scenario
}

fn relaxed(sizes: &Sizes) -> Scenario {
    let line = cycle(64, 1, PAYLOAD, sizes.seconds);
    let sync = Syncing::Every(50);
    let memory =
        Entry { label: IN_MEMORY.to_owned(), target: JobCentre, task: Task::Load(words(&line)) };
    scenario(
        "durable-50ms",
        "64 connections, depth 1, synced every 50 ms".to_owned(),
        vec![entry(JobCentre, sync, &line, false), memory, entry(Beanstalkd, sync, &line, false)],
    )
}

fn compaction(sizes: &Sizes) -> Scenario {
    let line = cycle(64, 1, PAYLOAD, sizes.seconds);
    let entry = |label: &str, journal| Entry {
        label: label.to_owned(),
        target: JobCentre,
        task: Task::Compaction { load: words(&line), standing: sizes.jobs, journal },
    };
    Scenario {
        id: "compaction".to_owned(),
        group: Chapter::Durable,
        title: format!(
            "half load beside {} standing jobs, 64 connections, synced before every answer",
            short(sizes.jobs)
        ),
        entries: vec![entry(JobCentre.name(), Journal::Sparse), entry(DENSE, Journal::Dense)],
        columns: vec![
            Metric::Throughput,
            Metric::Share,
            Metric::P50,
            Metric::P99,
            Metric::P999,
            Metric::Max,
            Metric::Moved,
        ],
        compared: vec![Metric::P50, Metric::P99, Metric::P999],
        note: Some(
            "before the first line's load others went through until a third of the journal was \
             dead, so that compaction begins; what was moved says the server's log at its end",
        ),
    }
}

fn recovery(sizes: &Sizes) -> Scenario {
    let entry = Entry {
        label: JobCentre.name().to_owned(),
        target: JobCentre,
        task: Task::Recovery { payload: PAYLOAD, count: sizes.recovered },
    };
    Scenario {
        id: "recovery".to_owned(),
        group: Chapter::Durable,
        title: format!(
            "{} waiting jobs of {} B come back after a stop",
            short(sizes.recovered),
            grouped(&PAYLOAD.to_string())
        ),
        entries: vec![entry],
        columns: vec![
            Metric::RecoveryRate,
            Metric::RecoverySeconds,
            Metric::MemoryBefore,
            Metric::MemoryAfter,
            Metric::RecoveryMemory,
        ],
        compared: Vec::new(),
        note: Some(
            "jobs a second as the server logs them; memory is all of the process, at rest; the \
             journal was just written, so the system has it in its cache",
        ),
    }
}
