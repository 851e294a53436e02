//! The progress of a run ends with the run.

use super::*;
use crate::model::external_id::Fraction;
use crate::model::job_details::JobDetails;
use crate::model::manage::RunReport;

fn shown(harness: &mut Harness, id: JobId) -> JobDetails {
    match harness.manage(ManageCommand::Show { id }).remove(0) {
        Answer::Manage(ManageReply::Job(job)) => *job,
        other => panic!("{other:?}"),
    }
}

/// A job that a connection has reserved and reported on: the run ends with the server, a
/// compaction may write the job anew before.
#[test]
fn restored_job_has_no_progress_of_a_connections_run() {
    let mut harness = Harness::new(100);
    let id = JobId(harness.put(b"q", None));
    assert_eq!(harness.reserve(&[b"q"], Wait::No), [Answer::Job(id.0)]);
    let report = RunReport::Progress { progress: Fraction::new(0.5), message: Some("half".into()) };
    let report = ManageCommand::Report { id, token: None, report: &report };
    harness.apply(1, &Command::Manage(report));
    assert!(shown(&mut harness, id).progress.is_some());
    let mut again = Harness::new(100);
    let slot = harness.store.slot(id).unwrap();
    again.store.restore(&harness.store.snapshot(slot), again.now);
    again.store.finish_restore(again.now);
    again.store.check_invariants();
    assert_eq!(again.reserve(&[b"q"], Wait::No), [Answer::Job(id.0)]);
    let job = shown(&mut again, id);
    assert_eq!((job.progress, job.progress_message), (None, None));
}

#[test]
fn job_that_is_buried_while_it_is_delayed_was_never_available_before_it_was_put() {
    let mut harness = Harness::new(100);
    harness.go_on(10_000);
    let options = JobOptions { delay_ms: 60_000, ..JobOptions::default() };
    let id = JobId(harness.put(b"q", Some(&options)));
    harness.go_on(10_000);
    harness.manage(ManageCommand::Bury { id });
    let shown = shown(&mut harness, id);
    assert!(shown.available_at >= shown.created_at, "{shown:?}");
}
