//! Verbs that change jobs: `delete`, `kick`, `bury`, `release`, `move` and `change`.

use super::ClientArgs;
use super::action_client::{
    ActionClient, Members, act_on_query, act_on_states, act_or_request, of_query,
};
use super::completions::queue_names;
use super::failure::{Failure, Outcome};
use super::jobs::{State, each_id, found_job};
use super::line_client::{LineClient, Reply};
use super::output::{Meaning, OutputArgs, column};
use super::queues::pages;
use super::record::{Record, quoted};
use super::request::Request;
use super::selection::{Chosen, Selection, confirm, count};
use super::units::jobs;
use super::values::{parse_json, parse_time};
use clap::Args;
use std::io::{IsTerminal as _, Write as _, stdout};
use std::time::Duration;

/// What a deletion says to an action.
const DELETE: Members<'_> = &[("do", "\"delete\"")];

/// States of which jobs can be moved and changed.
const WAITING: [State; 4] = [State::Ready, State::Scheduled, State::Blocked, State::Buried];

/// States of which jobs can be purged.
const PURGED: [State; 5] =
    [State::Ready, State::Scheduled, State::Blocked, State::Buried, State::Completed];

/// Prints how many jobs it were: a sentence on a terminal, or else a column.
fn print_count(output: &OutputArgs, name: &'static str, number: u64) -> Outcome {
    if !output.is_said() && stdout().is_terminal() {
        // A closed stdout is ignored: the jobs are changed.
        let _ = writeln!(stdout(), "{} {name}", jobs(number));
        return Ok(());
    }
    let mut record = Record::default();
    record.push(name, number.to_string());
    let mut printer = output.printer(&[column(name, name, Meaning::Number)]);
    printer.row(&record);
    printer.finish()
}

/// How many of the jobs with these ids there are.
fn existing(client: &mut LineClient, ids: &[u64]) -> Outcome<u64> {
    for_ids(client, ids, "peek")
}

/// Sends a request of this name for each id.
fn for_ids(client: &mut LineClient, ids: &[u64], name: &str) -> Outcome<u64> {
    each_id(ids, client.ignores_missing, |id| {
        let reply = client.reply(Request::new(name).number("id", id))?;
        found_job(id, reply).map(|_| ())
    })
}

/// A request about many jobs, which is answered when it is done.
fn bulk(client: &mut LineClient, request: Request, field: &str) -> Outcome<u64> {
    client.allow_wait(None);
    let answer = client.ask(request, "nothing is known of this queue")?;
    Ok(answer.number(field).unwrap_or(0))
}

fn names(states: &[State]) -> Vec<&'static str> {
    states.iter().map(|state| state.name()).collect()
}

/// Delete jobs, whatever their state. Reserved ones are deleted by their ids only.
///
/// Many jobs of a queue are deleted after a question on the terminal, or with --yes.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre delete 1 2
  jobcentre delete --queue mail --state buried --dry-run
  jobcentre delete --queue mail --all --yes")]
pub(in crate::cli) struct Delete {
    #[command(flatten)]
    jobs: Selection,

    /// Do not ask.
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

impl Delete {
    pub(super) fn run(&self) -> Outcome {
        self.output.check(&[], &["deleted", "to delete"])?;
        let mut client = self.client.line_client()?;
        let is_dry_run = self.jobs.is_dry_run();
        self.jobs.refuse_reserved("deleted")?;
        // Who has said --yes need not see how many there are.
        let is_counted = is_dry_run || !self.yes;
        let deleted = match self.jobs.chosen(&PURGED)? {
            Chosen::Ids(ids) if is_dry_run => existing(&mut client, ids)?,
            Chosen::Ids(ids) => for_ids(&mut client, ids, "delete")?,
            Chosen::States(queue, states) => {
                let number = if is_counted { count(&mut client, queue, &states)? } else { 0 };
                if is_dry_run {
                    number
                } else {
                    confirm(number, queue, self.yes)?;
                    act_or_request(&mut client, (queue, &states), DELETE, |client| {
                        let request = Request::new("purge").text("queue", queue);
                        bulk(client, request.texts("states", &names(&states)), "deleted")
                    })?
                }
            }
            Chosen::Query(queue, query) => {
                let mut actions = ActionClient::new(&mut client)?;
                let filter = of_query(query);
                let what = (queue, &*filter);
                let number = if is_counted { actions.act(what, DELETE, true)? } else { 0 };
                if is_dry_run {
                    number
                } else {
                    confirm(number, queue, self.yes)?;
                    actions.act(what, DELETE, false)?
                }
            }
        };
        print_count(&self.output, if is_dry_run { "to delete" } else { "deleted" }, deleted)
    }
}

/// Make buried or scheduled jobs ready.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre kick 1
  jobcentre kick --queue mail --all
  jobcentre kick --queue mail --state scheduled --dry-run")]
pub(in crate::cli) struct Kick {
    #[command(flatten)]
    jobs: Selection,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

impl Kick {
    pub(super) fn run(&self) -> Outcome {
        let (past, future, states) = ("kicked", "to kick", &[State::Buried]);
        let what = Verb { past, future, request: "kick", states };
        what.run(&self.jobs, &self.output, &self.client)
    }
}

/// Bury jobs: they stay, and are not handed out until they are kicked.
///
/// A reserved job is taken from its worker.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre bury 1 2
  jobcentre bury --queue mail --state ready
  jobcentre bury --queue mail --all --dry-run")]
pub(in crate::cli) struct Bury {
    #[command(flatten)]
    jobs: Selection,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

impl Bury {
    pub(super) fn run(&self) -> Outcome {
        let states = &[State::Ready, State::Scheduled, State::Blocked, State::Reserved];
        let what = Verb { past: "buried", future: "to bury", request: "bury", states };
        what.run(&self.jobs, &self.output, &self.client)
    }
}

/// A verb that is the same for one job and for many.
struct Verb<'a> {
    past: &'static str,
    /// The same for a dry run.
    future: &'static str,
    request: &'static str,
    /// What --all means.
    states: &'a [State],
}

impl Verb<'_> {
    fn run(&self, jobs: &Selection, output: &OutputArgs, client: &ClientArgs) -> Outcome {
        output.check(&[], &[self.past, self.future])?;
        let mut client = client.line_client()?;
        let is_dry_run = jobs.is_dry_run();
        let what = quoted(self.request);
        let members = &[("do", &*what)];
        let done = match jobs.chosen(self.states)? {
            Chosen::Ids(ids) if is_dry_run => existing(&mut client, ids)?,
            Chosen::Ids(ids) => for_ids(&mut client, ids, self.request)?,
            Chosen::States(queue, states) if is_dry_run => count(&mut client, queue, &states)?,
            Chosen::States(queue, states)
                if self.request == "kick" && states == [State::Buried] =>
            {
                act_or_request(&mut client, (queue, &states), members, |client| {
                    bulk(client, Request::new("kick").text("queue", queue), "kicked")
                })?
            }
            Chosen::States(queue, states) => act_on_states(&mut client, (queue, &states), members)?,
            Chosen::Query(queue, query) => {
                act_on_query(&mut client, (queue, query), members, is_dry_run)?
            }
        };
        print_count(output, if is_dry_run { self.future } else { self.past }, done)
    }
}

/// Give reserved jobs back to their queues: their workers have them no more.
///
/// The run does not count as an attempt.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre release 1
  jobcentre release 2 --pri 9 --delay 5m
  jobcentre release 3 --token 7f3a9c41d2e8b605 --ignore-missing
  jobcentre release --queue mail --dry-run")]
pub(in crate::cli) struct Release {
    /// Ids of jobs.
    #[arg(value_name = "ID", required_unless_present = "queue", conflicts_with = "queue")]
    ids: Vec<u64>,

    /// All reserved jobs of this queue.
    #[arg(long, value_name = "QUEUE", add = queue_names())]
    queue: Option<String>,

    /// Only if this is the token of the present lease: what its worker got with the job.
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["queue", "dry_run"])]
    token: Option<String>,

    /// Their new priority.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pri: Option<i64>,

    /// Hand them out again after this time, and no sooner.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    delay: Option<Duration>,

    /// Change nothing, and print how many jobs it would be.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

impl Release {
    pub(super) fn run(&self) -> Outcome {
        self.output.check(&[], &["released", "to release"])?;
        let mut client = self.client.line_client()?;
        let mut ids = self.ids.clone();
        if let Some(queue) = &self.queue {
            let request = Request::new("list").text("queue", queue).text("state", "reserved");
            pages(&mut client, &request, usize::MAX, |job| {
                ids.extend(job.number("id"));
                true
            })?;
        }
        let released = each_id(&ids, client.ignores_missing, |id| {
            if !self.dry_run {
                let request = Request::new("release").number("id", id);
                let request = request
                    .maybe(self.pri, |request, pri| request.json("pri", pri.to_string()))
                    .maybe(self.token.as_ref(), |request, token| request.text("token", token))
                    .maybe(self.delay, |request, delay| request.time("delay", delay));
                return match (client.reply(request)?, &self.token) {
                    (Reply::Missing, Some(_)) => {
                        Err(Failure::nothing(format!("no lease of job {id} has this token")))
                    }
                    (reply, _) => found_job(id, reply).map(|_| ()),
                };
            }
            let job = found_job(id, client.reply(Request::new("peek").number("id", id))?)?;
            let is_reserved = job.text("state").as_deref() == Some(State::Reserved.name());
            let wrong = || Failure::failed(format!("job {id} is not reserved"));
            if is_reserved { Ok(()) } else { Err(wrong()) }
        })?;
        let name = if self.dry_run { "to release" } else { "released" };
        print_count(&self.output, name, released)
    }
}

/// Move jobs to another queue.
///
/// Reserved and completed jobs are not moved.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre move 1 --to urgent
  jobcentre move --queue mail --state ready --to letters
  jobcentre move --queue mail --all --to letters --dry-run")]
pub(in crate::cli) struct Move {
    #[command(flatten)]
    jobs: Selection,

    /// The other queue.
    #[arg(long, value_name = "QUEUE", add = queue_names())]
    to: String,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

impl Move {
    pub(super) fn run(&self) -> Outcome {
        self.output.check(&[], &["moved", "to move"])?;
        let mut client = self.client.line_client()?;
        let is_dry_run = self.jobs.is_dry_run();
        let to = quoted(&self.to);
        let members = &[("do", "\"move\""), ("to", &*to)];
        self.jobs.refuse_reserved("moved")?;
        let moved = match self.jobs.chosen(&WAITING)? {
            Chosen::Ids(ids) if is_dry_run => existing(&mut client, ids)?,
            Chosen::Ids(ids) => {
                let fields = format!("{{\"queue\":{}}}", quoted(&self.to));
                change_ids(&mut client, ids, &fields)?
            }
            Chosen::States(queue, states) if is_dry_run => count(&mut client, queue, &states)?,
            Chosen::States(queue, states) => {
                act_or_request(&mut client, (queue, &states), members, |client| {
                    let request = Request::new("move").text("queue", queue).text("to", &self.to);
                    bulk(client, request.texts("states", &names(&states)), "moved")
                })?
            }
            Chosen::Query(queue, query) => {
                act_on_query(&mut client, (queue, query), members, is_dry_run)?
            }
        };
        print_count(&self.output, if is_dry_run { "to move" } else { "moved" }, moved)
    }
}

fn change_ids(client: &mut LineClient, ids: &[u64], fields: &str) -> Outcome<u64> {
    each_id(ids, client.ignores_missing, |id| {
        let request = Request::new("change").number("id", id).json("fields", fields);
        match client.reply(request)? {
            Reply::Ok(_) => Ok(()),
            other => found_job(id, other).map(|_| ()),
        }
    })
}

/// Change jobs that wait: priority, delay, payload, limits.
#[derive(Args, Debug)]
#[command(
    override_usage = "jobcentre change [OPTIONS] [ID]...",
    after_help = "\
Examples:
  jobcentre change 1 --pri 9
  jobcentre change 1 --payload '{\"to\":\"eve\"}' --delay 1m
  jobcentre change --queue mail --state scheduled --delay 0s"
)]
pub(in crate::cli) struct Change {
    #[command(flatten)]
    jobs: Selection,

    #[command(flatten)]
    new: NewValues,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// What jobs get.
#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
struct NewValues {
    /// Their new priority.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pri: Option<i64>,

    /// Hand them out after this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    delay: Option<Duration>,

    /// Remove them if they still wait after this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    ttl: Option<Duration>,

    /// Bury them after this many attempts.
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,

    /// Their new payload, as JSON.
    #[arg(long, value_name = "JSON", value_parser = parse_json)]
    payload: Option<String>,
}

impl NewValues {
    /// The object with the fields of the API.
    fn json(&self) -> String {
        let mut record = Record::default();
        let number = |it: i64| Some(it.to_string());
        let time = |it: Duration| Some(it.as_millis().to_string());
        for (name, json) in [
            ("payload", self.payload.clone()),
            ("pri", self.pri.and_then(number)),
            ("delay_ms", self.delay.and_then(time)),
            ("ttl_ms", self.ttl.and_then(time)),
            ("max_attempts", self.max_attempts.map(|it| it.to_string())),
        ] {
            if let Some(json) = json {
                record.push(name, json);
            }
        }
        record.json()
    }
}

impl Change {
    pub(super) fn run(&self) -> Outcome {
        self.output.check(&[], &["changed", "to change"])?;
        let mut client = self.client.line_client()?;
        let is_dry_run = self.jobs.is_dry_run();
        let fields = self.new.json();
        let members = &[("do", "\"change\""), ("change", &*fields)];
        let changed = match self.jobs.chosen(&WAITING)? {
            Chosen::Ids(ids) if is_dry_run => existing(&mut client, ids)?,
            Chosen::Ids(ids) => change_ids(&mut client, ids, &fields)?,
            Chosen::States(queue, states) if is_dry_run => count(&mut client, queue, &states)?,
            Chosen::States(queue, states) => act_on_states(&mut client, (queue, &states), members)?,
            Chosen::Query(queue, query) => {
                act_on_query(&mut client, (queue, query), members, is_dry_run)?
            }
        };
        print_count(&self.output, if is_dry_run { "to change" } else { "changed" }, changed)
    }
}
