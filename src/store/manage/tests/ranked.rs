//! The first queues in an order, and pages of queues that are costly to show.

use super::*;
use crate::base::api_limits::{
    ANSWER_BYTES_ENOUGH, QUEUE_JOBS_SCANNED, RANKED_PER_STEP, SCANNED_PER_PAGE,
};
use crate::model::manage::{QueueOrder, QueuePage};

const STEPS: usize = 50;

fn page(answer: Answer) -> QueuePage {
    match answer {
        Answer::Manage(ManageReply::Queues(page)) => *page,
        other => panic!("{other:?}"),
    }
}

fn names(page: &QueuePage) -> Vec<String> {
    page.queues.iter().map(|queue| String::from_utf8_lossy(&queue.name).into()).collect()
}

/// Queue `q000` has one job, `q001` two, and so on, up to four.
fn harness(queues: usize) -> Harness {
    let mut harness = Harness::new(STEPS);
    for number in 0..queues {
        for _ in 0..=number % 4 {
            harness.put(format!("q{number:03}").as_bytes(), None);
        }
    }
    harness
}

fn ask(harness: &mut Harness, index: u32, limit: usize) -> Vec<Answer> {
    let ranked = ManageCommand::Ranked { order: QueueOrder::Ready, glob: None, limit };
    harness.apply(index, &Command::Manage(ranked))
}

#[test]
fn snapshot_is_made_and_shown_over_several_passes() {
    let mut harness = harness(1_000);
    let clients = 20;
    for index in 0..clients {
        assert_eq!(ask(&mut harness, index, 200), [], "it takes longer than a pass");
    }
    let (mut passes, mut most, mut pages) = (0, 0, Vec::new());
    while harness.is_pending() {
        harness.store.begin_pass();
        let answers = harness.pass();
        most = most.max(answers.len());
        pages.extend(answers.into_iter().map(page));
        passes += 1;
        assert!(passes < 1_000, "it never ends");
    }
    assert_eq!(pages.len(), clients as usize);
    assert!(most <= STEPS / (200 / RANKED_PER_STEP) + 1, "{most} clients are answered in a pass");
    assert!(passes >= 1_000 / (STEPS * RANKED_PER_STEP), "{passes} passes");
    let expected: Vec<String> = (0..200).map(|number| format!("q{:03}", number * 4 + 3)).collect();
    assert!(pages.iter().all(|page| names(page) == expected && page.next.is_none()));
    // Within a second the snapshot is shown.
    harness.put(b"late", None);
    let answers = ask(&mut harness, 1, 1_000);
    assert_eq!(names(&page(answers.into_iter().next().unwrap())).len(), 1_000);
}

#[test]
fn clients_that_leave_are_not_answered() {
    let mut harness = harness(300);
    for index in 0..3 {
        assert_eq!(ask(&mut harness, index, 1), []);
    }
    harness.fx.clear();
    let client = ClientId { index: 1, generation: 1 };
    harness.store.disconnect_client(client, harness.now, &mut harness.fx);
    let ticket = Ticket { client: ClientId { index: 2, generation: 1 }, serial: harness.serial };
    harness.store.cancel(ticket, &mut harness.fx);
    assert_eq!(harness.answers(), [Answer::Other(Outcome::Cancelled)]);
    let mut answers = Vec::new();
    while harness.is_pending() {
        harness.store.begin_pass();
        answers.extend(harness.pass());
    }
    assert_eq!(answers.len(), 1);
}

#[test]
fn long_names_are_bounded_in_bytes() {
    let mut harness = Harness::new(1_000);
    let name = |number: usize| format!("{number}").repeat(ANSWER_BYTES_ENOUGH / 4);
    for number in 0..8 {
        harness.put(name(number).as_bytes(), None);
    }
    harness.store.begin_pass();
    let answers = ask(&mut harness, 0, 1_000);
    assert_eq!(names(&page(answers.into_iter().next().unwrap())), [0, 1, 2, 3].map(name));
}

#[test]
fn page_of_queues_looks_at_a_bounded_number_of_jobs() {
    let mut harness = Harness::new(STEPS);
    let queues = SCANNED_PER_PAGE / QUEUE_JOBS_SCANNED + 2;
    for number in 0..queues {
        for _ in 0..QUEUE_JOBS_SCANNED {
            let queue = format!("q{number:03}");
            let (priority, tie_break) = (Priority::Small(0), TieBreak::Fifo);
            let payload = Payload { encoding: Encoding::Json, bytes: b"{}" };
            let queue = queue.as_bytes();
            let put = Command::Put { queue, priority, tie_break, payload, options: None };
            let ticket = Ticket { client: ClientId { index: 0, generation: 1 }, serial: 1 };
            harness.store.apply(ticket, &put, harness.now, &mut harness.fx);
        }
    }
    let first = harness.manage(ManageCommand::Queues { behind: None, glob: None, limit: 1_000 });
    let first = page(first.into_iter().next().unwrap());
    assert_eq!(first.queues.len(), queues - 2);
    let behind = first.next.as_deref();
    let rest = harness.manage(ManageCommand::Queues { behind, glob: None, limit: 1_000 });
    let rest = page(rest.into_iter().next().unwrap());
    assert_eq!((rest.queues.len(), rest.next), (2, None));
}
