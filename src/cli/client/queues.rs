//! `jobcentre queues`.

use super::ClientArgs;
use super::failure::Outcome;
use super::fields::QUEUE_FIELDS;
use super::line_client::LineClient;
use super::output::{Column, Meaning, OutputArgs, column};
use super::record::Record;
use super::request::Request;
use clap::{Args, ValueEnum};

/// The order of queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Order {
    #[default]
    Name,
    /// Most ready jobs first.
    Ready,
    /// Oldest ready job first.
    Oldest,
    /// Most puts a second first.
    Rate,
}

/// List queues with their counters.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre queues --sort ready --top 10
  jobcentre queues --match 'mail-*' -o csv
  jobcentre queues --columns name,counts.buried --contains mail")]
pub(in crate::cli) struct Queues {
    /// Only those whose names contain this text.
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,

    /// Only those whose whole names match: * is any text, ? one character.
    #[arg(long, value_name = "GLOB")]
    r#match: Option<String>,

    /// Their order.
    #[arg(long, value_enum, value_name = "ORDER", default_value_t)]
    sort: Order,

    /// The first N only.
    #[arg(long, value_name = "N")]
    top: Option<usize>,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// The columns of a queue.
pub(super) const QUEUE_COLUMNS: &[Column] = &[
    column("name", "name", Meaning::Text),
    column("ready", "counts.ready", Meaning::Number),
    column("sched", "counts.scheduled", Meaning::Number),
    column("reserved", "counts.reserved", Meaning::Number),
    column("blocked", "counts.blocked", Meaning::Number),
    column("buried", "counts.buried", Meaning::Number),
    column("oldest", "oldest_ready_ms", Meaning::Time),
    column("put/s", "rates.put", Meaning::Rate),
    column("done/s", "rates.completed", Meaning::Rate),
    column("paused", "paused", Meaning::Flag),
];

/// All pages of a list. `each` says whether to go on.
pub(super) fn pages(
    client: &mut LineClient,
    request: &Request,
    limit: usize,
    each: impl FnMut(Record) -> bool,
) -> Outcome {
    pages_after(client, request, (None, limit), each).map(|_| ())
}

/// The same, behind a cursor. Returns the cursor of what follows, if the limit has ended it.
pub(super) fn pages_after(
    client: &mut LineClient,
    request: &Request,
    (after, limit): (Option<&str>, usize),
    mut each: impl FnMut(Record) -> bool,
) -> Outcome<Option<String>> {
    let (mut cursor, mut left) = (after.map(str::to_owned), limit);
    loop {
        let page = request.clone().number("limit", left.min(1_000) as u64);
        let page = page.maybe(cursor.take(), |request, cursor| request.text("cursor", &cursor));
        let record = client.ask(page, "nothing is known of this queue")?;
        for item in record.records("items")? {
            left -= 1;
            if !each(item) {
                return Ok(None);
            }
        }
        cursor = record.text("next_cursor");
        if cursor.is_none() || left == 0 {
            return Ok(cursor);
        }
    }
}

impl Queues {
    pub(super) fn run(&self) -> Outcome {
        self.output.check(QUEUE_COLUMNS, QUEUE_FIELDS)?;
        let mut client = self.client.line_client()?;
        let request = Request::new("queues")
            .maybe(self.r#match.as_ref(), |request, glob| request.text("match", glob));
        let request = match self.sort {
            Order::Name | Order::Rate => request,
            Order::Ready => request.text("sort", "ready"),
            Order::Oldest => request.text("sort", "oldest"),
        };
        let most = self.top.unwrap_or(usize::MAX);
        let mut found: Vec<Record> = Vec::new();
        let is_named = |queue: &Record| {
            let name = queue.text("name").unwrap_or_default();
            self.contains.as_ref().is_none_or(|text| name.contains(text.as_str()))
        };
        let stops_early = self.sort != Order::Rate;
        pages(&mut client, &request, usize::MAX, |queue| {
            if is_named(&queue) {
                found.push(queue);
            }
            !(stops_early && found.len() >= most)
        })?;
        if self.sort == Order::Rate {
            let rate = |queue: &Record| queue.fraction("rates.put").unwrap_or(0.0);
            found.sort_by(|one, other| rate(other).total_cmp(&rate(one)));
        }
        let mut printer = self.output.printer(QUEUE_COLUMNS);
        for queue in found.iter().take(most) {
            printer.row(queue);
        }
        printer.finish()
    }
}
