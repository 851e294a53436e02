//! Session deadlines: what it costs to have many of them.
//!
//! One operation of `arm_and_cancel` arms one at a random moment and cancels a random one, as a peer
//! that is slow for a while does; one of `arm_and_pop` lets the nearest come due and arms another.

use crate::{ROUND, sized};
use divan::Bencher;
use jobcentre::base::deadlines::Deadlines;
use jobcentre::base::rng::Rng;
use jobcentre::base::slab::Key;
use jobcentre::base::time::Mono;

/// How far off deadlines are, in nanoseconds: 30 s.
const AHEAD: u64 = 30_000_000_000;

/// Deadlines of many clients, and when each is due.
struct Clients {
    deadlines: Deadlines<Key>,
    due: Vec<Mono>,
    rng: Rng,
}

fn key(client: usize) -> Key {
    Key { index: u32::try_from(client).expect("a small number"), generation: 1 }
}

impl Clients {
    fn new(count: usize) -> Self {
        let count = sized(count);
        let due = vec![Mono(0); count];
        let mut clients = Self { deadlines: Deadlines::default(), due, rng: Rng::new(9) };
        for client in 0..count {
            clients.arm(client, Mono(0));
        }
        clients
    }

    fn arm(&mut self, client: usize, now: Mono) {
        let at = Mono(now.0 + self.rng.below(AHEAD));
        self.due[client] = at;
        self.deadlines.arm(at, key(client));
    }
}

#[divan::bench(args = [1_000, 100_000])]
fn arm_and_cancel(bencher: Bencher, count: usize) {
    let mut clients = Clients::new(count);
    bencher.bench_local(|| {
        for _ in 0..ROUND {
            let bound = clients.due.len() as u64;
            let client = usize::try_from(clients.rng.below(bound)).expect("a small number");
            assert!(clients.deadlines.cancel(clients.due[client], key(client)));
            clients.arm(client, Mono(0));
        }
    });
}

#[divan::bench(args = [1_000, 100_000])]
fn arm_and_pop(bencher: Bencher, count: usize) {
    let mut clients = Clients::new(count);
    bencher.bench_local(|| {
        for _ in 0..ROUND {
            let due = clients.deadlines.pop_due(Mono(u64::MAX));
            let (at, client) = due.expect("there are deadlines");
            clients.arm(client.index as usize, at);
        }
    });
}
