//! `jobcentre actions`: what the server does to many jobs.

use super::ClientArgs;
use super::action_client::{NO_ACTION, cancellation};
use super::failure::Outcome;
use super::fields::ACTION_FIELDS;
use super::jobs::each_id;
use super::output::{Column, Meaning, OutputArgs, column};
use super::server_verbs::{check_ids, print_pages};
use clap::{Args, ValueEnum};

/// What is done with actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ActionAction {
    List,
    /// What is done stays.
    Cancel,
}

/// List what the server does and has done to many jobs at once, or cancel some.
///
/// The last 1,000 are listed, the newest first; a restart ends and forgets them.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre actions
  jobcentre actions --columns id,do,queue,state,done -o csv
  jobcentre actions cancel 7 --ignore-missing")]
pub(in crate::cli) struct Actions {
    /// What to do.
    #[arg(value_enum, value_name = "ACTION", default_value = "list")]
    action: ActionAction,

    /// Of cancel: numbers of actions.
    #[arg(value_name = "ID", required_if_eq("action", "cancel"))]
    ids: Vec<u64>,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

const ACTION_COLUMNS: &[Column] = &[
    column("id", "id", Meaning::Exact),
    column("do", "do", Meaning::Text),
    column("queue", "queue", Meaning::Text),
    column("state", "state", Meaning::Text),
    column("done", "done", Meaning::Number),
    column("matched", "matched", Meaning::Number),
    column("since", "started_at", Meaning::Moment),
    column("error", "error", Meaning::Text),
];

impl Actions {
    pub(super) fn run(&self) -> Outcome {
        let is_list = self.action == ActionAction::List;
        check_ids(is_list, &self.ids, "actions")?;
        self.output.check(ACTION_COLUMNS, ACTION_FIELDS)?;
        let mut client = self.client.line_client()?;
        let mut printer = self.output.printer(ACTION_COLUMNS);
        if is_list {
            return print_pages(&mut client, "actions", printer);
        }
        let cancelled = each_id(&self.ids, client.ignores_missing, |id| {
            printer.row(&client.ask(cancellation(&id.to_string()), NO_ACTION)?);
            Ok(())
        });
        printer.finish()?;
        cancelled.map(|_| ())
    }
}
