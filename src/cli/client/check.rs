//! `jobcentre check`: limits of a queue, in the form of plugins of Nagios and Icinga.

use super::ClientArgs;
use super::completions::queue_names;
use super::failure::{Exit, Failure, Outcome};
use super::line_client::LineClient;
use super::record::Record;
use super::request::Request;
use super::units;
use super::values::parse_time;
use clap::Args;
use std::io::Write as _;
use std::time::Duration;

/// Compare a queue with limits, as a plugin of Nagios: exit with 0 (OK), 1 (WARNING), 2 (CRITICAL)
/// or 3 (UNKNOWN).
///
/// A limit of which --warn names a smaller part gives a warning from there on.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre check --queue mail --max-oldest 5m --max-ready 1000
  jobcentre check --queue mail --max-buried 0
  jobcentre check --queue mail --max-ready 1000 --warn 50")]
pub(in crate::cli) struct Check {
    /// The queue.
    #[arg(long, value_name = "QUEUE", add = queue_names())]
    queue: String,

    /// The oldest ready job may be ready for this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    max_oldest: Option<Duration>,

    /// This many jobs may be ready.
    #[arg(long, value_name = "N")]
    max_ready: Option<u64>,

    /// This many jobs may be buried.
    #[arg(long, value_name = "N")]
    max_buried: Option<u64>,

    /// Warn from this part of a limit on, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=100))]
    warn: u8,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// How well something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    #[default]
    Ok,
    Warning,
    Critical,
    Unknown,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// The exit status of a plugin.
    fn outcome(self) -> Outcome {
        Err(Failure::new(
            match self {
                Self::Ok => return Ok(()),
                Self::Warning => Exit::Failed,
                Self::Critical => Exit::Usage,
                Self::Unknown => Exit::Partly,
            },
            "",
        ))
    }
}

/// A value with its limit: what people read, and the performance data of plugins.
struct Measure {
    level: Level,
    text: String,
    data: String,
}

impl Check {
    pub(super) fn run(&self) -> Outcome {
        let found = self.client.line_client().and_then(|mut client| self.ask(&mut client));
        let (level, text) = match found {
            Ok(queue) => self.judge(&queue),
            Err(failure) => (Level::Unknown, failure.sentence),
        };
        // A closed stdout is ignored: the status says it.
        let _ = writeln!(std::io::stdout(), "JOBCENTRE {} - {text}", level.name());
        level.outcome()
    }

    fn ask(&self, client: &mut LineClient) -> Outcome<Record> {
        let request = Request::new("stats").text("queue", &self.queue);
        client.ask(request, &format!("nothing is known of the queue '{}'", self.queue))
    }

    fn judge(&self, queue: &Record) -> (Level, String) {
        let number = |path: &str| queue.number(path).unwrap_or(0);
        let oldest = number("oldest_ready_ms") / 1_000;
        let max_oldest = self.max_oldest.map(|time| time.as_secs());
        let measures = [
            self.measure("oldest", oldest, max_oldest, "s"),
            self.measure("ready", number("counts.ready"), self.max_ready, ""),
            self.measure("buried", number("counts.buried"), self.max_buried, ""),
        ];
        let level = measures.iter().map(|it| it.level).max().unwrap_or_default();
        let texts: Vec<&str> = measures.iter().map(|it| &*it.text).collect();
        let data: Vec<&str> = measures.iter().map(|it| &*it.data).collect();
        (level, format!("{}: {} | {}", self.queue, texts.join(", "), data.join(" ")))
    }

    fn measure(&self, name: &str, value: u64, most: Option<u64>, unit: &str) -> Measure {
        let warn = most.map(|most| most.saturating_mul(self.warn.into()) / 100);
        let level = match (most, warn) {
            (Some(most), _) if value > most => Level::Critical,
            (Some(most), Some(warn)) if value > warn && warn < most => Level::Warning,
            _ => Level::Ok,
        };
        let shown = |number: u64| match unit {
            "s" if number > 0 => units::time(number * 1_000),
            "s" => "0s".to_owned(),
            _ => units::grouped(&number.to_string()),
        };
        let over = most.filter(|_| level != Level::Ok);
        let over = over.map_or_else(String::new, |most| format!(" (limit {})", shown(most)));
        let bound = |bound: Option<u64>| bound.map_or_else(String::new, |it| it.to_string());
        Measure {
            level,
            text: format!("{name} {}{over}", shown(value)),
            data: format!("{name}={value}{unit};{};{}", bound(warn), bound(most)),
        }
    }
}
