//! Rates and histories over virtual time.

use super::*;
use crate::base::strings::StringList;
use crate::model::command::{Command, Wait};
use crate::model::flow::NO_WAIT;
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::job::{Encoding, Payload, Priority, TieBreak};
use crate::store::{Effects, Outcome};

struct Fixture {
    store: Store,
    fx: Effects,
    now: Now,
}

impl Fixture {
    fn new() -> Self {
        Self { store: Store::new(7), fx: Effects::default(), now: Now::default() }
    }

    fn run(&mut self, command: &Command<'_>) -> Vec<Outcome> {
        self.fx.clear();
        let ticket = Ticket { client: ClientId { index: 0, generation: 1 }, serial: 1 };
        self.store.apply(ticket, command, self.now, &mut self.fx);
        self.fx.outcomes.iter().map(|&(_, outcome)| outcome).collect()
    }

    fn put(&mut self, queue: &str) -> JobId {
        let payload = Payload { encoding: Encoding::Json, bytes: b"1" };
        let (priority, tie_break) = (Priority::Small(0), TieBreak::Fifo);
        let queue = queue.as_bytes();
        let outcomes =
            self.run(&Command::Put { queue, priority, tie_break, payload, options: None });
        let [Outcome::Put(id)] = outcomes[..] else { panic!("{outcomes:?}") };
        id
    }

    fn reserve(&mut self, queue: &str) {
        let mut names = StringList::default();
        names.push(queue.as_bytes());
        self.run(&Command::Reserve { queues: names.from(0), wait: Wait::No });
    }

    /// Passes, one each second, up to this one.
    fn pass_until(&mut self, second: u64) {
        while self.now.mono.0 < second * 1_000_000_000 {
            self.now.mono.0 += 1_000_000_000;
            self.store.sample(self.now);
        }
        self.store.check_invariants();
    }

    fn rates(&self, queue: &str) -> [u64; 4] {
        let queue = self.store.queues.find(queue.as_bytes()).unwrap();
        self.store.queue_rates(queue).0
    }

    fn sums(&self, queue: Option<&str>) -> [u32; 4] {
        let queue = queue.map(|name| self.store.queues.find(name.as_bytes()).unwrap());
        let steps = self.store.history(queue, HistoryStep::Long);
        std::array::from_fn(|kind| steps.iter().map(|step| step[kind]).sum())
    }
}

#[test]
fn rates_count_the_last_minute() {
    let mut fixture = Fixture::new();
    let ids: Vec<JobId> = (0..6).map(|_| fixture.put("q")).collect();
    fixture.reserve("q");
    fixture.reserve("q");
    fixture.run(&Command::Delete { id: ids[0] });
    fixture.run(&Command::Delete { id: ids[5] });
    assert_eq!(fixture.rates("q"), [100, 33, 16, 0]);
    assert_eq!(fixture.store.server_rates().0, [100, 33, 16, 0]);
    fixture.pass_until(59);
    fixture.put("other");
    assert_eq!(fixture.rates("q"), [100, 33, 16, 0]);
    fixture.pass_until(66);
    assert_eq!((fixture.rates("q"), fixture.rates("other")), ([0; 4], [16, 0, 0, 0]));
    assert_eq!(fixture.store.server_rates().0, [16, 0, 0, 0]);
    assert_eq!(fixture.sums(Some("q")), [6, 2, 1, 0]);
    assert_eq!(fixture.sums(None), [7, 2, 1, 0]);
}

#[test]
fn idle_time_is_not_taken_for_a_step() {
    let mut fixture = Fixture::new();
    fixture.pass_until(2);
    fixture.put("q");
    // The next pass is much later: the put was long ago.
    fixture.now.mono = Mono(300 * 1_000_000_000);
    fixture.store.sample(fixture.now);
    assert_eq!(fixture.rates("q"), [0; 4]);
    let queue = fixture.store.queues.find(b"q");
    let steps = fixture.store.history(queue, HistoryStep::Long);
    assert_eq!(
        steps,
        [
            [1, 0, 0, 0, 1],
            [0, 0, 0, 0, 1],
            [0, 0, 0, 0, 1],
            [0, 0, 0, 0, 1],
            [0, 0, 0, 0, 1],
            [0, 0, 0, 0, 1]
        ]
    );
}

#[test]
fn histories_are_bounded_and_dropped() {
    let mut fixture = Fixture::new();
    let names: Vec<String> = (0..QUEUE_HISTORIES_MAX + 100).map(|n| format!("q{n}")).collect();
    for name in &names {
        for _ in 0..24 {
            fixture.put(name);
        }
    }
    fixture.pass_until(8);
    assert_eq!(fixture.store.queues.histories, QUEUE_HISTORIES_MAX);
    assert_eq!(fixture.rates(&names[0]), [400, 0, 0, 0]);
    // Faded once.
    assert_eq!(fixture.rates(names.last().unwrap()), [366, 0, 0, 0]);
    fixture.pass_until(80);
    assert_eq!(fixture.rates(&names[0]), [0; 4]);
    let histories = fixture.store.queues.histories;
    assert!(histories <= QUEUE_HISTORIES_MAX / 2 + 100, "a place is kept that others want");
    fixture.pass_until(3_000);
    assert_eq!(fixture.store.queues.histories, 0);
    assert!(names.iter().all(|name| fixture.rates(name) == [0; 4]));
}

#[test]
fn history_of_the_server_says_how_long_jobs_were_ready() {
    let mut fixture = Fixture::new();
    fixture.put("q");
    fixture.pass_until(8);
    fixture.reserve("q");
    fixture.pass_until(11);
    let none = [NO_WAIT; 2];
    let waited = fixture.store.waits(HistoryStep::Short)[1];
    assert!(waited[0] > 4_096 && waited[1] <= 8_192, "{waited:?}");
    assert_eq!(fixture.store.waits(HistoryStep::Short), [none, waited, none]);
    assert_eq!(fixture.store.waits(HistoryStep::Long), [waited]);
}
