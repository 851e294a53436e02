//! Formatting of replies, from 20 bytes to 256 KB.
//!
//! Sessions answer requests, so a round of requests is submitted first; this is not counted. The
//! output is consumed at once, as by a socket that can be written.

use crate::{ROUND, sized};
use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use jobcentre::base::buf::{BufferPool, Input, OutBuf};
use jobcentre::base::time::Now;
use jobcentre::model::driver::Protocol;
use jobcentre::model::id::JobId;
use jobcentre::model::job::{Encoding, LeaseEpoch, Payload, Priority};
use jobcentre::model::reply::{JobView, Reply};
use jobcentre::protocol::{Session, SessionAction, SessionContext};

/// A session to which a round of requests has been sent, and their serials.
fn asked() -> (Session, Vec<u32>) {
    let mut session = Session::new(Protocol::JobCentre, Now::default());
    let mut shared = SessionContext::new(1 << 20);
    let mut out = OutBuf::default();
    let lines = "{\"request\":\"get\",\"queues\":[\"queue0\"]}\n".repeat(ROUND);
    let mut input = Input::new(lines.as_bytes());
    let mut serials = Vec::new();
    while let SessionAction::Submit(serial, _) =
        session.poll_command(&mut input, &mut shared, &mut out)
    {
        serials.push(serial);
    }
    assert_eq!(serials.len(), ROUND);
    (session, serials)
}

/// Measures a round of the replies that `reply` makes of the serials.
fn format<'a>(bencher: Bencher, reply: impl Fn(u32) -> Reply<'a>) {
    let mut pool = BufferPool::default();
    let mut out = OutBuf::default();
    out.prepare(&mut pool);
    let (mut session, serials) = asked();
    session.handle_reply(serials[0], &mut reply(0), Now::default(), &mut out);
    let bytes = BytesCount::new(out.len() * ROUND);
    bencher.counter(bytes).with_inputs(asked).bench_local_refs(|(session, serials)| {
        for &serial in serials.iter() {
            out.prepare(&mut pool);
            session.handle_reply(serial, &mut reply(serial), Now::default(), &mut out);
            let count = black_box(out.unsent()).len();
            out.sent(count, &mut pool);
        }
    });
}

#[divan::bench(args = [100, 1_000, 16_000, 256_000], sample_size = 1, sample_count = 20)]
fn job(bencher: Bencher, size: usize) {
    let text = format!("{{\"data\":\"{}\"}}", "x".repeat(sized(size).saturating_sub(11)));
    format(bencher, |serial| {
        let number = u64::from(serial).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Reply::Job(JobView {
            id: JobId(number >> (11 + serial % 50)),
            queue: b"queue0",
            priority: Priority::Small((number >> (1 + serial % 60)).cast_signed()),
            payload: Payload { encoding: Encoding::Json, bytes: text.as_bytes() },
            lease: LeaseEpoch(0),
            named: false,
        })
    });
}

#[divan::bench(sample_size = 1)]
fn put(bencher: Bencher) {
    format(bencher, |serial| {
        let number = u64::from(serial).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Reply::Put(JobId(number >> (11 + serial % 50)))
    });
}

#[divan::bench(sample_size = 1)]
fn done(bencher: Bencher) {
    format(bencher, |_| Reply::Done);
}
