//! Actions as JSON.

use super::job_json::{push_count, push_flag, push_name, push_text, push_time};
use crate::model::action::ActionDetails;
use crate::wire::json::push_number;

/// Writes an action.
pub(super) fn push_action(out: &mut Vec<u8>, action: &ActionDetails) {
    out.push(b'{');
    push_count(out, "id", action.id);
    push_text(out, "queue", Some(&action.queue));
    push_text(out, "do", Some(action.verb.as_bytes()));
    push_flag(out, "dry_run", action.dry_run);
    push_name(out, "matched");
    match action.matched {
        Some(matched) => push_number(out, matched),
        None => out.extend_from_slice(b"null"),
    }
    push_count(out, "done", action.done);
    push_text(out, "state", Some(action.state.name().as_bytes()));
    push_text(out, "error", action.error.as_ref().map(|text| text.as_bytes()));
    push_time(out, "started_at", Some(action.started_at));
    push_time(out, "ended_at", action.ended_at);
    out.push(b'}');
}
