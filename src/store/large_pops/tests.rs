//! Pops of groups that need several passes.

use super::*;
use crate::base::rng::Rng;
use crate::base::strings::StringList;
use crate::base::time::{Mono, Wall};
use crate::model::command::{Command, Wait};
use crate::model::id::ClientId;
use crate::model::job::{Encoding, JobOptions, Payload, Priority, TieBreak};
use crate::store::Outcome;
use crate::store::spread_work::Passes;
use std::collections::BTreeMap;

const QUEUES: [&str; 2] = ["a", "b"];

/// A packet, as an observer knows it.
#[derive(Clone, Copy, Debug)]
struct Known {
    queue: &'static str,
    key: u8,
    expires: Option<Mono>,
    /// A client has reserved it once: it may come back while its group is popped.
    reserved: bool,
}

/// A store with its time, and what a naive observer knows of it.
struct Observer {
    store: Store,
    fx: Effects,
    now: Now,
    serial: u32,
    packets: BTreeMap<u64, Known>,
    /// The id that came next when a pop was submitted, by serial.
    pops: BTreeMap<u32, u64>,
    /// The ids of each answer, by serial.
    answers: BTreeMap<u32, Vec<u64>>,
    held: Vec<JobId>,
}

const CLIENT: ClientId = ClientId { index: 1, generation: 1 };

impl Observer {
    fn new(steps_per_pass: usize, journaled: bool) -> Self {
        let mut store = Store::new(3);
        store.spread.set_steps_per_pass(steps_per_pass);
        store.begin_pass();
        Self {
            store,
            fx: if journaled { Effects::with_changes() } else { Effects::default() },
            now: Now { mono: Mono(1), wall: Wall(1_700_000_000_000) },
            serial: 0,
            packets: BTreeMap::new(),
            pops: BTreeMap::new(),
            answers: BTreeMap::new(),
            held: Vec::new(),
        }
    }

    /// Executes a command; returns its serial and what it was answered at once.
    fn apply(&mut self, command: &Command<'_>) -> (u32, Option<Outcome>) {
        self.serial += 1;
        self.fx.clear();
        let ticket = Ticket { client: CLIENT, serial: self.serial };
        self.store.apply(ticket, command, self.now, &mut self.fx);
        let own = self.fx.outcomes.iter().find(|(of, _)| *of == ticket).map(|&(_, own)| own);
        (self.serial, own)
    }

    fn push(&mut self, queue: &'static str, key: u8, priority: i64, ttl_ms: u64) -> u64 {
        let id = self.store.next_id().0;
        let bytes = [&[key][..], &id.to_be_bytes()].concat();
        let options = JobOptions { ttl_ms, ..JobOptions::default() };
        let put = Command::Put {
            queue: queue.as_bytes(),
            priority: if priority == 0 { Priority::Unselected } else { Priority::Small(priority) },
            tie_break: TieBreak::Lifo,
            payload: Payload { encoding: Encoding::Packet { key_len: 1 }, bytes: &bytes },
            options: (ttl_ms > 0).then_some(&options),
        };
        let expires = (ttl_ms > 0).then(|| Mono(self.now.mono.0 + ttl_ms * 1_000_000));
        self.packets.insert(id, Known { queue, key, expires, reserved: false });
        self.apply(&put);
        self.note_answers();
        id
    }

    fn pop(&mut self, queue: &str, wait: Wait) -> u32 {
        let mut names = StringList::default();
        names.push(queue.as_bytes());
        self.pops.insert(self.serial + 1, self.store.next_id().0);
        let (serial, _) = self.apply(&Command::Pop { queues: names.from(0), wait });
        self.note_answers();
        serial
    }

    /// Whether the packet was there.
    fn delete(&mut self, id: u64) -> bool {
        let (_, outcome) = self.apply(&Command::Delete { id: JobId(id) });
        let deleted = outcome == Some(Outcome::Done);
        if deleted {
            let known = self.packets.remove(&id);
            assert!(known.is_some(), "packet {id} was deleted after its end");
        }
        self.note_answers();
        deleted
    }

    fn note_answers(&mut self) {
        for (ticket, outcome) in self.fx.outcomes.clone() {
            let packets = match outcome {
                Outcome::Packets { first, count } => {
                    let (first, count) = (first as usize, count as usize);
                    self.fx.popped[first..first + count].to_vec()
                }
                Outcome::Owned(number) => match &self.fx.owned[number as usize] {
                    OwnedReply::Packets(packets) => packets.clone(),
                    other => panic!("{other:?}"),
                },
                Outcome::NoJob => {
                    self.pops.remove(&ticket.serial);
                    continue;
                }
                Outcome::Job(slot) => {
                    let id = self.store.view(slot).id;
                    self.packets.get_mut(&id.0).expect("it has ended").reserved = true;
                    self.held.push(id);
                    continue;
                }
                _ => continue,
            };
            self.note_answer(ticket.serial, &packets);
        }
        self.store.check_invariants();
    }

    /// Every packet is answered once, with all others of its group.
    fn note_answer(&mut self, serial: u32, packets: &[Packet]) {
        let id = |packet: &Packet| u64::from_be_bytes(packet.bytes[1..].try_into().unwrap());
        let ids: Vec<u64> = packets.iter().map(id).collect();
        assert!(ids[1..].is_sorted_by(|a, b| a > b), "not the newest first: {ids:?}");
        let first = self.packets[&ids[0]];
        for id in &ids {
            let known = self.packets.remove(id).expect("a packet is answered after its end");
            assert_eq!((known.queue, known.key), (first.queue, first.key), "of another group");
        }
        let before = self.pops.remove(&serial).expect("a pop is answered twice");
        // An earlier pop of the same key may be taking its packets still.
        let left = self.packets.range(..before).find(|&(&id, known)| {
            let gone = self.store.slot(JobId(id)).is_none();
            let expired = gone || known.expires.is_some_and(|at| at <= self.now.mono);
            (known.queue, known.key) == (first.queue, first.key) && !known.reserved && !expired
        });
        assert_eq!(left.map(|(id, _)| id), None, "a packet of the group stays");
        self.answers.insert(serial, ids);
    }
}

impl Passes for Observer {
    fn parts(&mut self) -> (&mut Store, &mut Effects, Now) {
        (&mut self.store, &mut self.fx, self.now)
    }

    fn note_pass(&mut self) {
        self.note_answers();
    }
}

#[test]
fn large_group_is_popped_over_several_passes_as_one() {
    for journaled in [false, true] {
        let mut observer = Observer::new(20, journaled);
        let ids: Vec<u64> =
            (0..100).map(|number| observer.push("a", 1, i64::from(number % 3 > 0), 0)).collect();
        let other = observer.push("a", 2, -1, 0);
        observer.push("b", 1, 1, 0);
        let (large, behind) = (observer.pop("a", Wait::No), observer.pop("a", Wait::No));
        let elsewhere = observer.pop("b", Wait::No);
        assert_eq!(observer.answers.len(), 1, "other queues are not delayed");
        assert_eq!(observer.answers[&elsewhere].len(), 1);
        for _ in 0..3 {
            observer.run_pass();
        }
        let newer = observer.push("a", 1, 1, 0);
        assert!(!observer.delete(ids[98]), "it is popped already");
        assert!(observer.delete(ids[0]), "it comes before the pop");
        assert_eq!(observer.answers.len(), 1, "the queue is on hold");
        let passes = 3 + observer.settle();
        assert!((9..=13).contains(&passes), "{passes} passes");
        let answer = &observer.answers[&large];
        // Of the same priority the newest is selected.
        let mut expected = vec![ids[98]];
        expected.extend(ids[1..].iter().rev().filter(|&&id| id != ids[98]));
        assert!(*answer == expected, "{answer:?}");
        assert_eq!(observer.answers[&behind], [newer], "a later packet is of the next group");
        assert_eq!(observer.store.counts().jobs, 1);
        assert!(observer.delete(other));
    }
}

#[test]
fn oldest_packets_beyond_the_largest_answer_stay() {
    let mut observer = Observer::new(10_000, false);
    let mut fx = Effects::default();
    for number in 0..PACKETS_PER_POP_MAX + 3 {
        let payload = Payload { encoding: Encoding::Packet { key_len: 1 }, bytes: b"k" };
        let (priority, tie_break) = (Priority::Small(1), TieBreak::Lifo);
        let put = Command::Put { queue: b"a", priority, tie_break, payload, options: None };
        let ticket = Ticket { client: CLIENT, serial: u32::try_from(number).unwrap() };
        fx.clear();
        observer.store.apply(ticket, &put, observer.now, &mut fx);
    }
    let mut names = StringList::default();
    names.push(b"a");
    fx.clear();
    let ticket = Ticket { client: CLIENT, serial: u32::MAX };
    let pop = Command::Pop { queues: names.from(0), wait: Wait::No };
    observer.store.apply(ticket, &pop, observer.now, &mut fx);
    let mut passes = 0;
    while fx.outcomes.is_empty() {
        fx.clear();
        observer.store.expire(16, observer.now, &mut fx);
        passes += 1;
    }
    assert!((13..=15).contains(&passes), "{passes} passes");
    let OwnedReply::Packets(packets) = &fx.owned[0] else { panic!("{:?}", fx.outcomes) };
    assert_eq!(packets.len(), PACKETS_PER_POP_MAX);
    observer.store.check_invariants();
    assert_eq!(observer.store.counts().jobs, 3);
}

/// Pushes, pops, deletes, reservations and expiry while groups are popped: each packet is answered
/// or deleted once, and a group leaves as one.
#[test]
fn random_commands_meet_no_part_of_a_group() {
    let (mut large, mut met) = (0, 0);
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let mut below = |end: u64| rng.below(end);
        let mut observer = Observer::new(1 + usize::try_from(below(6)).unwrap(), below(2) == 0);
        for _ in 0..400 {
            let queue = QUEUES[usize::try_from(below(2)).unwrap()];
            met += usize::from(observer.store.key_groups.is_walked());
            match below(24) {
                0..14 => {
                    let ttl_ms = [0, 0, 0, 3][usize::try_from(below(4)).unwrap()];
                    let priority = i64::try_from(below(4)).unwrap();
                    let key = u8::try_from(below(2)).unwrap();
                    observer.push(queue, key, priority, ttl_ms);
                }
                14 => {
                    let wait = if below(3) == 0 { Wait::Forever } else { Wait::No };
                    observer.pop(queue, wait);
                }
                15 => {
                    let mut names = StringList::default();
                    names.push(queue.as_bytes());
                    observer.apply(&Command::Reserve { queues: names.from(0), wait: Wait::No });
                    observer.note_answers();
                }
                16 => {
                    if let Some(id) = observer.held.pop() {
                        observer.apply(&Command::Release { id, lease: None });
                        observer.note_answers();
                    }
                }
                17 | 18 => {
                    let id = 1 + below(observer.store.next_id().0);
                    observer.delete(id);
                    observer.held.retain(|held| held.0 != id);
                }
                19 => observer.now.mono.0 += 1_000_000,
                _ => observer.run_pass(),
            }
        }
        observer.settle();
        large += observer.answers.values().filter(|ids| ids.len() > 16).count();
        let waiting = observer.pops.len();
        assert_eq!(waiting, observer.store.counts().waiters, "a pop is neither answered nor waits");
    }
    assert!(large > 7 && met > 300, "{large} large pops, {met} commands met one");
}
