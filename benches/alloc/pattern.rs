//! The allocation pattern of a job queue: jobs live for very different times, so memory is freed in
//! random order. Compare `cargo bench --bench alloc_mimalloc` with `--bench alloc_system`.
//!
//! One operation replaces a random live job by a new one of 50 to 1,000 bytes: `boxes` by itself,
//! `store` by a delete and a put. Before the measurement as many jobs are replaced as are live,
//! because fresh memory flatters every allocator. One operation of `drain` frees a random job. An
//! iteration has 1,000 operations, so **a time in µs reads as ns for one operation**.

use divan::Bencher;
use jobcentre::base::rng::Rng;
use jobcentre::base::slab::SlabKey;
use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::model::command::Command;
use jobcentre::model::id::{JobId, Ticket};
use jobcentre::model::job::{Encoding, Payload, Priority, TieBreak};
use jobcentre::store::{Effects, Outcome, Store};

const ROUND: usize = 1000;
const NOW: Now = Now { mono: Mono(1), wall: Wall(1) };
const TICKET: Ticket = Ticket { client: SlabKey { index: 0, generation: 1 }, serial: 0 };
static BYTES: [u8; 1_000] = [b'x'; 1_000];

/// `full` when measuring; under `cargo test` at most 50.
fn sized(full: usize) -> usize {
    if std::env::args().any(|arg| arg == "--bench") { full } else { full.min(50) }
}

fn below(rng: &mut Rng, bound: usize) -> usize {
    usize::try_from(rng.below(bound as u64)).expect("bounded by a usize")
}

fn payload(rng: &mut Rng) -> &'static [u8] {
    &BYTES[..50 + below(rng, 950)]
}

#[divan::bench(args = [10_000, 1_000_000])]
fn boxes(bencher: Bencher, live: usize) {
    let mut rng = Rng::new(11);
    let mut jobs = new_boxes(sized(live), &mut rng);
    let mut replace = |count| {
        for _ in 0..count {
            let place = below(&mut rng, jobs.len());
            jobs[place] = payload(&mut rng).into();
        }
    };
    replace(sized(live));
    bencher.bench_local(|| replace(ROUND));
}

fn new_boxes(count: usize, rng: &mut Rng) -> Vec<Box<[u8]>> {
    (0..count).map(|_| payload(rng).into()).collect()
}

#[divan::bench(args = [200_000, 1_000_000], sample_size = 1)]
fn drain(bencher: Bencher, live: usize) {
    let mut rng = Rng::new(13);
    let mut jobs = new_boxes(sized(live), &mut rng);
    for place in (1..jobs.len()).rev() {
        jobs.swap(place, below(&mut rng, place + 1));
    }
    bencher.bench_local(|| jobs.truncate(jobs.len().saturating_sub(ROUND)));
}

/// A store and the ids of its jobs.
struct Jobs {
    store: Store,
    effects: Effects,
    ids: Vec<JobId>,
    rng: Rng,
}

impl Jobs {
    fn apply(&mut self, command: &Command<'_>) -> Outcome {
        self.store.apply(TICKET, command, NOW, &mut self.effects);
        self.effects.outcomes.pop().expect("answered at once").1
    }

    fn put(&mut self) -> JobId {
        let bytes = payload(&mut self.rng);
        let priority = Priority::Small(i64::from(self.rng.below(1_000_000).to_le_bytes()[0]));
        let payload = Payload { encoding: Encoding::Json, bytes };
        let tie_break = TieBreak::Fifo;
        match self.apply(&Command::Put {
            queue: b"queue0",
            priority,
            tie_break,
            payload,
            options: None,
        }) {
            Outcome::Put(id) => id,
            other => unreachable!("a put was answered by {other:?}"),
        }
    }

    fn replace(&mut self, count: usize) {
        for _ in 0..count {
            let place = below(&mut self.rng, self.ids.len());
            assert_eq!(self.apply(&Command::Delete { id: self.ids[place] }), Outcome::Done);
            self.ids[place] = self.put();
        }
    }
}

#[divan::bench(args = [10_000, 1_000_000])]
fn store(bencher: Bencher, live: usize) {
    let (store, effects) = (Store::new(1), Effects::default());
    let mut jobs = Jobs { store, effects, ids: Vec::new(), rng: Rng::new(12) };
    for _ in 0..sized(live) {
        let id = jobs.put();
        jobs.ids.push(id);
    }
    jobs.replace(sized(live));
    bencher.bench_local(|| jobs.replace(ROUND));
}
