//! Answers that are bounded in bytes: pages of lists, and reserves of several jobs.

use super::*;
use crate::base::api_limits::ANSWER_BYTES_ENOUGH;
use crate::base::limits::AWAITED_BYTES_PER_STEP;
use crate::model::manage::{JobCursor, JobState, LeaseTerms, ReserveTerms};

const JOBS: u64 = 7;

/// A queue with jobs of which two are enough for an answer.
fn harness(delay_ms: u64) -> Harness {
    let mut harness = Harness::new(100);
    let payload = vec![b'1'; ANSWER_BYTES_ENOUGH / 2 + 1];
    let options = JobOptions { delay_ms, ..TRACKED };
    for _ in 0..JOBS {
        let (priority, tie_break) = (Priority::Small(0), TieBreak::Fifo);
        let payload = Payload { encoding: Encoding::Json, bytes: &payload };
        let options = (delay_ms > 0).then_some(&options);
        harness.apply(0, &Command::Put { queue: b"q", priority, tie_break, payload, options });
    }
    harness
}

/// The ids on each page of a list.
fn pages(harness: &mut Harness, state: Option<JobState>) -> Vec<Vec<u64>> {
    let (mut from, mut pages) = (JobCursor::Start, Vec::new());
    loop {
        let list = ManageCommand::Jobs { queue: b"q", state, from: &from, limit: 1_000 };
        let answers = harness.manage(list);
        let [Answer::Manage(ManageReply::JobPage(page))] = &answers[..] else {
            panic!("{answers:?}")
        };
        pages.push(page.jobs.iter().map(|job| job.id.0).collect());
        match &page.next {
            Some(next) => from = next.clone(),
            None => return pages,
        }
    }
}

#[test]
fn page_of_large_jobs_ends_early_and_each_job_is_shown_once() {
    for (delay_ms, state) in
        [(0, None), (0, Some(JobState::Ready)), (60_000, Some(JobState::Scheduled))]
    {
        let pages = pages(&mut harness(delay_ms), state);
        assert!(pages.iter().all(|page| page.len() <= 2), "{state:?} {pages:?}");
        let shown: Vec<u64> = pages.into_iter().flatten().collect();
        assert_eq!(shown, (1..=JOBS).collect::<Vec<_>>(), "{state:?}");
    }
}

#[test]
fn reserve_of_several_jobs_ends_early_with_large_ones() {
    let mut harness = harness(0);
    let mut names = StringList::default();
    names.push(b"q");
    let lease = Some(LeaseTerms { ttr_ms: None, worker: "".into() });
    let terms = ReserveTerms { limit: 1_000, wait: Wait::No, lease };
    let mut counts = Vec::new();
    loop {
        let queues = names.from(0);
        let reserve = ManageCommand::ReserveMore { first: None, queues, terms: &terms };
        match &harness.manage(reserve)[..] {
            [Answer::Manage(ManageReply::Jobs(jobs))] => counts.push(jobs.len()),
            [Answer::NoJob] => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(counts, [2, 2, 2, 1]);
}

#[test]
fn reserve_of_several_jobs_from_many_queues_compares_a_bounded_number() {
    let mut harness = Harness::new(100);
    let mut names = StringList::default();
    for number in 0..1_000_u32 {
        let name = number.to_string();
        harness.put(name.as_bytes(), None);
        names.push(name.as_bytes());
    }
    let lease = Some(LeaseTerms { ttr_ms: None, worker: "".into() });
    let terms = ReserveTerms { limit: 1_000, wait: Wait::No, lease };
    let queues = names.from(0);
    let reserve = ManageCommand::ReserveMore { first: None, queues, terms: &terms };
    let answers = harness.manage(reserve);
    let [Answer::Manage(ManageReply::Jobs(jobs))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(jobs.len(), 17, "with the first that reaches the bound");
}

#[test]
fn answers_to_many_that_wait_for_a_large_job_are_spread_over_passes() {
    const WAITERS: usize = 40;
    let mut harness = Harness::new(100);
    let payload = vec![b'1'; 9 * AWAITED_BYTES_PER_STEP];
    let (priority, tie_break) = (Priority::Small(0), TieBreak::Fifo);
    let payload = Payload { encoding: Encoding::Json, bytes: &payload };
    let options = Some(&TRACKED);
    harness.apply(0, &Command::Put { queue: b"q", priority, tie_break, payload, options });
    for _ in 0..WAITERS {
        assert!(
            harness.manage(ManageCommand::AwaitEnd { id: JobId(1), wait_ms: 60_000 }).is_empty()
        );
    }
    // Ten steps for each: ten in this pass, the bury among them.
    let is_job = |answer: &Answer| matches!(answer, Answer::Manage(ManageReply::Job(_)));
    let answers = harness.manage(ManageCommand::Bury { id: JobId(1) });
    let mut counts = vec![answers.iter().filter(|answer| is_job(answer)).count() - 1];
    while harness.store.next_deadline() == Some(Mono(0)) {
        counts.push(harness.pass().iter().filter(|answer| is_job(answer)).count());
    }
    assert_eq!(counts.iter().sum::<usize>(), WAITERS, "{counts:?}");
    assert!(counts.len() > 3 && counts.iter().all(|&count| count <= 11), "{counts:?}");
}
