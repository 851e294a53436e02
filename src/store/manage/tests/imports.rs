//! Jobs of another server that keep their ids.

use super::*;
use crate::base::limits::JOB_ID_END;
use crate::model::job::OwnedPriority;
use crate::model::manage::{NewJob, PutOutcome};
use crate::model::rejection::Rejection;
use crate::model::transfer::{ImportedJob, ImportedStage};

fn job(id: Option<u64>) -> ImportedJob {
    ImportedJob {
        id: id.map(JobId),
        queue: b"q"[..].into(),
        job: NewJob {
            priority: OwnedPriority::Number(0),
            encoding: Encoding::Bytes,
            payload: b"\xff"[..].into(),
            options: JobOptions::default(),
            key: None,
            dependencies: None,
        },
        after_here: Box::default(),
        waits: false,
        created_at: None,
        stage: ImportedStage::Waiting,
        attempts: 0,
        retries: 0,
        last_error: None,
    }
}

fn import(harness: &mut Harness, ids: &[Option<u64>]) -> Vec<PutOutcome> {
    let jobs: Vec<ImportedJob> = ids.iter().map(|&id| job(id)).collect();
    match harness.manage(ManageCommand::Import(&jobs)).remove(0) {
        Answer::Manage(ManageReply::Puts(outcomes)) => outcomes.into(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn imported_job_keeps_its_id_and_no_later_one_gets_it() {
    let mut harness = Harness::new(100);
    let added = |id| PutOutcome::Added(JobId(id));
    let ids = [Some(70), Some(3), None, Some(3), Some(72)];
    let outcomes = import(&mut harness, &ids);
    let duplicate = PutOutcome::Duplicate(JobId(3));
    assert_eq!(outcomes, [added(70), added(3), added(71), duplicate, added(72)]);
    assert_eq!(harness.put(b"q", None), 73);
    harness.store.skip_ids(JobId(100));
    assert_eq!(import(&mut harness, &[Some(80), None]), [added(80), added(100)]);
    assert_eq!(harness.apply(0, &Command::Delete { id: JobId(70) }).len(), 1);
    assert_eq!(import(&mut harness, &[None]), [added(101)]);
}

#[test]
fn id_beyond_those_of_jobs_is_rejected() {
    let mut harness = Harness::new(100);
    let rejected = PutOutcome::Rejected(Rejection::Full);
    assert_eq!(import(&mut harness, &[Some(JOB_ID_END), Some(u64::MAX)]), [rejected, rejected]);
    assert_eq!(harness.put(b"q", None), 1);
}

/// As those that are pushed: the newest first, and behind all other jobs of their priority.
#[test]
fn packets_that_are_put_or_imported_come_as_packets_do() {
    let mut harness = Harness::new(100);
    let packet = |key: &[u8]| NewJob {
        encoding: Encoding::Packet { key_len: 1 },
        payload: key.into(),
        ..job(None).job
    };
    let imported = [b"a", b"b"].map(|key| ImportedJob { job: packet(key), ..job(None) });
    harness.manage(ManageCommand::Import(&imported));
    let put = packet(b"c");
    harness.manage(ManageCommand::Put { queue: b"q", job: &put });
    assert_eq!(harness.put(b"q", None), 4);
    let order: Vec<_> = (0..4).flat_map(|_| harness.reserve(&[b"q"], Wait::No)).collect();
    assert_eq!(order, [4, 3, 2, 1].map(Answer::Job));
}
