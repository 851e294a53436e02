//! The report at a tiny size and without peers: whether it still fits the generator.

use crate::machine::{Header, numbers};
use crate::metric::{Metric, figure};
use crate::run::Runner;
use crate::scenarios::{Entry, Scenario, Sizes, Task, all};
use crate::stats::{Spread, paired};
use crate::targets::{Programs, Target};
use crate::thresholds::{self, Finding, Limit};
use crate::{markdown, plots};
use std::path::Path;

const TINY: Sizes = Sizes {
    seconds: 0.05,
    rate_seconds: 0.05,
    backlogs: [10, 20, 100],
    jobs: 5_000,
    connections: 20,
    calls: 600,
    cycles: 160,
    drained: 1_000,
    tubes: 500,
    timed: 2_000,
    spread_ms: 500,
    recovered: 1_000,
    queried: 500,
    messages: 4_000,
    small_attacks: true,
};

/// The scenarios with an instrument of their own, and one of each other kind.
const CHECKED: [&str; 28] = [
    "cycle-64-1",
    "backlog-16",
    "memory-100",
    "connections",
    "tls-16",
    "wait-1",
    "naming",
    "packets-16",
    "pops-1",
    "deliveries-1",
    "beanstalkd-64-16",
    "beanstalkd-tubes",
    "beanstalkd-durable",
    "beanstalkd-memory",
    "lateness",
    "pass-lease-ends",
    "durable-1-1",
    "compaction",
    "recovery",
    "http-1",
    "queries",
    "polls",
    "native-work",
    "native-key",
    "native-page",
    "workers",
    "waits",
    "processor",
];

/// Runs all checks.
///
/// # Errors
/// Says what was wrong.
pub(crate) fn run() -> Result<(), String> {
    arithmetic();
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-self-check");
    std::fs::create_dir_all(&scratch).map_err(|error| error.to_string())?;
    let programs = Programs::own(None, &scratch);
    let runner = Runner { programs, rounds: 1, scratch: scratch.clone() };
    let scenarios: Vec<Scenario> = all(&TINY)
        .into_iter()
        .filter(|scenario| CHECKED.contains(&scenario.id.as_str()))
        .map(tiny)
        .collect();
    let outcomes: Vec<_> = scenarios.iter().map(|scenario| runner.run(scenario)).collect();
    for outcome in &outcomes {
        for line in &outcome.lines {
            if let Some(why) = line.failure() {
                return Err(format!("{}: {}: {why}", outcome.id, line.label));
            }
            for &metric in &outcome.columns {
                if line.spread(metric).is_none() {
                    return Err(format!("{}: no figure for {}", outcome.id, metric.title()));
                }
            }
        }
    }
    let verdicts: Vec<_> =
        thresholds::all(&TINY).iter().map(|threshold| threshold.verdict(&outcomes)).collect();
    let judged = verdicts.iter().filter(|verdict| verdict.finding != Finding::NotMeasured).count();
    let what = "backlog, memory twice, connections twice, tls, naming, instructions twice, \
        packets, tubes, memory of tubes, lateness, pass twice, durable-1-1 twice, compaction, \
        recovery twice, http-1 twice, queries, polls, native work, native key, native page, \
        workers, processor twice";
    assert_eq!(judged, 30, "{what}");
    let mut plotted = Vec::new();
    for plot in plots::all(&outcomes, &TINY) {
        let plot = plot?;
        assert!(plot.svg.trim_end().ends_with("</svg>"), "{}", plot.file);
        plotted.push((plot.group, plot.file, plot.title));
    }
    let header = Header::new(&runner.programs, 1, TINY.seconds, true);
    let text = markdown::write(&header, &verdicts, &outcomes, &plotted);
    assert!(text.contains("cycle-64-1") && text.contains("beanstalkd is absent"), "{text}");
    std::fs::remove_dir_all(&scratch).map_err(|error| error.to_string())?;
    println!("the report works: {} scenarios, {} plots", outcomes.len(), plotted.len());
    Ok(())
}

/// Few connections, so that the smallest machine can do it.
fn tiny(mut scenario: Scenario) -> Scenario {
    let shrink = |entry: &mut Entry| {
        if let Task::Load(words) = &mut entry.task {
            words.extend(["--patience".to_owned(), "60".to_owned()]);
        }
    };
    scenario.entries.iter_mut().for_each(shrink);
    scenario
}

fn arithmetic() {
    let spread = Spread::of(&[3.0, 1.0, 2.0, f64::NAN]).expect("there are values");
    assert_eq!((spread.median, spread.min, spread.max, spread.rounds), (2.0, 1.0, 3.0, 3));
    for (limit, finding) in [
        (Limit::Most(3.0), Finding::Holds),
        (Limit::Most(2.0), Finding::HoldsBarely),
        (Limit::Most(1.0), Finding::FailsBarely),
        (Limit::Most(0.5), Finding::Fails),
        (Limit::Least(1.0), Finding::Holds),
        (Limit::Least(2.0), Finding::HoldsBarely),
        (Limit::Least(3.0), Finding::FailsBarely),
        (Limit::Least(3.5), Finding::Fails),
    ] {
        assert_eq!(Finding::of(&spread, limit), finding, "{limit:?}");
    }
    let even = Spread::of(&[4.0, 1.0]).map(|spread| figure(spread.median));
    assert_eq!(even.as_deref(), Some("2.50"));
    assert_eq!(Spread::of(&[]), None);
    // A round in which one of the two failed says nothing.
    let (ours, theirs) = ([Some(1.0), None, Some(9.0)], [Some(2.0), Some(1.0), Some(3.0)]);
    let ratio = paired(&ours, &theirs, |a, b| a / b).expect("there are pairs");
    assert_eq!((ratio.min, ratio.max, ratio.rounds), (0.5, 3.0, 2));
    let figures = [0.1234, 1.234, 12.34, 123.4, 1234.5, -1_234_567.0].map(figure);
    assert_eq!(figures, ["0.123", "1.23", "12.3", "123", "1,234", "-1,234,567"]);
    assert_eq!(Metric::KeptLater.show(0.251), "25 %");
    assert_eq!(numbers("0-2,5\n"), [0, 1, 2, 5]);
    assert_eq!(Target::SERVERS.len(), 8);
}
