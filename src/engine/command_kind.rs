//! Kinds of commands, as the gate of replies tells them apart.

use crate::model::command::Command;
use crate::model::consumer::ConsumerCommand;
use crate::model::worker::WorkerCommand;

/// Whether the reply to a command may be about a job that the command named.
pub(super) fn names_job(command: &Command<'_>) -> bool {
    !matches!(
        command,
        Command::Put { .. }
            | Command::Reserve { .. }
            | Command::Pop { .. }
            | Command::Consumer(ConsumerCommand::Use { .. } | ConsumerCommand::Watch { .. })
            | Command::Work(
                WorkerCommand::ReserveAny
                    | WorkerCommand::ReserveFor { .. }
                    | WorkerCommand::ScanQueue { .. }
            )
    )
}
