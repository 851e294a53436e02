//! The session alone, with replies that the test makes.

use super::*;
use crate::base::limits::OUTPUT_HIGH_WATER_BYTES;
use crate::base::time::Now;
use crate::model::id::JobId;
use crate::model::job::{Packet, StoredPayload};
use crate::model::reply::Rejection;
use crate::protocol::ordered_replies::OrderedReplies;
use crate::wire::packets::push_request;

/// A session with its surroundings.
#[derive(Default)]
struct Bench {
    session: Session,
    out: OutBuf,
}

/// The serial and the text of an action.
type Said = (Option<u32>, String);

fn names(queues: crate::base::strings::Strings<'_>) -> String {
    let names: Vec<_> = queues.into_iter().map(String::from_utf8_lossy).collect();
    names.join(",")
}

fn text_of(step: &SessionAction<'_>) -> Said {
    let SessionAction::Submit(serial, command) = step else { return (None, format!("{step:?}")) };
    text_of_command(*serial, command)
}

fn text_of_command(serial: u32, command: &Command<'_>) -> Said {
    let text = match command {
        Command::Put { queue, priority, tie_break: TieBreak::Lifo, payload, options } => {
            let ttl_ms = options.map(|options| options.ttl_ms);
            assert!(options.is_none_or(|&options| {
                options == JobOptions { ttl_ms: options.ttl_ms, ..JobOptions::default() }
            }));
            format!(
                "put {} {priority:?} {:?} {} ttl {ttl_ms:?}",
                queue.escape_ascii(),
                payload.encoding,
                payload.bytes.escape_ascii()
            )
        }
        Command::Pop { queues, wait } => format!("pop {} {wait:?}", names(*queues)),
        Command::Subscribe { serial: take, queue } => {
            format!("{take} joins {}", queue.escape_ascii())
        }
        Command::Unsubscribe { serial: take, queue } => {
            format!("{take} leaves {}", queue.escape_ascii())
        }
        other => panic!("{other:?}"),
    };
    (Some(serial), text)
}

impl Bench {
    fn poll(&mut self, bytes: &[u8], shared: &mut SessionContext) -> Said {
        self.poll_input(&mut Input::new(bytes), shared)
    }

    fn poll_input(&mut self, input: &mut Input<'_>, shared: &mut SessionContext) -> Said {
        match self.session.poll_command(input, shared, &mut self.out) {
            SessionAction::SubmitPending => {
                let pending = self.session.poll_pending_submit(shared, &mut self.out);
                let (serial, command) = pending.expect("there is work left in this turn");
                text_of_command(serial, &command)
            }
            action => text_of(&action),
        }
    }

    /// Offers bytes once; returns the action, and how many bytes are left.
    fn offer(&mut self, bytes: &[u8]) -> (Said, usize) {
        let (mut shared, mut input) = (SessionContext::new(64), Input::new(bytes));
        let said = self.poll_input(&mut input, &mut shared);
        (said, input.unread().len())
    }

    /// Offers a request that the session must accept.
    fn ask(&mut self, request: Request<'_>) -> Said {
        let mut bytes = Vec::new();
        push_request(&mut bytes, &request);
        let (said, left) = self.offer(&bytes);
        assert_eq!(left, 0, "{request:?} was not taken: {said:?}");
        said
    }

    fn subscribe(&mut self, queue: &str) -> Said {
        self.ask(Request::Subscribe { queue: queue.as_bytes() })
    }

    fn unsubscribe(&mut self, queue: &str) -> Said {
        self.ask(Request::Unsubscribe { queue: queue.as_bytes() })
    }

    /// What the session submits without input.
    fn owed(&mut self) -> Said {
        assert!(self.session.has_pending_submit());
        self.offer(b"").0
    }

    fn reply(&mut self, serial: u32, reply: &Reply<'_>) -> Option<Incident> {
        self.session.handle_reply(serial, &mut reply.clone(), &mut self.out)
    }

    /// The output since the last call.
    fn written(&mut self) -> Vec<u8> {
        let written = self.out.unsent().to_vec();
        self.out = OutBuf::default();
        written
    }
}

fn packet(key: &[u8], payload: &[u8]) -> Packet {
    let key_len = u16::try_from(key.len()).unwrap();
    Packet::new(key_len, StoredPayload::new([0; 7], &[key, payload].concat()))
}

fn answered() -> Said {
    (None, "Continue".to_owned())
}

fn submits(serial: u32, what: &str) -> Said {
    (Some(serial), what.to_owned())
}

#[test]
fn push_submits_a_put_without_a_reply() {
    let mut bench = Bench::default();
    let push = |ttl_ms, priority| Request::Push {
        queue: b"q\xff",
        ttl_ms,
        priority,
        key_len: 1,
        packet: b"kab",
    };
    let put = |serial, priority: &str, ttl: &str| {
        submits(serial, &format!("put q\\xff {priority} Packet {{ key_len: 1 }} kab ttl {ttl}"))
    };
    assert_eq!(bench.ask(push(0, 1)), put(0, "Small(-1)", "None"));
    assert_eq!(bench.ask(push(65_535, 255)), put(1, "Small(-255)", "Some(65535)"));
    assert_eq!(bench.ask(push(1, 0)), put(2, "Unselected", "Some(1)"));
    assert!(!bench.session.is_settled());
    assert_eq!(bench.reply(0, &Reply::Put(JobId(1))), None);
    assert_eq!(
        bench.reply(1, &Reply::Rejected(Rejection::Full)),
        Some(Incident::JobDropped(Rejection::Full))
    );
    assert_eq!(bench.reply(2, &Reply::Put(JobId(2))), None);
    assert!(bench.session.is_settled());
    assert_eq!(bench.written(), b"");
}

#[test]
fn pop_is_answered_in_request_order() {
    let mut bench = Bench::default();
    assert_eq!(bench.ask(Request::Pop { queue: b"a" }), submits(0, "pop a No"));
    assert_eq!(bench.ask(Request::Pop { queue: b"" }), submits(1, "pop  No"));
    assert_eq!(bench.ask(Request::Pop { queue: b"c" }), submits(2, "pop c No"));
    let packets = [packet(b"k", b"one"), packet(b"k", b""), packet(b"", b"job")];
    assert_eq!(bench.reply(1, &Reply::Packets(&packets)), None);
    assert_eq!(bench.written(), b"");
    assert_eq!(bench.reply(0, &Reply::NoJob), None);
    assert_eq!(
        bench.written(),
        b"\0\0\0\x03\0\x01\0\x03kone\0\x01\0\0k\0\0\0\x03job",
        "the second answer waited for the first"
    );
    assert_eq!(bench.reply(2, &Reply::TooLarge(JobId(9))), Some(Incident::TooLarge(JobId(9))));
    assert_eq!(bench.written(), b"\0\0");
}

#[test]
fn credit_and_subscription_submit_an_open_pop() {
    let mut bench = Bench::default();
    assert_eq!(bench.ask(Request::Ready), answered());
    assert_eq!(bench.ask(Request::Ready), answered());
    assert!(!bench.session.has_pending_submit(), "there is no subscription");
    assert_eq!(bench.subscribe("a"), answered());
    let (said, left) = bench.offer(b"A");
    assert_eq!((said, left), (submits(0, "pop a Forever"), 1), "before the next request");
    assert_eq!(bench.session.open_subscription(), Some(0));
    assert!(!bench.session.has_pending_submit(), "one at a time");
    assert_eq!(bench.reply(0, &Reply::Packets(&[packet(b"", b"x")])), None);
    assert_eq!(bench.written(), b"\0\x01\0\0\0\x01x");
    assert_eq!(bench.owed(), submits(1, "pop a Again"));
    bench.reply(1, &Reply::Packets(&[packet(b"", b"")]));
    assert!(
        !bench.session.has_pending_submit() && bench.session.is_settled(),
        "two credits are spent"
    );
}

#[test]
fn delivery_is_not_ordered_among_replies() {
    let mut bench = Bench::default();
    bench.subscribe("a");
    assert_eq!(bench.ask(Request::Pop { queue: b"b" }), submits(0, "pop b No"));
    bench.ask(Request::Ready);
    assert_eq!(bench.owed(), submits(1, "pop a Forever"));
    assert_eq!(bench.ask(Request::Pop { queue: b"c" }), submits(2, "pop c No"));
    bench.reply(1, &Reply::Packets(&[packet(b"d", b"")]));
    assert_eq!(bench.written(), b"\0\x01\0\x01\0\0d", "though a pop before is not answered");
    bench.reply(2, &Reply::Packets(&[packet(b"c", b"")]));
    bench.reply(0, &Reply::NoJob);
    assert_eq!(bench.written(), b"\0\0\0\x01\0\x01\0\0c");
    assert!(bench.session.is_settled());
}

#[test]
fn subscription_change_updates_the_open_pop() {
    let mut bench = Bench::default();
    bench.subscribe("a");
    bench.subscribe("b");
    bench.ask(Request::Ready);
    assert_eq!(bench.owed(), submits(0, "pop a,b Forever"));
    assert_eq!(bench.subscribe("b"), answered());
    assert_eq!(bench.unsubscribe("c"), answered());
    assert_eq!(bench.subscribe("c"), submits(1, "0 joins c"));
    assert!(!bench.session.wants_input(), "first things first");
    assert_eq!(bench.offer(b"A"), ((None, "Stalled".to_owned()), 1));
    assert_eq!(bench.reply(1, &Reply::Done), None);
    assert_eq!(bench.unsubscribe("a"), submits(2, "0 leaves a"));
    // The engine may have delivered a packet meanwhile.
    bench.reply(0, &Reply::Packets(&[packet(b"", b"")]));
    bench.reply(2, &Reply::NoJob);
    assert_eq!(bench.written(), b"\0\x01\0\0\0\0", "changes are not answered");
    bench.ask(Request::Ready);
    assert_eq!(bench.owed(), submits(3, "pop b,c Forever"));
    assert_eq!(bench.unsubscribe("b"), submits(4, "3 leaves b"));
    bench.reply(4, &Reply::Done);
    bench.reply(3, &Reply::Cancelled);
    assert_eq!(bench.subscribe_first("b"), submits(5, "pop c Forever"));
}

impl Bench {
    /// Offers a subscription to a session that has an open pop to submit first.
    fn subscribe_first(&mut self, queue: &str) -> Said {
        let mut bytes = Vec::new();
        push_request(&mut bytes, &Request::Subscribe { queue: queue.as_bytes() });
        let (said, left) = self.offer(&bytes);
        assert_eq!(left, bytes.len());
        said
    }
}

#[test]
fn cancelled_open_pop_costs_no_credit() {
    let mut bench = Bench::default();
    bench.subscribe("a");
    bench.ask(Request::Ready);
    assert_eq!(bench.owed(), submits(0, "pop a Forever"));
    assert!(!bench.session.is_settled());
    assert_eq!(bench.reply(0, &Reply::Cancelled), None);
    assert!(bench.session.is_settled());
    assert_eq!(bench.owed(), submits(1, "pop a Forever"));
    assert_eq!(bench.written(), b"");
    bench.reply(1, &Reply::Cancelled);
    bench.session.handle_broken_output();
    assert!(!bench.session.has_pending_submit(), "what cannot arrive is not taken");
    assert_eq!(bench.ask(Request::Pop { queue: b"a" }).1, "pop a No", "the rest is as ever");
}

#[test]
fn serial_of_an_open_pop_is_not_reused() {
    let mut bench = Bench::default();
    bench.session.answers.replies = OrderedReplies::from(u32::MAX - 1);
    bench.subscribe("a");
    bench.ask(Request::Ready);
    assert_eq!(bench.owed(), submits(u32::MAX - 1, "pop a Forever"));
    assert_eq!(bench.ask(Request::Pop { queue: b"b" }).0, Some(u32::MAX));
    bench.reply(u32::MAX, &Reply::NoJob);
    // As after many requests.
    bench.session.answers.replies = OrderedReplies::from(u32::MAX - 2);
    assert_eq!(bench.ask(Request::Pop { queue: b"b" }).0, Some(u32::MAX - 2));
    assert_eq!(bench.ask(Request::Pop { queue: b"b" }).0, Some(u32::MAX));
    assert_eq!(bench.ask(Request::Pop { queue: b"b" }).0, Some(0));
    for serial in [0, u32::MAX, u32::MAX - 2] {
        bench.reply(serial, &Reply::NoJob);
    }
    assert_eq!(bench.written(), [0; 8]);
    bench.reply(u32::MAX - 1, &Reply::Packets(&[packet(b"", b"")]));
    assert!(bench.session.is_settled());
}

#[test]
fn unknown_request_byte_discards_further_input() {
    let mut bench = Bench::default();
    bench.subscribe("a");
    bench.ask(Request::Ready);
    bench.owed();
    let (said, _) = bench.offer(b"GET / HTTP/1.1\r\n");
    assert_eq!(said, (None, "ProtocolError(UnknownRequest(71))".to_owned()));
    for _ in 0..2 {
        assert!(bench.session.wants_input(), "to pass over it");
        assert_eq!(bench.offer(b"AAA"), ((None, "NeedInput".to_owned()), 0));
    }
    bench.reply(0, &Reply::Cancelled);
    assert!(bench.session.is_settled() && !bench.session.has_pending_submit());
}

#[test]
fn subscriptions_beyond_the_limit_fail_the_session() {
    let mut bench = Bench::default();
    for queue in 0..SUBSCRIPTIONS_MAX {
        assert_eq!(bench.subscribe(&queue.to_string()), answered());
    }
    assert_eq!(bench.subscribe("0"), answered(), "nothing new");
    let failed = (None, "ProtocolError(TooManySubscriptions)".to_owned());
    assert_eq!(bench.subscribe("one more"), failed);
    assert_eq!(bench.offer(b"A"), ((None, "NeedInput".to_owned()), 0));

    let mut bench = Bench::default();
    let most = SUBSCRIBED_NAMES_MAX_BYTES / 60_000;
    for queue in 0..most {
        assert_eq!(bench.subscribe(&format!("{queue:060000}")), answered());
    }
    assert_eq!(bench.subscribe(&format!("{most:060000}")), failed);
}

#[test]
fn subscription_work_is_bounded_per_turn() {
    let (mut bench, mut shared) = (Bench::default(), SessionContext::new(64));
    for queue in 0..1_000 {
        bench.subscribe(&queue.to_string());
    }
    bench.session.credits = u32::MAX;
    let enough = (None, "Yield".to_owned());
    assert_eq!(bench.poll(b"A", &mut shared), enough, "a pop from many queues has its own turn");
    let mut turn = |bench: &mut Bench| {
        shared.begin_turn(Now::default());
        let mut takes = 0;
        while let (Some(serial), _) = bench.poll(b"A", &mut shared) {
            bench.reply(serial, &Reply::Packets(&[packet(b"", b"")]));
            takes += 1;
        }
        assert_eq!(bench.poll(b"A", &mut shared), enough, "not even another request");
        takes
    };
    // Further pops from the same queues do not check their names.
    let most = SUBSCRIPTION_NAMES_PER_TURN.div_ceil(OPEN_POP_WORK);
    let first = (SUBSCRIPTION_NAMES_PER_TURN - 1_000).div_ceil(OPEN_POP_WORK);
    assert_eq!([turn(&mut bench), turn(&mut bench)], [first, most]);

    // A subscription that changes nothing costs the same work.
    bench.session.credits = 0;
    shared.begin_turn(Now::default());
    let mut turn = 0;
    while bench.poll(b"s\0\x010", &mut shared) == answered() {
        turn += 1;
    }
    assert_eq!(turn, SUBSCRIPTION_NAMES_PER_TURN.div_ceil(1_000));
}

#[test]
fn full_in_flight_window_stalls_and_credits_saturate() {
    let mut bench = Bench::default();
    bench.session.credits = u32::MAX;
    assert_eq!(bench.ask(Request::Ready), answered());
    assert_eq!(bench.session.credits, u32::MAX);
    for serial in 0..IN_FLIGHT_MAX {
        assert_eq!(bench.ask(Request::Pop { queue: b"" }).0, Some(serial));
    }
    assert!(!bench.session.wants_input());
    assert_eq!(bench.offer(b"A"), ((None, "Stalled".to_owned()), 1));
    bench.reply(0, &Reply::NoJob);
    assert_eq!(bench.subscribe("a"), answered());
    assert_eq!(bench.owed().1, "pop a Forever");
}

impl Bench {
    /// Turns until there is nothing to write, with a peer that reads everything; returns what it
    /// reads, and how often.
    fn read_all(&mut self) -> (Vec<u8>, usize) {
        let (mut read, mut turns) = (self.written(), 0);
        while self.session.wants_poll() {
            assert_eq!(self.offer(b"").0, answered());
            let piece = self.written();
            assert!(piece.len() <= OUTPUT_HIGH_WATER_BYTES + 70_000, "{}", piece.len());
            read.extend(piece);
            turns += 1;
        }
        assert_eq!(self.session.buffered_bytes(), 0);
        (read, turns)
    }
}

/// Packets of a long answer, and its bytes on the wire.
fn long_answer(key: &[u8]) -> (Vec<Packet>, Vec<u8>) {
    let payload = vec![b'x'; 60_000];
    let packets: Vec<Packet> = (0..20).map(|_| packet(key, &payload)).collect();
    let mut bytes = Vec::new();
    answers::write_packets(&packets, &mut bytes);
    (packets, bytes)
}

#[test]
fn long_answer_leaves_in_pieces() {
    let mut bench = Bench::default();
    let (packets, bytes) = long_answer(b"k");
    assert_eq!(bench.ask(Request::Pop { queue: b"a" }).0, Some(0));
    bench.reply(0, &Reply::KeyGroup(packets));
    assert!(!bench.session.is_settled() && bench.session.buffered_bytes() > bytes.len() - 10);
    let (read, turns) = bench.read_all();
    assert!(read == bytes, "it differs from an answer at once");
    assert!((4..=6).contains(&turns), "{turns} turns");
    assert!(bench.session.is_settled());
}

#[test]
fn long_answers_and_others_keep_their_order() {
    let mut bench = Bench::default();
    let (first, third) = (long_answer(b"a"), long_answer(b"b"));
    bench.subscribe("s");
    for serial in 0..4 {
        assert_eq!(bench.ask(Request::Pop { queue: b"a" }).0, Some(serial));
    }
    bench.ask(Request::Ready);
    assert_eq!(bench.owed(), submits(4, "pop s Forever"));
    bench.reply(2, &Reply::KeyGroup(third.0));
    bench.reply(3, &Reply::NoJob);
    bench.reply(1, &Reply::Packets(&[packet(b"", b"two")]));
    assert_eq!(bench.written(), b"", "the first is missing");
    bench.reply(0, &Reply::KeyGroup(first.0));
    // A delivery comes between two answers, never inside one.
    bench.reply(4, &Reply::KeyGroup(vec![packet(b"", b"d")]));
    assert!(!bench.session.has_pending_submit(), "nothing is delivered meanwhile");
    let (read, _) = bench.read_all();
    let two = b"\0\x01\0\0\0\x03two";
    let expected = [&first.1[..], two, &third.1, b"\0\0", b"\0\x01\0\0\0\x01d"].concat();
    assert!(read == expected, "answers are out of order");
    assert!(bench.session.is_settled());
}

#[test]
fn packets_that_are_not_written_can_be_taken_out() {
    let mut bench = Bench::default();
    for serial in 0..2 {
        assert_eq!(bench.ask(Request::Pop { queue: b"a" }).0, Some(serial));
    }
    bench.reply(1, &Reply::KeyGroup(long_answer(b"a").0));
    bench.reply(0, &Reply::KeyGroup(long_answer(b"b").0));
    bench.offer(b"");
    let left: usize = bench.session.take_packets().iter().map(ExactSizeIterator::len).sum();
    assert!((30..40).contains(&left), "{left}");
    assert_eq!(bench.session.buffered_bytes(), 0);
}
