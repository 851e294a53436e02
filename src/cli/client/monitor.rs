//! `jobcentre monitor`: a row of counters each period.

use super::ClientArgs;
use super::completions::queue_names;
use super::failure::Outcome;
use super::fields::MONITOR_FIELDS;
use super::output::{Column, Meaning, OutputArgs, column};
use super::record::Record;
use super::request::Request;
use super::values::parse_time;
use clap::Args;
use jiff::Timestamp;
use std::time::Duration;

/// Print the counters of the server, or of a queue, each period, until it is ended.
///
/// The rates are means of the last minute.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre monitor -n 2 -d 100ms
  jobcentre monitor mail -n 1 -o jsonl")]
pub(in crate::cli) struct Monitor {
    /// A queue [default: the whole server].
    #[arg(add = queue_names())]
    queue: Option<String>,

    /// The period.
    #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    delay: Duration,

    /// Print this many rows, and end.
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

const MONITOR_COLUMNS: &[Column] = &[
    column("time", "time", Meaning::Text),
    column("ready", "counts.ready", Meaning::Number),
    column("reserved", "counts.reserved", Meaning::Number),
    column("sched", "counts.scheduled", Meaning::Number),
    column("buried", "counts.buried", Meaning::Number),
    column("put/s", "rates.put", Meaning::Rate),
    column("done/s", "rates.completed", Meaning::Rate),
    column("fail/s", "rates.failed", Meaning::Rate),
];

impl Monitor {
    pub(super) fn run(&self) -> Outcome {
        self.output.check(MONITOR_COLUMNS, MONITOR_FIELDS)?;
        let mut client = self.client.line_client()?;
        let mut printer = self.output.printer(MONITOR_COLUMNS);
        let mut left = self.count.unwrap_or(u64::MAX);
        let mut clock = crate::reactor::Clock::start();
        loop {
            let request = Request::new("stats");
            let request = request.maybe(self.queue.as_ref(), |it, queue| it.text("queue", queue));
            let stats = client.ask(request, "nothing is known of this queue")?;
            let mut row = Record::default();
            let at = i64::try_from(clock.sample().wall.0).unwrap_or(i64::MAX) / 1_000;
            row.push_text("time", &Timestamp::from_second(at).unwrap_or_default().to_string());
            for (name, json) in stats.members() {
                if ["counts", "rates", "waiting_consumers"].contains(&name) {
                    row.push(name, json);
                }
            }
            printer.row(&row);
            printer.flush()?;
            left -= 1;
            if left == 0 || printer.is_closed() {
                return printer.finish();
            }
            super::pause(self.delay);
        }
    }
}
