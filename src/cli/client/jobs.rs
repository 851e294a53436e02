//! `jobcentre peek` and `jobcentre list`: jobs as they are, without taking them.

use super::ClientArgs;
use super::completions::queue_names;
use super::failure::{Exit, Failure, Outcome};
use super::fields::JOB_FIELDS;
use super::http_client::{HttpClient, part};
use super::line_client::{LineClient, Reply};
use super::output::{Column, Meaning, OutputArgs, Printer, column};
use super::queues::{pages, pages_after};
use super::record::{Record, quoted};
use super::request::Request;
use super::where_terms::parse_where;
use clap::{Args, ValueEnum};

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum State {
    Ready,
    Scheduled,
    Blocked,
    Reserved,
    Buried,
    Completed,
}

impl State {
    /// Its name in the API.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Scheduled => "scheduled",
            Self::Blocked => "blocked",
            Self::Reserved => "reserved",
            Self::Buried => "buried",
            Self::Completed => "completed",
        }
    }
}

/// The columns of a job.
pub(super) const JOB_COLUMNS: &[Column] = &[
    column("id", "id", Meaning::Exact),
    column("state", "state", Meaning::State),
    column("pri", "pri", Meaning::Exact),
    column("attempts", "attempts", Meaning::Number),
    column("available", "available_at", Meaning::Moment),
    column("queue", "queue", Meaning::Text),
    column("payload", "payload", Meaning::Json),
];

/// Show jobs: those with these ids, or the first ones of a queue.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre peek 1 2
  jobcentre peek mail --state buried --limit 5
  jobcentre peek 1 -o json
  jobcentre peek mail -o raw")]
pub(in crate::cli) struct Peek {
    /// Ids of jobs, or the name of one queue.
    #[arg(value_name = "ID|QUEUE", required_unless_present = "queue", add = queue_names())]
    what: Vec<String>,

    /// A queue, also one whose name is a number.
    #[arg(long, value_name = "QUEUE", conflicts_with = "what", add = queue_names())]
    queue: Option<String>,

    /// Of a queue: jobs in this state.
    #[arg(long, value_enum, value_name = "STATE", default_value = "ready")]
    state: State,

    /// Of a queue: this many jobs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    limit: usize,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

impl Peek {
    pub(super) fn run(&self) -> Outcome {
        self.output.check(JOB_COLUMNS, JOB_FIELDS)?;
        let ids: Option<Vec<u64>> = self.what.iter().map(|it| it.parse().ok()).collect();
        let queue = match (&self.queue, &*self.what, ids) {
            (None, [_, ..], Some(ids)) => return self.of_ids(&ids),
            (Some(queue), ..) | (None, [queue], None) => queue,
            _ => {
                let why = "give ids of jobs, or the name of one queue (--queue QUEUE if it is a \
                           number)";
                return Err(Failure::usage(why));
            }
        };
        let mut client = self.client.line_client()?;
        let mut printer = self.output.printer(JOB_COLUMNS);
        let request = Request::new("list").text("queue", queue).text("state", self.state.name());
        let mut found = false;
        pages(&mut client, &request, self.limit, |job| {
            found = true;
            print_job(&mut printer, job)
        })?;
        printer.finish()?;
        let missing = || Failure::nothing(format!("no job of this queue is {}", self.state.name()));
        if found { Ok(()) } else { Err(missing()) }
    }

    fn of_ids(&self, ids: &[u64]) -> Outcome {
        let mut client = self.client.line_client()?;
        let mut printer = self.output.printer(JOB_COLUMNS);
        let found = each_id(ids, client.ignores_missing, |id| {
            let reply = client.reply(Request::new("peek").number("id", id))?;
            found_job(id, reply).map(|job| {
                print_job(&mut printer, job);
            })
        });
        printer.finish()?;
        found.map(|_| ())
    }
}

/// The job that a reply has, or what there is instead.
pub(super) fn found_job(id: u64, reply: Reply) -> Outcome<Record> {
    match reply {
        Reply::Ok(job) => Ok(job),
        Reply::Missing => Err(Failure::nothing(format!(
            "there is no job {id}: it is done, deleted or expired, or was never put"
        ))),
        Reply::Error(sentence) => Err(Failure::refused(sentence)),
    }
}

/// Does something for each id, and says on stderr for which it failed. Returns for how many it was
/// done, if that is all of them, or all that are there with --ignore-missing.
pub(super) fn each_id(
    ids: &[u64],
    ignores_missing: bool,
    mut act: impl FnMut(u64) -> Outcome,
) -> Outcome<u64> {
    let (mut done, mut worst) = (0, None::<Failure>);
    for &id in ids {
        match act(id) {
            Ok(()) => done += 1,
            // The connection is lost, or nothing of this kind is permitted.
            Err(failure) if matches!(failure.exit, Exit::Unreachable | Exit::Denied) => {
                return Err(failure);
            }
            Err(failure) if ignores_missing && failure.exit == Exit::Nothing => {}
            Err(failure) if ids.len() == 1 => return Err(failure),
            Err(failure) => {
                crate::cli::print_error(&failure.sentence);
                if worst.as_ref().is_none_or(|worst| worst.exit == Exit::Nothing) {
                    worst = Some(failure);
                }
            }
        }
    }
    match worst {
        None => Ok(done),
        Some(_) if done > 0 => {
            Err(Failure::new(Exit::Partly, format!("done for {done} of {} jobs", ids.len())))
        }
        Some(failure) => Err(Failure::new(failure.exit, "")),
    }
}

/// Prints a job as the API names its fields. Returns whether more can be printed.
pub(super) fn print_job(printer: &mut Printer, mut job: Record) -> bool {
    job.rename("job", "payload");
    printer.row(&job);
    !printer.is_closed()
}

/// List the jobs of a queue.
///
/// Ready jobs come in the order in which they are handed out, scheduled ones by their times, others
/// by their ids. --where needs the index of the queue, and the HTTP listener.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre list mail --limit 20
  jobcentre list mail --state buried --columns id,last_error.message,payload
  jobcentre list letters --all -o jsonl
  jobcentre list letters --where payload.to=ann")]
pub(in crate::cli) struct List {
    /// The queue.
    #[arg(add = queue_names())]
    queue: String,

    /// Only jobs in this state.
    #[arg(long, value_enum, value_name = "STATE", conflicts_with = "where")]
    state: Option<State>,

    /// Only jobs for which this holds: payload.MEMBER=VALUE, or a query of the API as JSON.
    #[arg(long, value_name = "TERMS", value_parser = parse_where)]
    r#where: Option<String>,

    /// This many jobs.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,

    /// Those behind this place: a list that its limit has ended says on stderr where to go on.
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,

    /// All jobs.
    #[arg(long, conflicts_with = "limit")]
    all: bool,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// Ends a list, and says where the rest of it begins.
fn end_of_list(printer: Printer, next: Option<String>) -> Outcome {
    printer.finish()?;
    if let Some(next) = next {
        super::print_note(&format!("there may be more: --after {next}"));
    }
    Ok(())
}

impl List {
    pub(super) fn run(&self) -> Outcome {
        self.output.check(JOB_COLUMNS, JOB_FIELDS)?;
        let most = if self.all { usize::MAX } else { self.limit };
        let server = self.client.connect.server()?;
        if let Some(query) = &self.r#where {
            let http = HttpClient::new(&server)?;
            let mut printer = self.output.printer(JOB_COLUMNS);
            let next = self.search(&http, query, most, &mut printer)?;
            return end_of_list(printer, next);
        }
        let mut client = LineClient::connect(&server)?;
        let request = Request::new("list")
            .text("queue", &self.queue)
            .maybe(self.state, |request, state| request.text("state", state.name()));
        let mut printer = self.output.printer(JOB_COLUMNS);
        let place = (self.after.as_deref(), most);
        match pages_after(&mut client, &request, place, |job| print_job(&mut printer, job)) {
            Ok(next) => end_of_list(printer, next),
            Err(failure) => printer.finish().and(Err(failure)),
        }
    }

    fn search(
        &self,
        http: &HttpClient<'_>,
        query: &str,
        most: usize,
        printer: &mut Printer,
    ) -> Outcome<Option<String>> {
        let path = format!("/queues/{}/search", part(&self.queue));
        let (mut after, mut left) = (self.after.clone(), most);
        loop {
            let limit = left.min(1_000);
            let cursor =
                after.map_or_else(String::new, |it| format!(",\"cursor\":{}", quoted(&it)));
            let body = format!("{{\"query\":{query},\"limit\":{limit}{cursor}}}");
            let page = http.ask("POST", &path, Some(&body))?;
            for job in page.records("items")? {
                left -= 1;
                if !print_job(printer, job) {
                    return Ok(None);
                }
            }
            after = page.text("next_cursor");
            if after.is_none() || left == 0 {
                return Ok(after);
            }
        }
    }
}
