//! Verbs about whole queues and the whole server: `pause`, `resume`, `stats`, `info` and `drain`.

use super::ClientArgs;
use super::completions::queue_names;
use super::failure::Outcome;
use super::fields::QUEUE_FIELDS;
use super::line_client::LineClient;
use super::output::{Column, Meaning, OutputArgs, Printer, column};
use super::queues::QUEUE_COLUMNS;
use super::record::{Record, quoted};
use super::request::Request;
use super::units;
use super::values::parse_time;
use crate::wire::json::elements;
use clap::Args;
use std::time::Duration;

/// Stop handing out jobs of queues. They still take jobs.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre pause mail
  jobcentre pause mail letters --for 10m")]
pub(in crate::cli) struct Pause {
    /// The queues.
    #[arg(required = true, value_name = "QUEUE", add = queue_names())]
    queues: Vec<String>,

    /// End the pause after this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    r#for: Option<Duration>,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// Hand out the jobs of paused queues again.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre resume mail")]
pub(in crate::cli) struct Resume {
    /// The queues.
    #[arg(required = true, value_name = "QUEUE", add = queue_names())]
    queues: Vec<String>,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// The columns of a queue that was paused or not.
const PAUSE_COLUMNS: &[Column] = &[
    column("name", "name", Meaning::Text),
    column("paused", "paused", Meaning::Text),
    column("until", "paused_until", Meaning::Moment),
    column("ready", "counts.ready", Meaning::Number),
];

/// Sends a request for each queue, and prints the answers.
fn each_queue(
    client: &mut LineClient,
    queues: &[String],
    mut printer: Printer,
    request: impl Fn(&str) -> Request,
) -> Outcome {
    for queue in queues {
        let missing = format!("nothing is known of the queue '{queue}'");
        let answer = client.ask(request(queue), &missing);
        match answer {
            Ok(record) => printer.row(&record),
            Err(failure) => {
                printer.finish()?;
                return Err(failure);
            }
        }
    }
    printer.finish()
}

impl Pause {
    pub(super) fn run(&self) -> Outcome {
        self.output.check(PAUSE_COLUMNS, QUEUE_FIELDS)?;
        let printer = self.output.printer(PAUSE_COLUMNS);
        each_queue(&mut self.client.line_client()?, &self.queues, printer, |queue| {
            let request = Request::new("pause").text("queue", queue);
            request.maybe(self.r#for, |request, time| request.time("for", time))
        })
    }
}

impl Resume {
    pub(super) fn run(&self) -> Outcome {
        self.output.check(PAUSE_COLUMNS, QUEUE_FIELDS)?;
        let printer = self.output.printer(PAUSE_COLUMNS);
        each_queue(&mut self.client.line_client()?, &self.queues, printer, |queue| {
            Request::new("resume").text("queue", queue)
        })
    }
}

/// Show the counters of the server, or of queues.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre stats
  jobcentre stats mail
  jobcentre stats -o json")]
pub(in crate::cli) struct Stats {
    /// Queues [default: the whole server].
    #[arg(value_name = "QUEUE", add = queue_names())]
    queues: Vec<String>,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// Show what the server is: version, listeners, limits, engine.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre info
  jobcentre info -o json")]
pub(in crate::cli) struct Info {
    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// A field and its value, one a row.
const FIELD_COLUMNS: &[Column] =
    &[column("field", "field", Meaning::Text), column("value", "value", Meaning::Text)];

/// Members that [`Info`] shows; [`Stats`] shows the others.
const INFO_FIELDS: [&str; 5] = ["version", "engine", "listeners", "limits", "draining"];

/// The members of objects as rows, by their paths. Histograms are for programs: `-o json` has them.
fn flatten(record: &Record, prefix: &str, rows: &mut Vec<(String, String)>) {
    for (name, json) in record.members() {
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        match Record::parse(json.as_bytes()) {
            Ok(inner) if inner.get("bounds").is_some() => {}
            Ok(inner) => flatten(&inner, &path, rows),
            Err(_) if json.starts_with('[') => {
                for item in elements(json).unwrap_or_default() {
                    let listener = Record::parse(item.as_bytes()).unwrap_or_default();
                    let name = listener.text("protocol").unwrap_or_default();
                    let value = listener.get("address").unwrap_or(item).to_owned();
                    rows.push((format!("{path}.{name}"), value));
                }
            }
            Err(_) => rows.push((path, json.to_owned())),
        }
    }
}

/// Prints members of an object: one a row, or the object for programs that read JSON.
fn print_fields(output: &OutputArgs, record: &Record) -> Outcome {
    if output.is_json() {
        let mut printer = output.printer(&[]);
        printer.row(record);
        return printer.finish();
    }
    let (is_for_people, mut rows) = (output.is_for_people(), Vec::new());
    flatten(record, "", &mut rows);
    let mut printer = output.printer(FIELD_COLUMNS);
    for (name, json) in rows {
        let text = serde_json::from_str(&json).unwrap_or_else(|_| json.clone());
        let text = if is_for_people { for_people(&name, text) } else { text };
        let mut row = Record::default();
        row.push_text("field", &name);
        row.push("value", if text == "null" { json } else { quoted(&text) });
        printer.row(&row);
    }
    printer.finish()
}

/// A number in its unit, which the name of the field has at its end.
fn for_people(name: &str, text: String) -> String {
    let Ok(number) = text.parse::<u64>() else { return text };
    if name.ends_with("_ms") {
        return units::time(number);
    }
    if name.ends_with("_bytes") || name.ends_with(".max_request") || name.ends_with(".max_memory") {
        return units::bytes(number);
    }
    if name.ends_with("_ns") {
        return format!("{:.3} ms", crate::cli::bench::float(number) / 1e6);
    }
    units::grouped(&text)
}

impl Stats {
    pub(super) fn run(&self) -> Outcome {
        if self.queues.is_empty() {
            self.output.check(FIELD_COLUMNS, &[])?;
        } else {
            self.output.check(QUEUE_COLUMNS, QUEUE_FIELDS)?;
        }
        let mut client = self.client.line_client()?;
        if self.queues.is_empty() {
            let record = client.ask(Request::new("stats"), "the server has no counters")?;
            if self.output.is_json() {
                return print_fields(&self.output, &record);
            }
            let mut rest = Record::default();
            for (name, json) in record.members().filter(|(name, _)| !INFO_FIELDS.contains(name)) {
                rest.push(name, json);
            }
            return print_fields(&self.output, &rest);
        }
        let printer = self.output.printer(QUEUE_COLUMNS);
        each_queue(&mut client, &self.queues, printer, |queue| {
            Request::new("stats").text("queue", queue)
        })
    }
}

impl Info {
    pub(super) fn run(&self) -> Outcome {
        self.output.check(FIELD_COLUMNS, &[])?;
        let mut client = self.client.line_client()?;
        let stats = client.ask(Request::new("stats"), "the server does not say what it is")?;
        let mut record = Record::default();
        for (name, json) in stats.members() {
            if INFO_FIELDS.contains(&name) || ["uptime_ms", "jobs", "queues"].contains(&name) {
                record.push(name, json);
            }
        }
        print_fields(&self.output, &record)
    }
}

/// Make the server refuse new jobs, so that it can be emptied; everything else goes on.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre drain
  jobcentre drain --wait
  jobcentre drain --off")]
pub(in crate::cli) struct Drain {
    /// Take jobs again.
    #[arg(long, conflicts_with = "wait")]
    off: bool,

    /// Wait until no job is ready, scheduled, blocked or reserved.
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

impl Drain {
    pub(super) fn run(&self) -> Outcome {
        let mut client = self.client.line_client()?;
        let on = if self.off { "false" } else { "true" };
        client.ask(Request::new("drain").json("on", on), "the server cannot be drained")?;
        let note = if self.off { "the server takes jobs" } else { "the server takes no new jobs" };
        super::print_note(note);
        if self.wait { wait_until_empty(&mut client) } else { Ok(()) }
    }
}

/// Make the server read its users and its certificate again, as SIGHUP does.
///
/// Prints what is in use then. A file that cannot be used changes nothing, and is an error. Other
/// settings need a restart.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre reload
  jobcentre reload -o json")]
pub(in crate::cli) struct Reload {
    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

impl Reload {
    pub(super) fn run(&self) -> Outcome {
        self.output.check(FIELD_COLUMNS, &[])?;
        let mut client = self.client.line_client()?;
        let record = client.ask(Request::new("reload"), "the server cannot read anything again")?;
        let is_null = |name: &&str| record.get(name) == Some("null");
        if ["certificate_expires_at", "users"].iter().all(is_null) {
            super::print_note("there is neither a certificate nor a user: nothing was read again");
        }
        print_fields(&self.output, &record)
    }
}

/// Waits until no job is left that is not buried or completed.
fn wait_until_empty(client: &mut LineClient) -> Outcome {
    let mut last = None;
    loop {
        let stats = client.ask(Request::new("stats"), "the server has no counters")?;
        let unfinished = ["ready", "scheduled", "blocked", "reserved"];
        let of = |state: &&str| stats.number(&format!("counts.{state}")).unwrap_or(0);
        let left: u64 = unfinished.iter().map(of).sum();
        if left == 0 {
            return Ok(());
        }
        if last.replace(left) != Some(left) {
            super::print_note(&format!("jobs left: {}", units::grouped(&left.to_string())));
        }
        super::pause(Duration::from_millis(500));
    }
}
