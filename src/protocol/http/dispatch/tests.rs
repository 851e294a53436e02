//! Dispatchers and deliveries without a server.

use super::*;
use crate::base::buf::{Input, OutBuf, progress};
use crate::base::limits::{WORKER_CALL_TIMEOUT, WORKER_INTERIM_MAX_BYTES, WORKER_KEEPALIVE};
use crate::model::job::{Priority, Status};
use crate::model::reply::{JobInfo, JobView};
use crate::protocol::{SessionAction, SessionContext, TimeoutAction};

const NOW: Now = Now { mono: Mono(5), wall: crate::base::time::Wall(7) };
const AGENT: ClientId = ClientId { index: 3, generation: 1 };

fn delivery(id: u64) -> Delivery {
    Delivery { id: JobId(id), lease: LeaseEpoch(1), round: 0, fresh: false }
}

fn job(id: u64, queue: &[u8]) -> JobView<'_> {
    let payload = Payload { encoding: Encoding::Json, bytes: b"[1,{}]" };
    JobView {
        id: JobId(id),
        queue,
        priority: Priority::Small(0),
        payload,
        lease: LeaseEpoch(1),
        named: false,
    }
}

fn seen(status: Status, lease_ms: u64) -> Reply<'static> {
    let job = job(7, b"mail");
    Reply::Peeked(Box::new(JobInfo { job, status, due: None, lease_ms, retries: 0, result: None }))
}

fn begun() -> (WorkerConnection, OutBuf) {
    let address = Address::parse("http://worker:81/a/").unwrap();
    let mut call = WorkerConnection::new(AGENT, address, delivery(7));
    let (_, command) = call.begin(NOW);
    assert!(matches!(command, Command::Peek { id: JobId(7) }));
    let mut out = OutBuf::default();
    call.handle_reply(&seen(Status::Reserved, 1_500), &mut out);
    (call, out)
}

/// Offers these pieces one after the other.
fn hear(call: &mut WorkerConnection, out: &OutBuf, pieces: &[&[u8]]) {
    let mut shared = SessionContext::new(1000);
    shared.begin_turn(NOW);
    let mut buffered: Vec<u8> = Vec::new();
    for piece in pieces {
        buffered.extend_from_slice(piece);
        let mut input = Input::new(&buffered);
        loop {
            match call.poll_command(&mut input, &shared, out) {
                SessionAction::NeedInput => break,
                SessionAction::Continue => {}
                other => panic!("{other:?}"),
            }
        }
        let (used, _) = progress(&input);
        buffered.drain(..used);
    }
}

#[test]
fn delivery_request_carries_the_job() {
    let (_, out) = begun();
    let text = out.unsent().escape_ascii().to_string();
    let expected = "POST /a/worker-job HTTP/1.1\\r\\nHost: worker:81\\r\\n\
        Content-Type: application/msgpack\\r\\nContent-Length: 45\\r\\n\\r\\n\
        \\x84\\xa2id\\xa17\\xa4name\\xa4mail\\xa8argument\\x92\\x01\\x80\\xa7timeout\
        \\xcb?\\xf8\\x00\\x00\\x00\\x00\\x00\\x00";
    assert_eq!(text, expected);
}

#[test]
fn released_job_is_not_delivered() {
    for reply in [Reply::NoJob, seen(Status::Ready, 0)] {
        let mut call =
            WorkerConnection::new(AGENT, Address::parse("http://worker").unwrap(), delivery(7));
        call.begin(NOW);
        let mut out = OutBuf::default();
        call.handle_reply(&reply, &mut out);
        assert!(out.is_empty());
        assert_eq!(call.take_outcome(), Some((delivery(7), DeliveryOutcome::Discarded)));
        assert!(call.take_idle() && !call.take_idle(), "it is told once that it is idle");
    }
}

/// Responses, the outcome of each, and whether the connection can be reused.
const ANSWERS: [(&[u8], DeliveryOutcome, bool); 9] = [
    (b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok", DeliveryOutcome::Accepted, true),
    (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 A\r\nTransfer-Encoding: chunked\r\n\r\n\
          3\r\nabc\r\n0\r\n\r\n",
        DeliveryOutcome::Accepted,
        true,
    ),
    (
        b"HTTP/1.1 202 A\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        DeliveryOutcome::Accepted,
        false,
    ),
    (b"HTTP/1.1 202 A\r\n\r\nno length", DeliveryOutcome::Accepted, false),
    (b"HTTP/1.1 400 B\r\nContent-Length: 0\r\n\r\n", DeliveryOutcome::Rejected(400), true),
    (b"HTTP/1.1 404 N\r\nContent-Length: 0\r\n\r\n", DeliveryOutcome::Rejected(404), true),
    (
        b"HTTP/1.1 200 O\r\nContent-Length: 0\r\n\r\n",
        DeliveryOutcome::Failed { in_doubt: false },
        true,
    ),
    (
        b"HTTP/1.1 500 O\r\nContent-Length: 0\r\n\r\n",
        DeliveryOutcome::Failed { in_doubt: false },
        true,
    ),
    (b"HTTP/1.1 202 A\r\nContent-Length: 9999999\r\n\r\n", DeliveryOutcome::Accepted, false),
];

#[test]
fn response_split_anywhere_has_the_same_outcome() {
    for (answer, verdict, kept) in ANSWERS {
        for cut in 0..=answer.len() {
            let (mut call, _) = begun();
            hear(&mut call, &OutBuf::default(), &[&answer[..cut], &answer[cut..]]);
            let text = answer.escape_ascii();
            assert_eq!(call.take_outcome(), Some((delivery(7), verdict)), "{text} at {cut}");
            assert_eq!(call.take_idle(), kept, "{text} at {cut}");
            assert_eq!(call.is_over(), !kept, "{text} at {cut}");
            if kept {
                assert_eq!(call.deadline(), Some(NOW.mono.after(WORKER_KEEPALIVE)));
            }
        }
    }
}

#[test]
fn truncated_response_head_fails_the_delivery() {
    for (answer, verdict, _) in ANSWERS {
        let mut whole = 0;
        for cut in 0..answer.len() {
            let (mut call, _) = begun();
            hear(&mut call, &OutBuf::default(), &[&answer[..cut]]);
            let (_, ended) = call.handle_end(true).expect("the delivery is still there");
            if ended == Some(verdict) && verdict != (DeliveryOutcome::Failed { in_doubt: true }) {
                whole += 1;
            } else {
                assert_eq!(ended, Some(DeliveryOutcome::Failed { in_doubt: true }), "{cut}");
                assert_eq!(whole, 0, "an answer that was there is forgotten");
            }
        }
    }
}

#[test]
fn malformed_response_fails_the_delivery() {
    let junk: [&[u8]; 5] = [
        b"\x00",
        b"HTTP/1.1 2x2 A\r\n\r\n",
        b"HTTP/1.1 101 S\r\n\r\n",
        b"HTTP/1.1 202 A\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 202 A\n\n",
    ];
    for answer in junk {
        let (mut call, _) = begun();
        hear(&mut call, &OutBuf::default(), &[answer]);
        assert!(call.is_over(), "{}", answer.escape_ascii());
        let ended = call.handle_end(true);
        assert_eq!(ended, Some((delivery(7), Some(DeliveryOutcome::Failed { in_doubt: true }))));
    }
}

#[test]
fn interim_responses_beyond_the_limit_fail_the_delivery() {
    let answer: &[u8] = b"HTTP/1.1 202 A\r\nContent-Length: 0\r\n\r\n";
    let kinds: [&[u8]; 3] =
        [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 E\r\nLink: </x>\r\n\r\n", b"\r\n"];
    for interim in kinds {
        let times = WORKER_INTERIM_MAX_BYTES / interim.len();
        for (times, ends) in [(times, false), (times + 1, true)] {
            let (mut call, _) = begun();
            let all = interim.repeat(times);
            // In pieces that end anywhere, as they come from a socket.
            let pieces: Vec<&[u8]> = all.chunks(1_009).collect();
            hear(&mut call, &OutBuf::default(), &pieces);
            assert_eq!(call.is_over(), ends, "{times} times {}", interim.escape_ascii());
            if ends {
                let failed = Some(DeliveryOutcome::Failed { in_doubt: true });
                assert_eq!(call.handle_end(true), Some((delivery(7), failed)));
                continue;
            }
            hear(&mut call, &OutBuf::default(), &[answer]);
            assert_eq!(call.take_outcome(), Some((delivery(7), DeliveryOutcome::Accepted)));
            // The next delivery on this connection starts afresh.
            assert!(call.take_idle());
            call.start_delivery(delivery(8));
            call.begin(NOW);
            call.handle_reply(&seen(Status::Reserved, 0), &mut OutBuf::default());
            hear(&mut call, &OutBuf::default(), &[&all, answer]);
            assert_eq!(call.take_outcome(), Some((delivery(8), DeliveryOutcome::Accepted)));
        }
    }
}

#[test]
fn second_response_closes_the_connection_only() {
    let answer = b"HTTP/1.1 202 A\r\nContent-Length: 0\r\n\r\n";
    let (mut call, _) = begun();
    hear(&mut call, &OutBuf::default(), &[&[*answer, *answer].concat()]);
    assert_eq!(call.take_outcome(), Some((delivery(7), DeliveryOutcome::Accepted)));
    assert!(call.is_over() && !call.take_idle());
    assert_eq!(call.handle_end(true), None);
}

#[test]
fn response_before_the_request_ends_closes_the_connection() {
    let (mut call, out) = begun();
    hear(&mut call, &out, &[b"HTTP/1.1 400 B\r\nContent-Length: 0\r\n\r\n"]);
    assert_eq!(call.take_outcome(), Some((delivery(7), DeliveryOutcome::Rejected(400))));
    assert!(call.is_over());
}

#[test]
fn reused_connection_closed_early_is_retried_on_a_new_one() {
    for (late, heard) in [(false, false), (true, false), (false, true)] {
        let (mut call, _) = begun();
        let mut out = OutBuf::default();
        hear(&mut call, &out, &[b"HTTP/1.1 202 A\r\nContent-Length: 0\r\n\r\n"]);
        call.take_outcome();
        assert!(call.take_idle());
        call.start_delivery(delivery(8));
        let (_, _) = call.begin(NOW);
        assert_eq!(call.deadline(), Some(NOW.mono.after(WORKER_CALL_TIMEOUT)));
        call.handle_reply(&seen(Status::Reserved, 0), &mut out);
        if late {
            assert_eq!(call.handle_timeout(), TimeoutAction::Abort);
        }
        if heard {
            hear(&mut call, &out, &[b"HTTP"]);
        }
        let (_, ended) = call.handle_end(true).unwrap();
        let failed = Some(DeliveryOutcome::Failed { in_doubt: true });
        assert_eq!(ended, if late || heard { failed } else { None });
    }
}

#[test]
fn missing_outbound_connection_is_no_failure_of_the_worker() {
    let mut agent = agent(1, &[]);
    for _ in 0..2 * WORKER_FAILURES_MAX {
        let mut call =
            WorkerConnection::new(AGENT, Address::parse("http://worker").unwrap(), delivery(7));
        call.fail_busy();
        assert_eq!(call.handle_end(false), Some((delivery(7), Some(DeliveryOutcome::Busy))));
        let actions = actions(&mut agent);
        let Some(&DispatchAction::Reserve(serial)) = actions.last() else { panic!("{actions:?}") };
        agent.handle_reply(serial, &Reply::Job(job(7, b"q")));
        let Some(DispatchAction::Request(watch, _)) = agent.poll() else {
            panic!("it does not mind the job")
        };
        assert_eq!(agent.poll(), Some(DispatchAction::Deliver(delivery(7))));
        agent.handle_outcome(delivery(7), DeliveryOutcome::Busy, b"", NOW);
        agent.handle_reply(watch, &Reply::Done);
        assert!(agent.deadline().is_some(), "it rests");
        agent.handle_timeout();
    }
}

fn agent(max_jobs: u32, queues: &[&[u8]]) -> WorkerDispatcher {
    agent_with(max_jobs, queues, &[])
}

/// A dispatcher that is attached, whose worker has reserved these jobs before.
fn agent_with(
    max_jobs: u32,
    queues: &[&[u8]],
    reserved: &[(JobId, LeaseEpoch)],
) -> WorkerDispatcher {
    let mut names = StringList::default();
    for name in queues {
        names.push(name);
    }
    let queues = (!queues.is_empty()).then_some(&names);
    let worker = Worker { name: "w", url: "http://w", max_jobs, queues };
    let mut agent =
        WorkerDispatcher::new(WorkerId(9), &worker, Address::parse("http://w").unwrap());
    assert_eq!(agent.poll(), Some(DispatchAction::Request(1, StoreRequest::Attach)));
    assert_eq!(agent.poll(), None, "it reserves nothing before it is attached");
    agent.handle_reply(1, &Reply::Attached(reserved));
    assert_eq!(agent.poll(), Some(DispatchAction::Request(2, StoreRequest::AwaitDetach)));
    agent
}

/// The names of the queues from which it reserves.
fn queues_of(agent: &WorkerDispatcher) -> Option<Vec<&[u8]>> {
    let Command::Work(WorkerCommand::ReserveFor { queues, .. }) = agent.reserve() else { panic!() };
    queues.map(|queues| queues.into_iter().collect())
}

fn actions(agent: &mut WorkerDispatcher) -> Vec<DispatchAction> {
    let actions = std::iter::from_fn(|| agent.poll()).collect();
    agent.check_invariants();
    actions
}

#[test]
fn open_reserves_do_not_exceed_free_slots() {
    let mut agent = agent_with(2, &[], &[(JobId(1), LeaseEpoch(4))]);
    let watch = DispatchAction::Request(3, StoreRequest::AwaitRelease(JobId(1), LeaseEpoch(4)));
    assert_eq!(actions(&mut agent), [watch, DispatchAction::Reserve(4)]);
    agent.handle_reply(4, &Reply::Job(job(7, b"q")));
    let watch = DispatchAction::Request(5, StoreRequest::AwaitRelease(JobId(7), LeaseEpoch(1)));
    assert_eq!(actions(&mut agent), [watch, DispatchAction::Deliver(delivery(7))]);
    agent.handle_outcome(delivery(7), DeliveryOutcome::Accepted, b"q", NOW);
    assert_eq!(actions(&mut agent), [], "both places are taken");
    agent.handle_reply(3, &Reply::Done);
    assert_eq!(actions(&mut agent), [DispatchAction::Reserve(6)]);
    agent.handle_reply(5, &Reply::Done);
    assert_eq!(actions(&mut agent), [DispatchAction::Reserve(7)]);
}

#[test]
fn failing_worker_backs_off_and_is_deregistered() {
    let mut agent = agent(4, &[b"q"]);
    let mut now = NOW;
    for failure in 1..=5_u32 {
        let takes = actions(&mut agent);
        assert_eq!(takes.len(), if failure == 1 { 4 } else { 1 }, "{takes:?}");
        let Some(&DispatchAction::Reserve(serial)) = takes.first() else { panic!("{takes:?}") };
        agent.handle_reply(serial, &Reply::Job(job(7, b"q")));
        let asked = actions(&mut agent);
        let DispatchAction::Deliver(delivery) = asked[1] else { panic!("{asked:?}") };
        agent.handle_outcome(delivery, DeliveryOutcome::Failed { in_doubt: false }, b"", now);
        // Another delivery that began before does not count.
        let told = actions(&mut agent);
        let gives = |action: &&DispatchAction| {
            matches!(action, DispatchAction::Request(_, StoreRequest::ReturnUnstarted(_, _, false)))
        };
        assert_eq!(told.iter().filter(gives).count(), 1, "{told:?}");
        if failure == 5 {
            let ends = [DispatchAction::Close { dropped: true }];
            assert_eq!(told[told.len() - 1..], ends);
            assert!(matches!(
                told[told.len() - 2],
                DispatchAction::Request(_, StoreRequest::Deregister)
            ));
            assert_eq!(actions(&mut agent), []);
            return;
        }
        for action in told {
            if let DispatchAction::Cancel(serial) = action {
                agent.handle_reply(serial, &Reply::Cancelled);
            }
        }
        let until = now.mono.after(WORKER_BACKOFF_MIN * (1 << (failure - 1)));
        assert_eq!(agent.deadline(), Some(until));
        assert_eq!(actions(&mut agent), [], "it rests");
        now.mono = until;
        agent.handle_timeout();
        let DispatchAction::Request(mind, _) = asked[0] else { panic!("{asked:?}") };
        agent.handle_reply(mind, &Reply::Done);
    }
}

#[test]
fn concurrent_failed_deliveries_count_once() {
    let mut agent = agent(3, &[b"q"]);
    for action in actions(&mut agent) {
        let DispatchAction::Reserve(serial) = action else { panic!("{action:?}") };
        agent.handle_reply(serial, &Reply::Job(job(u64::from(serial), b"q")));
    }
    for id in 3..=5 {
        agent.handle_outcome(delivery(id), DeliveryOutcome::Failed { in_doubt: true }, b"", NOW);
    }
    assert_eq!(agent.deadline(), Some(NOW.mono.after(WORKER_BACKOFF_MIN)));
}

#[test]
fn unknown_job_name_is_not_offered_again() {
    for queues in [&[b"a".as_slice(), b"b"][..], &[]] {
        let mut agent = agent(1, queues);
        let [DispatchAction::Reserve(take)] = actions(&mut agent)[..] else { panic!() };
        agent.handle_reply(take, &Reply::Job(job(7, b"a")));
        let [_, DispatchAction::Deliver(delivery)] = actions(&mut agent)[..] else { panic!() };
        agent.handle_outcome(delivery, DeliveryOutcome::Rejected(404), b"a", NOW);
        let [DispatchAction::Request(refuse, StoreRequest::Reject(JobId(7), LeaseEpoch(1), 404))] =
            actions(&mut agent)[..]
        else {
            panic!()
        };
        agent.handle_reply(refuse, &Reply::Done);
        agent.handle_reply(take + 1, &Reply::Done);
        if let Some(left) = queues_of(&agent) {
            assert_eq!(left, [b"b"]);
        }
        let [DispatchAction::Reserve(take)] = actions(&mut agent)[..] else { panic!() };
        agent.handle_reply(take, &Reply::Job(job(8, b"a")));
        let [_, DispatchAction::Request(_, StoreRequest::ReturnUnstarted(JobId(8), _, true))] =
            actions(&mut agent)[..]
        else {
            panic!("it was offered again")
        };
    }
}

#[test]
fn stop_waits_for_deliveries_in_flight() {
    for in_doubt in [true, false] {
        let mut agent = agent(1, &[]);
        let [DispatchAction::Reserve(take)] = actions(&mut agent)[..] else { panic!() };
        agent.handle_reply(take, &Reply::Job(job(7, b"a")));
        actions(&mut agent);
        agent.stop();
        assert_eq!(actions(&mut agent), []);
        agent.handle_outcome(delivery(7), DeliveryOutcome::Failed { in_doubt }, b"a", NOW);
        let actions = actions(&mut agent);
        assert_eq!(actions.last(), Some(&DispatchAction::Close { dropped: false }));
        let gives = |action: &&DispatchAction| {
            matches!(action, DispatchAction::Request(_, StoreRequest::ReturnUnstarted(..)))
        };
        let count = actions.iter().filter(gives).count();
        assert_eq!(count, usize::from(!in_doubt), "a job that the worker may have is left to it");
    }
}

#[test]
fn job_reserved_before_a_stop_is_returned() {
    let mut agent = agent(2, &[]);
    let [DispatchAction::Reserve(first), DispatchAction::Reserve(second)] = actions(&mut agent)[..]
    else {
        panic!()
    };
    agent.stop();
    assert_eq!(
        actions(&mut agent),
        [DispatchAction::Cancel(first), DispatchAction::Cancel(second)]
    );
    agent.handle_reply(first, &Reply::Cancelled);
    assert_eq!(actions(&mut agent), [], "the other answer is on the way");
    agent.handle_reply(second, &Reply::Job(job(7, b"a")));
    let [_, DispatchAction::Request(_, order), end] = actions(&mut agent)[..] else { panic!() };
    let gives = StoreRequest::ReturnUnstarted(JobId(7), LeaseEpoch(1), false);
    assert_eq!(order, gives, "it is left to a worker that was never called");
    assert_eq!(end, DispatchAction::Close { dropped: false });
}

#[test]
fn dispatcher_without_its_worker_ends() {
    let mut detached = agent(2, &[]);
    actions(&mut detached);
    detached.handle_reply(2, &Reply::Done);
    assert_eq!(actions(&mut detached), [DispatchAction::Close { dropped: false }]);
    let mut refused = agent(1, &[]);
    let [DispatchAction::Reserve(reserve)] = actions(&mut refused)[..] else { panic!() };
    refused.handle_reply(reserve, &Reply::Worker(WorkerReply::NoWorker));
    assert_eq!(actions(&mut refused), [DispatchAction::Close { dropped: false }]);
    refused.handle_reply(2, &Reply::Done);
    assert_eq!(actions(&mut refused), [], "it ends once");
}
