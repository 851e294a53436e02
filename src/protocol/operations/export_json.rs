//! Lines of exports.

use super::answer::Style;
use super::job_json::push_job;
use crate::model::manage::JobDetails;

/// The media type of exports and imports: JSON objects, one a line.
pub(in crate::protocol) const NDJSON: &str = "application/x-ndjson";

/// Writes a job as a line. O(bytes).
pub(super) fn push_exported(out: &mut Vec<u8>, job: &JobDetails) {
    out.push(b'{');
    push_job(out, job, Style::Http);
    out.extend_from_slice(b"}\n");
}
