//! The scenarios of LightJQ.

use crate::chapters::Chapter;
use crate::metric::{Metric, grouped};
use crate::scenarios::{Entry, Scenario, Sizes, Task};
use crate::targets::Target::JobCentre;

/// What must be reached, and what is offered: a little more.
pub(crate) const WANTED: f64 = 10_000.0;
const OFFERED: u32 = 10_500;
const QUIET: u32 = 1_000;

/// All of them.
pub(crate) fn all(sizes: &Sizes) -> [Scenario; 2] {
    let scenario = |id: &str, rate: u32, seconds, columns, note| Scenario {
        id: id.to_owned(),
        group: Chapter::Workers,
        title: format!("{} jobs a second through 100 HTTP workers", grouped(&rate.to_string())),
        entries: vec![Entry {
            label: JobCentre.name().to_owned(),
            target: JobCentre,
            task: Task::Workers { rate, seconds },
        }],
        columns,
        compared: Vec::new(),
        note: Some(note),
    };
    let columns = vec![Metric::Jobs, Metric::JobCpu, Metric::Share, Metric::P50, Metric::P99];
    [
        scenario(
            "workers",
            OFFERED,
            sizes.seconds,
            columns,
            "a job is a push, a call of a worker and its report; jobs are those that were done; the \
             latencies are from the push to the worker's request",
        ),
        scenario(
            "waits",
            QUIET,
            sizes.rate_seconds,
            vec![Metric::P50, Metric::P99, Metric::Max, Metric::JobCpu, Metric::Share],
            "from the push of a job until a worker has the request for it",
        ),
    ]
}
