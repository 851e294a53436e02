//! The scenarios of the HTTP protocol.

use super::native;
use crate::chapters::Chapter;
use crate::metric::Metric;
use crate::scenarios::{Entry, Scenario, Sizes, Task, cycle, plain, short, words};
use crate::targets::Target::{self, Echo, Health, JobCentre, Jobq};

/// The lines of the scenarios `http-*`.
pub(crate) const HEALTH: &str = "GET /health";
pub(crate) const POST: &str = "POST job";
pub(crate) const GET: &str = "GET job/{id}";
/// The line of the scenario `queries` that has none.
pub(crate) const NO_QUERIES: &str = "without queries";

/// All of them.
pub(crate) fn all(sizes: &Sizes) -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = [1, 16].map(|depth| http(depth, sizes)).into();
    scenarios.extend([queries(sizes), polls(sizes)]);
    scenarios.extend(native::all(sizes));
    scenarios
}

fn http(depth: usize, sizes: &Sizes) -> Scenario {
    let put = format!(
        "put -c 64 -d {depth} --payload 100 --keep --warmup 0.2 --duration {}",
        sizes.seconds
    );
    let drain =
        format!("drain -c 64 -d {depth} --payload 100 --keep --backlog {}", sizes.drained / 4);
    let entry = |label: &str, target: Target, line: &str| Entry {
        label: label.to_owned(),
        target,
        task: Task::Load(words(line)),
    };
    let mut scenario = plain(
        format!("http-{depth}"),
        Chapter::Http,
        format!("64 connections, depth {depth}, jobs of 100 B in a watched queue"),
        vec![
            entry(HEALTH, Health, &put),
            entry(POST, Jobq, &put),
            entry(GET, Jobq, &drain),
            entry(Echo.name(), Echo, &put),
        ],
    );
    scenario.compared = vec![Metric::Throughput, Metric::Cpu];
    scenario.note = Some(
        "each GET reads another job of those that were posted before (`jobcentre bench drain`); \
         the echo sends back the lines of puts of jobs of the same size",
    );
    scenario
}

fn queries(sizes: &Sizes) -> Scenario {
    let line = cycle(64, 1, 100, sizes.rate_seconds);
    let entry = |label: &str, queried| Entry {
        label: label.to_owned(),
        target: JobCentre,
        task: Task::Queries { load: words(&line), jobs: sizes.queried, queried },
    };
    Scenario {
        id: "queries".to_owned(),
        group: Chapter::Http,
        title: format!(
            "clients of Job Centre at half load, 64 connections, beside queries over {} jobs",
            short(sizes.queried)
        ),
        entries: vec![entry(NO_QUERIES, false), entry(JobCentre.name(), true)],
        columns: vec![
            Metric::Throughput,
            Metric::Share,
            Metric::P50,
            Metric::P99,
            Metric::P999,
            Metric::Max,
            Metric::Queries,
        ],
        compared: vec![Metric::P50, Metric::P99, Metric::P999],
        note: Some(
            "one HTTP client has queries back to back; each reads all jobs. The server's thread of \
             queries has to share the core with its loop, and the client of queries that of the \
             generator: with a core each they would disturb less",
        ),
    }
}

fn polls(sizes: &Sizes) -> Scenario {
    let entry = Entry {
        label: JobCentre.name().to_owned(),
        target: JobCentre,
        task: Task::Polls { jobs: sizes.queried, seconds: sizes.seconds },
    };
    Scenario {
        id: "polls".to_owned(),
        group: Chapter::Http,
        title: format!(
            "poll_job with `state IS` a literal over {} jobs, 8 connections, depth 1",
            short(sizes.queried)
        ),
        entries: vec![entry],
        columns: vec![Metric::Polls, Metric::Cpu, Metric::Share],
        compared: Vec::new(),
        note: Some(
            "until the time is over or all jobs are taken; a request is a poll; the clients are \
             threads of the report on the generator's core, and parse every answer",
        ),
    }
}
