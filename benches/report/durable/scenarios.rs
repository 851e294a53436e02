//! The cells of durability.

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

/// What is true of all cells with load.
const NOTE: &str = "what is on the disk: puts and deletes, of redis also gets (its lease is a \
    change; a get of jobcentre and beanstalkd syncs nothing itself); kernel threads that write to \
    the disk count as other programs";

pub(crate) fn all(sizes: &Sizes) -> Vec<Scenario> {
    let mut cells: Vec<Scenario> = [1, 16].map(|depth| many(depth, sizes)).into();
    cells.extend([one(sizes), relaxed(sizes), compaction(sizes), recovery(sizes)]);
    cells
}

fn entry(contestant: Target, sync: Syncing, line: &str, beside_bare: bool) -> Entry {
    Entry {
        label: contestant.name().to_owned(),
        contestant,
        task: Task::Durable { sync, load: words(line), beside_bare },
    }
}

fn cell(id: &str, title: String, entries: Vec<Entry>) -> Scenario {
    let mut cell = plain(id.to_owned(), Chapter::Durable, title, entries);
    cell.compared.push(Metric::Throughput);
    cell.note = Some(NOTE);
    cell
}

fn many(depth: usize, sizes: &Sizes) -> Scenario {
    let line = cycle(64, depth, PAYLOAD, sizes.seconds);
    let entry = |contestant| entry(contestant, Syncing::Always, &line, false);
    cell(
        &format!("durable-64-{depth}"),
        format!("64 connections, depth {depth}, synced before every answer"),
        [JobCentre, Beanstalkd, Redis].map(entry).to_vec(),
    )
}

fn one(sizes: &Sizes) -> Scenario {
    let line = cycle(1, 1, PAYLOAD, sizes.seconds);
    let entry = |contestant| entry(contestant, Syncing::Always, &line, true);
    let mut cell = cell(
        "durable-1-1",
        "1 connection, depth 1, synced before every answer".to_owned(),
        [JobCentre, Beanstalkd].map(entry).to_vec(),
    );
    cell.columns = vec![
        Metric::Cpu,
        Metric::Throughput,
        Metric::P50,
        Metric::PutP50,
        Metric::BareP50,
        Metric::OverBare,
        Metric::P99,
    ];
    cell
}

fn relaxed(sizes: &Sizes) -> Scenario {
    let line = cycle(64, 1, PAYLOAD, sizes.seconds);
    let sync = Syncing::Every(50);
    let memory = Entry {
        label: IN_MEMORY.to_owned(),
        contestant: JobCentre,
        task: Task::Load(words(&line)),
    };
    cell(
        "durable-50ms",
        "64 connections, depth 1, synced every 50 ms".to_owned(),
        vec![entry(JobCentre, sync, &line, false), memory, entry(Beanstalkd, sync, &line, false)],
    )
}

fn compaction(sizes: &Sizes) -> Scenario {
    let line = cycle(64, 1, PAYLOAD, sizes.seconds);
    let entry = |label: &str, journal| Entry {
        label: label.to_owned(),
        contestant: JobCentre,
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
        contestant: JobCentre,
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
