//! The operations of the native API (`docs/protocols/api.md`): one table for both of its encodings,
//! HTTP with JSON and line requests of the Job Centre protocol.
//!
//! ```text
//!   fields --- parse ---> Args --- Call::command ---> command
//!                                    ^                  |
//!                                    |   more steps     v
//!                                    +------------ Call::handle_reply ---> Answer
//! ```
//!
//! A request becomes [`Args`], which borrow nothing. A [`Call`] submits one command after the other
//! until the answer is known; most operations take one.

mod action_fields;
mod action_json;
mod answer;
mod args;
mod backup;
mod call;
mod connection_json;
mod constraints;
mod cursor;
mod export_json;
mod field_names;
mod fields;
mod frames;
mod import;
mod import_fields;
mod import_ids;
mod job_json;
mod line;
mod problem;
mod prompt_call;
mod put_fields;
mod queue_json;
mod replies;
mod schedule_json;
mod schedules;
mod server_json;
mod show_args;
mod show_table;
mod table;

pub(super) use answer::{Cookie, Next, Style};
pub(super) use args::{Args, ERROR_MAX_BYTES, PathArgs, parse};
pub(super) use backup::TAR;
pub(super) use call::{Call, Local};
pub(super) use export_json::NDJSON;
pub(super) use field_names::{CHANGE_FIELDS, NATIVE_PUT_FIELDS, PUT_FIELDS};
pub(super) use fields::DURATION_MAX_MS;
pub(super) use frames::{Topic, overview_frame, queue_frame};
pub(super) use import::Import;
pub(super) use line::{
    LineKind, auth_token, has_member, line_row, parse_get_line, parse_line, write_line,
    write_line_problem,
};
pub(super) use problem::{Problem, ProblemKind};
pub(super) use prompt_call::{PromptCall, write_puts, write_rejected};
pub(super) use schedules::scheduled_put_fields;
pub(super) use server_json::ServerLimits;
pub(super) use table::{Method, Operation, OperationRow, PathPart};

/// All operations.
pub(super) fn operations() -> impl Iterator<Item = &'static OperationRow> {
    table::OPERATIONS.iter().chain(show_table::SHOW_OPERATIONS)
}
