//! Verbs about what is at the server: `connections`, `workers`, `constraints` and `schedules`.

use super::ClientArgs;
use super::failure::{Failure, Outcome};
use super::fields::{
    CONNECTION_FIELDS, CONSTRAINT_FIELDS, JOB_FIELDS, SCHEDULE_FIELDS, WORKER_FIELDS,
};
use super::http_client::{HttpClient, part};
use super::jobs::{JOB_COLUMNS, each_id, found_job};
use super::line_client::{LineClient, Reply};
use super::output::{Column, Meaning, OutputArgs, Printer, column};
use super::queues::pages;
use super::record::Record;
use super::request::Request;
use super::values::parse_json;
use clap::{Args, ValueEnum};

/// What is done with connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ConnectionAction {
    List,
    /// Their jobs go back.
    Close,
}

/// List the connections of clients, or close some.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre connections
  jobcentre connections --columns id,peer -o csv
  jobcentre connections close 4711 --ignore-missing")]
pub(in crate::cli) struct Connections {
    /// What to do.
    #[arg(value_enum, value_name = "ACTION", default_value = "list")]
    action: ConnectionAction,

    /// Of close: numbers of connections.
    #[arg(value_name = "ID", required_if_eq("action", "close"))]
    ids: Vec<u64>,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

const CONNECTION_COLUMNS: &[Column] = &[
    column("id", "id", Meaning::Text),
    column("protocol", "protocol", Meaning::Text),
    column("peer", "peer", Meaning::Text),
    column("since", "since", Meaning::Moment),
    column("waiting", "waiting", Meaning::Flag),
    column("reserved", "reserved", Meaning::Number),
    column("unsent", "unsent_bytes", Meaning::Number),
];

impl Connections {
    pub(super) fn run(&self) -> Outcome {
        let is_list = self.action == ConnectionAction::List;
        check_ids(is_list, &self.ids, "connections")?;
        self.output.check(CONNECTION_COLUMNS, CONNECTION_FIELDS)?;
        let mut client = self.client.line_client()?;
        if !is_list {
            let closed = each_id(&self.ids, client.ignores_missing, |id| {
                match client.reply(Request::new("close").number("id", id))? {
                    Reply::Missing => Err(Failure::nothing(format!("there is no connection {id}"))),
                    other => found_job(id, other).map(|_| ()),
                }
            });
            return closed.map(|_| ());
        }
        print_pages(&mut client, "clients", self.output.printer(CONNECTION_COLUMNS))
    }
}

/// List the registered workers.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre workers
  jobcentre workers -o json")]
pub(in crate::cli) struct Workers {
    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

const WORKER_COLUMNS: &[Column] = &[
    column("id", "id", Meaning::Text),
    column("kind", "kind", Meaning::Text),
    column("name", "name", Meaning::Text),
    column("reserved", "reserved", Meaning::Number),
    column("max", "max_jobs", Meaning::Number),
    column("url", "url", Meaning::Text),
    column("queues", "queues", Meaning::Text),
];

impl Workers {
    pub(super) fn run(&self) -> Outcome {
        self.output.check(WORKER_COLUMNS, WORKER_FIELDS)?;
        let server = self.client.connect.server()?;
        let http = HttpClient::new(&server)?;
        print_list(&http, "/workers", &mut self.output.printer(WORKER_COLUMNS))
    }
}

/// A list takes no numbers of what it lists, which is called `name`.
pub(super) fn check_ids(is_list: bool, ids: &[u64], name: &str) -> Outcome {
    if !is_list || ids.is_empty() {
        return Ok(());
    }
    let why = "are listed: --columns, -o and grep find one of them";
    Err(Failure::usage(format!("all {name} {why}")))
}

/// Prints all pages of a list that has a line request of this name.
pub(super) fn print_pages(client: &mut LineClient, name: &str, mut printer: Printer) -> Outcome {
    pages(client, &Request::new(name), usize::MAX, |item| {
        printer.row(&item);
        !printer.is_closed()
    })?;
    printer.finish()
}

/// Prints all pages of a list of the API.
fn print_list(http: &HttpClient<'_>, path: &str, printer: &mut Printer) -> Outcome {
    let mut cursor = String::new();
    loop {
        let page = http.ask("GET", &format!("{path}?limit=100{cursor}"), None)?;
        for item in page.records("items")? {
            printer.row(&item);
        }
        match page.text("next_cursor") {
            Some(next) if !printer.is_closed() => cursor = format!("&cursor={}", part(&next)),
            _ => return printer.end(),
        }
    }
}

/// What is done with something that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NamedAction {
    List,
    Show,
    Set,
    Delete,
}

/// List, show, set or delete constraints.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre constraints
  jobcentre constraints set all '{\"matcher\":[],\"max_running\":5}'
  jobcentre constraints show all
  jobcentre constraints delete all")]
pub(in crate::cli) struct Constraints {
    /// What to do.
    #[arg(value_enum, value_name = "ACTION", default_value = "list")]
    action: NamedAction,

    /// The name of a constraint.
    #[arg(required_if_eq_any([("action", "show"), ("action", "set"), ("action", "delete")]))]
    name: Option<String>,

    /// Of set: the constraint, as JSON with the fields of the API.
    #[arg(value_parser = parse_json, value_name = "JSON", required_if_eq("action", "set"))]
    constraint: Option<String>,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

const CONSTRAINT_COLUMNS: &[Column] = &[
    column("name", "name", Meaning::Text),
    column("max", "max_running", Meaning::Number),
    column("rate", "rate", Meaning::Text),
    column("per", "per", Meaning::Text),
    column("matcher", "matcher", Meaning::Text),
];

/// Does what an action says; `base` is the path of the list.
fn act_on_named(
    client: &ClientArgs,
    base: &str,
    (action, name, body): (NamedAction, Option<&str>, Option<&str>),
    printer: Printer,
) -> Outcome {
    let server = client.connect.server()?;
    let http = HttpClient::new(&server)?;
    let path = format!("{base}/{}", part(name.unwrap_or_default()));
    let mut printer = printer;
    match action {
        NamedAction::List => return print_list(&http, base, &mut printer),
        NamedAction::Show => printer.row(&http.ask("GET", &path, None)?),
        NamedAction::Set => printer.row(&http.ask("PUT", &path, body)?),
        NamedAction::Delete => drop(http.ask("DELETE", &path, None)?),
    }
    printer.end()
}

impl Constraints {
    pub(super) fn run(&self) -> Outcome {
        self.output.check(CONSTRAINT_COLUMNS, CONSTRAINT_FIELDS)?;
        let what = (self.action, self.name.as_deref(), self.constraint.as_deref());
        let printer = self.output.printer(CONSTRAINT_COLUMNS);
        act_on_named(&self.client, "/constraints", what, printer)
    }
}

/// What is done with a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ScheduleAction {
    List,
    Show,
    Set,
    Delete,
    /// Put its job now.
    Run,
}

/// List, show, set, delete or run schedules.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre schedules
  jobcentre schedules set a '{\"cron\":\"@daily\",\"queue\":\"q\",\"job\":{\"payload\":1}}'
  jobcentre schedules run a
  jobcentre schedules show a
  jobcentre schedules delete a")]
pub(in crate::cli) struct Schedules {
    /// What to do.
    #[arg(value_enum, value_name = "ACTION", default_value = "list")]
    action: ScheduleAction,

    /// The name of a schedule.
    #[arg(required_if_eq_any([("action", "show"), ("action", "set"), ("action", "delete"),
        ("action", "run")]))]
    name: Option<String>,

    /// Of set: the schedule, as JSON with the fields of the API.
    #[arg(value_parser = parse_json, value_name = "JSON", required_if_eq("action", "set"))]
    schedule: Option<String>,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

const SCHEDULE_COLUMNS: &[Column] = &[
    column("name", "name", Meaning::Text),
    column("cron", "cron", Meaning::Text),
    column("every", "every_ms", Meaning::Time),
    column("queue", "queue", Meaning::Text),
    column("paused", "paused", Meaning::Flag),
    column("next", "next_run", Meaning::Moment),
];

impl Schedules {
    pub(super) fn run(&self) -> Outcome {
        let action = match self.action {
            ScheduleAction::List => NamedAction::List,
            ScheduleAction::Show => NamedAction::Show,
            ScheduleAction::Set => NamedAction::Set,
            ScheduleAction::Delete => NamedAction::Delete,
            ScheduleAction::Run => return self.run_now(),
        };
        self.output.check(SCHEDULE_COLUMNS, SCHEDULE_FIELDS)?;
        let what = (action, self.name.as_deref(), self.schedule.as_deref());
        let printer = self.output.printer(SCHEDULE_COLUMNS).with(next_run);
        act_on_named(&self.client, "/schedules", what, printer)
    }

    fn run_now(&self) -> Outcome {
        self.output.check(JOB_COLUMNS, JOB_FIELDS)?;
        let server = self.client.connect.server()?;
        let path = format!("/schedules/{}/run", part(self.name.as_deref().unwrap_or_default()));
        let job = HttpClient::new(&server)?.ask("POST", &path, None)?;
        let mut printer = self.output.printer(JOB_COLUMNS);
        printer.row(&job);
        printer.finish()
    }
}

/// Adds the first of the next runs, for people.
fn next_run(record: &mut Record) {
    let next = record.at("next_runs").and_then(|list| {
        crate::wire::json::elements(&list)?.first().map(|&first| first.to_owned())
    });
    record.push("next_run", next.unwrap_or_else(|| "null".to_owned()));
}
