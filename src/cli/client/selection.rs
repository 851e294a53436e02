//! Which jobs a verb changes: those with the ids that are given, or those of a queue in a state or
//! for which a query holds.

use super::completions::queue_names;
use super::failure::{Failure, Outcome};
use super::jobs::State;
use super::line_client::LineClient;
use super::request::Request;
use super::units::jobs;
use super::where_terms::parse_where;
use clap::Args;
use std::io::{self, IsTerminal as _, Write as _};

/// Flags that choose jobs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Jobs")]
pub(super) struct Selection {
    /// Ids of jobs.
    #[arg(value_name = "ID", required_unless_present = "queue", conflicts_with = "queue")]
    ids: Vec<u64>,

    /// Jobs of this queue: with --state, --where or --all.
    #[arg(long, value_name = "QUEUE", add = queue_names())]
    queue: Option<String>,

    /// Those in this state.
    #[arg(long, value_enum, value_name = "STATE", requires = "queue")]
    state: Option<State>,

    /// Those for which this holds: payload.MEMBER=VALUE, or a query of the API as JSON. The queue
    /// has to be indexed.
    #[arg(long, value_name = "TERMS", value_parser = parse_where, requires = "queue")]
    #[arg(conflicts_with = "state")]
    r#where: Option<String>,

    /// All of them but those that are reserved.
    #[arg(long, requires = "queue", conflicts_with_all = ["state", "where"])]
    all: bool,

    /// Change nothing, and print how many jobs it would be.
    #[arg(long)]
    dry_run: bool,
}

/// The jobs that are chosen.
#[derive(Clone, Debug)]
pub(super) enum Chosen<'a> {
    Ids(&'a [u64]),
    States(&'a str, Vec<State>),
    Query(&'a str, &'a str),
}

impl Selection {
    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Refuses jobs that are chosen because they are reserved, for a verb that takes only ids of
    /// such.
    pub(super) fn refuse_reserved(&self, done: &str) -> Outcome {
        if self.state != Some(State::Reserved) {
            return Ok(());
        }
        let why = format!("jobs that are reserved cannot be {done} by --state: name their ids");
        Err(Failure::usage(why))
    }

    /// The chosen jobs; `all` are the states that --all means.
    pub(super) fn chosen(&self, all: &[State]) -> Outcome<Chosen<'_>> {
        let Some(queue) = &self.queue else { return Ok(Chosen::Ids(&self.ids)) };
        match (self.state, &self.r#where, self.all) {
            (Some(state), ..) => Ok(Chosen::States(queue, vec![state])),
            (_, Some(query), _) => Ok(Chosen::Query(queue, query)),
            (.., true) => Ok(Chosen::States(queue, all.to_vec())),
            _ => Err(Failure::usage("say which jobs of the queue: --state, --where or --all")),
        }
    }
}

/// The jobs of a queue that are in one of these states.
pub(super) fn count(client: &mut LineClient, queue: &str, states: &[State]) -> Outcome<u64> {
    let request = Request::new("stats").text("queue", queue);
    let found = client.ask(request, "nothing is known of this queue")?;
    let of = |state: &State| found.number(&format!("counts.{}", state.name())).unwrap_or(0);
    Ok(states.iter().map(of).sum())
}

/// Asks whether this many jobs are to be deleted, unless that was said.
pub(super) fn confirm(count: u64, queue: &str, is_said: bool) -> Outcome {
    if is_said || count == 0 {
        return Ok(());
    }
    let shown = jobs(count);
    if !io::stdin().is_terminal() {
        let why = format!("this deletes {shown} of the queue '{queue}': say --yes");
        return Err(Failure::usage(why));
    }
    let mut stderr = io::stderr();
    let _ = write!(stderr, "Delete {shown} of the queue '{queue}'? [y/N] ");
    let _ = stderr.flush();
    let mut answer = String::new();
    let _ = io::stdin().read_line(&mut answer);
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::failed("nothing was deleted")),
    }
}
