//! Requests about the server: histories, streams, workers, connections and constraints.

use super::constraints;
use super::cursor::{name_cursor, number_cursor, place_cursor};
use super::fields::Fields;
use super::frames::Topic;
use super::problem::Problem;
use super::table::Operation;
use crate::model::command::Command;
use crate::model::flow::HistoryStep;
use crate::model::manage::ManageCommand;
use crate::model::worker::{Constraint, WorkerCommand, WorkerId};

/// What a list of topics has to be.
const TOPICS: &str = "1 to 16 topics, 'overview' or 'queue:NAME', with commas between them";

/// A request that shows the server, parsed.
#[derive(Debug)]
pub(in crate::protocol) enum ShowArgs {
    /// Of a queue, or of the server.
    History {
        queue: Option<Vec<u8>>,
        step: HistoryStep,
    },
    /// Frames of these topics.
    Stream {
        topics: Box<[Topic]>,
    },
    Workers {
        from: WorkerId,
        limit: usize,
    },
    /// From this place on.
    Connections {
        from: u32,
        limit: usize,
    },
    Close {
        number: u64,
    },
    Constraints {
        behind: Option<String>,
        limit: usize,
    },
    Constraint {
        name: String,
    },
    SetConstraint {
        constraint: Box<Constraint>,
    },
    RemoveConstraint {
        name: String,
    },
}

impl ShowArgs {
    /// The command.
    pub(super) fn command(&self) -> Command<'_> {
        Command::Manage(match self {
            Self::History { queue, step } => {
                ManageCommand::History { queue: queue.as_deref(), step: *step }
            }
            &Self::Workers { from, limit } => ManageCommand::Workers { from, limit },
            Self::Constraints { behind, limit } => {
                ManageCommand::Constraints { behind: behind.as_deref(), limit: *limit }
            }
            Self::Constraint { name } => {
                return Command::Work(WorkerCommand::GetConstraint { name });
            }
            Self::SetConstraint { constraint } => {
                return Command::Work(WorkerCommand::SetConstraint(constraint));
            }
            Self::RemoveConstraint { name } => {
                return Command::Work(WorkerCommand::RemoveConstraint { name });
            }
            Self::Stream { .. } | Self::Connections { .. } | Self::Close { .. } => {
                unreachable!("the request has no command")
            }
        })
    }
}

/// Parses such a request. `name` stands in its path.
pub(super) fn parse(
    operation: Operation,
    name: Vec<u8>,
    fields: &Fields<'_>,
) -> Result<ShowArgs, Problem> {
    Ok(match operation {
        Operation::QueueHistory | Operation::ServerHistory => {
            let step = fields.word("step", &HistoryStep::ALL)?.unwrap_or(HistoryStep::Short);
            let queue = (operation == Operation::QueueHistory).then_some(name);
            ShowArgs::History { queue, step }
        }
        Operation::Stream => {
            let list = fields.string("topics")?;
            let list = list.ok_or_else(|| Problem::missing("topics", TOPICS))?;
            let topics = Topic::read_list(&list).map_err(|text| {
                let shown: String = text.chars().take(40).collect();
                fields.wrong("topics", &format!("{TOPICS}: '{shown}' is none, or one too many"))
            })?;
            ShowArgs::Stream { topics }
        }
        Operation::ListWorkers => {
            let limit = fields.limit()?;
            let from =
                fields.string("cursor")?.map(|text| number_cursor(&text, 'w')).transpose()?;
            ShowArgs::Workers { from: WorkerId(from.unwrap_or(0)), limit }
        }
        Operation::ListConnections => {
            let limit = fields.limit()?;
            let from = fields.string("cursor")?.map(|text| place_cursor(&text)).transpose()?;
            ShowArgs::Connections { from: from.unwrap_or(0), limit }
        }
        Operation::ListConstraints => {
            let limit = fields.limit()?;
            let behind = fields.string("cursor")?.map(|text| name_cursor(&text)).transpose()?;
            ShowArgs::Constraints { behind, limit }
        }
        Operation::ShowConstraint => ShowArgs::Constraint { name: constraints::name(name)? },
        Operation::RemoveConstraint => {
            ShowArgs::RemoveConstraint { name: constraints::name(name)? }
        }
        Operation::SetConstraint => {
            let constraint = constraints::read(&constraints::name(name)?, fields)?;
            ShowArgs::SetConstraint { constraint: Box::new(constraint) }
        }
        other => unreachable!("{other:?} does not show the server"),
    })
}
