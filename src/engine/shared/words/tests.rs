//! Tests of the codec: each variant, batches, sizes, and any bytes.

use super::*;
use crate::base::rng::Rng;
use crate::base::strings::StringList;
use crate::model::id::JobId;
use crate::model::job::{Encoding, Payload, Priority, TieBreak};
use proptest::prelude::*;
use std::fmt::Debug;

const NOW: Mono = Mono(1_000_000_000_000);

fn read<'a, T: Word<'a>>(bytes: &'a [u8], scratch: &'a Scratch) -> Read<T> {
    Body(bytes).read(scratch, NOW)
}

fn written<'a, T: Word<'a>>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    value.put(&mut Writer { out: &mut out, now: NOW });
    out
}

/// Reads what these bytes begin with; if that is something, it is written and read as the same.
fn comes_back<T>(bytes: &[u8]) -> bool
where
    T: for<'a> Same<'a>,
{
    T::same(bytes)
}

/// A type with a lifetime, named without it.
trait Same<'a> {
    fn same(bytes: &'a [u8]) -> bool;
}

struct OfCommand;
struct OfReply;

impl<'a> Same<'a> for OfCommand {
    fn same(bytes: &'a [u8]) -> bool {
        same::<Command<'_>>(bytes)
    }
}

impl<'a> Same<'a> for OfReply {
    fn same(bytes: &'a [u8]) -> bool {
        same::<Reply<'_>>(bytes)
    }
}

fn same<'a, T: Word<'a> + Debug>(bytes: &'a [u8]) -> bool {
    let scratch = Box::leak(Box::<Scratch>::default());
    let mut reader = Reader { rest: bytes, scratch, now: NOW };
    let Ok(value) = T::get(&mut reader) else { return false };
    let again = Vec::leak(written(&value));
    let back: T = read(again, Box::leak(Box::default())).expect("what was written is read");
    assert_eq!(format!("{value:?}"), format!("{back:?}"));
    assert_eq!(*again, written(&back)[..]);
    true
}

/// Bytes that are mostly small, so that tags are known and lengths are kept.
fn small_bytes(rng: &mut Rng, head: &[u8]) -> Vec<u8> {
    let most = 1 + rng.below(3);
    let mut bytes = head.to_vec();
    bytes.extend((0..400).map(|_| rng.below(most + 1).to_le_bytes()[0]));
    bytes
}

/// Of each variant of these heads some value comes back; the first tag that none has ends them.
fn every_variant_comes_back<T: for<'a> Same<'a>>(heads: &[u8], variants: u8) {
    let mut rng = Rng::new(7);
    for tag in 0..variants {
        let head = [heads, &[tag]].concat();
        let found = (0..3_000).filter(|_| comes_back::<T>(&small_bytes(&mut rng, &head))).count();
        assert!(found > 0, "no value of {head:?} was ever read");
    }
    let unknown = [heads, &[variants]].concat();
    assert!(!comes_back::<T>(&unknown));
}

#[test]
fn every_command_and_every_reply_comes_back() {
    every_variant_comes_back::<OfCommand>(&[], 19);
    for (family, variants) in [(15, 12), (16, 14), (17, 32), (18, 23)] {
        every_variant_comes_back::<OfCommand>(&[family], variants);
    }
    every_variant_comes_back::<OfCommand>(&[17, 31], 5);
    every_variant_comes_back::<OfReply>(&[], 26);
    for (family, variants) in
        [(10, 12), (12, 15), (13, 3), (14, 4), (15, 27), (17, 6), (21, 4), (23, 5)]
    {
        every_variant_comes_back::<OfReply>(&[family], variants);
    }
    every_variant_comes_back::<OfReply>(&[15, 25], 5);
}

fn put(payload: &[u8]) -> Command<'_> {
    Command::Put {
        queue: b"emails",
        priority: Priority::Small(10),
        tie_break: TieBreak::Fifo,
        payload: Payload { encoding: Encoding::Json, bytes: payload },
        options: None,
    }
}

const TICKET: Ticket =
    Ticket { client: ClientId { index: 300, generation: 70_000 }, serial: 9_999 };

#[test]
fn put_of_100_bytes_costs_about_that() {
    let mut out = Vec::new();
    begin_batch(&mut out);
    let before = out.len();
    push_command(&mut out, TICKET, &put(&[b'x'; 100]), NOW);
    let size = out.len() - before;
    assert!((100..=130).contains(&size), "{size}");
}

#[test]
fn batch_holds_its_items_in_order_and_an_unknown_one_hides_none() {
    let mut out = Vec::new();
    begin_batch(&mut out);
    push_command(&mut out, TICKET, &put(b"{}"), NOW);
    push_item(&mut out, 9, NOW, |w| TICKET.put(w));
    push_item(&mut out, COMMAND, NOW, |w| {
        TICKET.put(w);
        w.out.push(200);
    });
    push_cancel(&mut out, TICKET);
    push_end(&mut out, TICKET.client);
    push_completion(&mut out, TICKET, &Reply::Put(JobId(7)), NOW);
    let items: Vec<_> = Batch::new(&out).unwrap().collect();
    let (one, two) = (Scratch::default(), Scratch::default());
    let [
        Ok(Item::Command(a, body)),
        Err(unknown),
        Ok(Item::Command(_, new)),
        Ok(Item::Cancel(b)),
        Ok(Item::End(c)),
        Ok(Item::Completion(d, reply)),
    ] = items[..]
    else {
        panic!("{items:?}")
    };
    assert_eq!((a, b, c, d), (TICKET, TICKET, TICKET.client, TICKET));
    assert_eq!(unknown, WordsError::UnknownTag(9));
    assert_eq!(format!("{:?}", body.command(&one, NOW).unwrap()), format!("{:?}", put(b"{}")));
    assert_eq!(new.command(&two, NOW).unwrap_err(), WordsError::UnknownTag(200));
    assert_eq!(reply.reply(&two, NOW), Ok(Reply::Put(JobId(7))));
    assert_eq!(Batch::new(&[9]).unwrap_err(), WordsError::Version(9));
    let mut list = StringList::default();
    list.push(b"q");
    let reserve = Command::Reserve { queues: list.from(0), wait: crate::model::wait::Wait::No };
    assert_eq!(written(&reserve), [1, 1, 1, b'q', 0]);
}

proptest! {
    #[test]
    fn any_bytes_do_no_harm(bytes: Vec<u8>, tag in 0..27_u8, inner in 0..32_u8) {
        let bytes = [&[tag, inner], &bytes[..]].concat();
        same::<Command<'_>>(&bytes);
        same::<Reply<'_>>(&bytes);
        if let Ok(batch) = Batch::new(&bytes) {
            prop_assert!(batch.count() <= bytes.len());
        }
    }
}
