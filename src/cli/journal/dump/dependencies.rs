//! What jobs wait for, as members of lines of JSON.

use super::{push_field_name, push_number_field, push_raw};
use crate::model::id::JobId;
use crate::model::snapshot::{PersistedDependencies, PersistedLoss};
use crate::wire::json::{push_number, push_string};

/// Appends what a job waits for, and its group. O(bytes).
pub(super) fn push(dependencies: &PersistedDependencies<'_>, out: &mut Vec<u8>) {
    let PersistedDependencies { after, group, after_group, runs_if_lost } = dependencies;
    push_raw(out, ",\"after\":[");
    for (index, id) in after.iter().enumerate() {
        push_raw(out, if index == 0 { "" } else { "," });
        push_number(out, id.0);
    }
    push_raw(out, "]");
    if let Some((name, run)) = group {
        push_field_name(out, "group");
        push_string(out, name);
        push_number_field(out, "group_run", run.0);
    }
    if let Some((name, run)) = after_group {
        push_field_name(out, "after_group");
        push_string(out, name);
        if let Some(run) = run {
            push_number_field(out, "after_group_run", run.0);
        }
    }
    if *runs_if_lost {
        push_field_name(out, "on_dependency_lost");
        push_string(out, b"run");
    }
}

/// Appends a job that was lost while others wait for it. O(1).
pub(super) fn push_loss(id: JobId, loss: PersistedLoss, out: &mut Vec<u8>) {
    push_number_field(out, "id", id.0);
    push_number_field(out, "job", loss.job.0);
    push_number_field(out, "below", loss.below.0);
}
