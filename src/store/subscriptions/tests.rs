//! Open pops that are kept get the same packets, in the same order, as pops that begin anew.

use super::*;
use crate::base::limits::WAIT_NODE_WORK;
use crate::base::rng::Rng;
use crate::base::strings::StringList;
use crate::base::time::{Mono, Wall};
use crate::model::command::Command;
use crate::model::job::{Encoding, JobOptions, Payload, Priority, TieBreak};
use crate::model::owned::OwnedReply;
use std::collections::VecDeque;

const QUEUES: usize = 6;

/// A client that subscribes, as a session does it.
#[derive(Clone, Debug, Default)]
struct Subscriber {
    queues: Vec<usize>,
    credits: usize,
    open_pop: Option<u32>,
    is_new: bool,
}

/// A store with subscribers. `keeps`: pops from the same queues say so.
struct Model {
    store: Store,
    fx: Effects,
    keeps: bool,
    now: Now,
    serial: u32,
    subscribers: Vec<Subscriber>,
    /// Subscribers that were served and may have credits left.
    served: VecDeque<usize>,
    /// What was answered since the last look.
    answers: Vec<(Ticket, String)>,
}

fn client(number: usize) -> ClientId {
    ClientId { index: u32::try_from(number).unwrap(), generation: 1 }
}

fn name(queue: usize) -> [u8; 4] {
    u32::try_from(queue).unwrap().to_be_bytes()
}

impl Model {
    fn new(keeps: bool, subscribers: usize) -> Self {
        Self {
            store: Store::new(3),
            fx: Effects::default(),
            keeps,
            now: Now { mono: Mono(1), wall: Wall(1_700_000_000_000) },
            serial: 0,
            subscribers: vec![Subscriber::default(); subscribers],
            served: VecDeque::new(),
            answers: Vec::new(),
        }
    }

    fn apply(&mut self, by: usize, command: &Command<'_>) -> u32 {
        self.serial += 1;
        self.fx.clear();
        let ticket = Ticket { client: client(by), serial: self.serial };
        self.store.apply(ticket, command, self.now, &mut self.fx);
        ticket.serial
    }

    fn note_answers(&mut self) {
        for (ticket, outcome) in self.fx.outcomes.clone() {
            let text = match outcome {
                Outcome::Packets { first, count } => {
                    let (first, count) = (first as usize, count as usize);
                    format!("{:?}", &self.fx.popped[first..first + count])
                }
                Outcome::Owned(number) => match &self.fx.owned[number as usize] {
                    OwnedReply::Packets(packets) => format!("{packets:?}"),
                    other => panic!("{other:?}"),
                },
                Outcome::Job(slot) => format!("{:?}", self.store.view(slot).id),
                other => format!("{other:?}"),
            };
            let number = ticket.client.index as usize;
            if let Some(subscriber) = self.subscribers.get_mut(number)
                && subscriber.open_pop == Some(ticket.serial)
            {
                subscriber.open_pop = None;
                subscriber.credits -= 1;
                self.served.push_back(number);
            }
            self.answers.push((ticket, text));
        }
        self.fx.clear();
    }

    /// What follows from a command: subscribers that were served pop again.
    fn settle(&mut self) {
        self.note_answers();
        while let Some(number) = self.served.pop_front() {
            self.pop_if_due(number);
        }
    }

    fn pop_if_due(&mut self, number: usize) {
        let subscriber = &mut self.subscribers[number];
        if subscriber.credits == 0 || subscriber.open_pop.is_some() || subscriber.queues.is_empty()
        {
            return;
        }
        let mut names = StringList::default();
        subscriber.queues.iter().for_each(|&queue| names.push(&name(queue)));
        subscriber.open_pop = Some(self.serial + 1);
        let is_new = std::mem::take(&mut subscriber.is_new) || !self.keeps;
        let wait = if is_new { Wait::Forever } else { Wait::Again };
        self.apply(number, &Command::Pop { queues: names.from(0), wait });
        self.note_answers();
    }

    fn push(&mut self, queue: usize, key: u8, priority: i64, ttl_ms: u64) {
        let id = self.store.next_id().0;
        let bytes = [&[key][..], &id.to_be_bytes()].concat();
        let options = JobOptions { ttl_ms, ..JobOptions::default() };
        let put = Command::Put {
            queue: &name(queue),
            priority: if priority == 0 { Priority::Unselected } else { Priority::Small(priority) },
            tie_break: TieBreak::Lifo,
            payload: Payload { encoding: Encoding::Packet { key_len: 1 }, bytes: &bytes },
            options: (ttl_ms > 0).then_some(&options),
        };
        self.apply(self.subscribers.len(), &put);
        self.settle();
    }

    fn change(&mut self, number: usize, queue: usize) {
        let place = self.subscribers[number].queues.iter().position(|&known| known == queue);
        match place {
            Some(place) => {
                self.subscribers[number].queues.remove(place);
            }
            None => self.subscribers[number].queues.push(queue),
        }
        let queue = &name(queue);
        match (self.subscribers[number].open_pop, place) {
            (None, _) => self.subscribers[number].is_new = true,
            (Some(serial), None) => {
                self.apply(number, &Command::Subscribe { serial, queue });
            }
            (Some(serial), Some(_)) => {
                self.apply(number, &Command::Unsubscribe { serial, queue });
            }
        }
        self.settle();
    }

    fn play(&mut self, step: &[u64; 5]) {
        let [what, number, queue, key, other] = step.map(|it| usize::try_from(it).unwrap());
        let (number, queue) = (number % self.subscribers.len(), queue % QUEUES);
        let key = u8::try_from(key % 4).unwrap();
        match what % 100 {
            0..45 => {
                let ttl = if other.is_multiple_of(5) { 3 } else { 0 };
                self.push(queue, key, -i64::try_from(other % 4).unwrap(), ttl);
            }
            45..70 => {
                self.subscribers[number].credits += 1 + other % 3;
                self.pop_if_due(number);
                self.settle();
            }
            70..78 => self.change(number, queue),
            78..83 => {
                let mut names = StringList::default();
                names.push(&name(queue));
                let (queues, by) = (names.from(0), self.subscribers.len());
                match other % 3 {
                    0 => self.apply(by, &Command::Pop { queues, wait: Wait::No }),
                    1 => self.apply(by, &Command::Reserve { queues, wait: Wait::No }),
                    _ => self.apply(by, &Command::Reserve { queues, wait: Wait::Forever }),
                };
                self.settle();
            }
            83..87 => {
                if let Some(serial) = self.subscribers[number].open_pop.take() {
                    self.fx.clear();
                    self.store.cancel(Ticket { client: client(number), serial }, &mut self.fx);
                    self.note_answers();
                }
            }
            87..89 => {
                let ended = if other.is_multiple_of(2) { number } else { self.subscribers.len() };
                self.fx.clear();
                self.store.disconnect_client(client(ended), self.now, &mut self.fx);
                assert_eq!(self.store.poll_disconnected(), Some(client(ended)));
                if let Some(subscriber) = self.subscribers.get_mut(ended) {
                    *subscriber = Subscriber::default();
                }
                self.settle();
            }
            _ => {
                self.now.mono = self.now.mono.after(std::time::Duration::from_millis(1));
                self.fx.clear();
                self.store.expire(16, self.now, &mut self.fx);
                self.settle();
            }
        }
        self.store.check_invariants();
    }
}

#[test]
fn kept_pops_get_what_pops_that_begin_anew_get() {
    let mut deliveries = 0;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let subscribers = 2 + usize::try_from(seed % 5).unwrap();
        let (mut kept, mut anew) = (Model::new(true, subscribers), Model::new(false, subscribers));
        for _ in 0..400 {
            let step: [u64; 5] = std::array::from_fn(|_| rng.next_u64() >> 8);
            kept.play(&step);
            anew.play(&step);
            assert_eq!(kept.answers, anew.answers, "seed {seed}");
            deliveries += kept.answers.iter().filter(|(_, text)| text.contains("Packet")).count();
            kept.answers.clear();
            anew.answers.clear();
        }
        assert_eq!(kept.store.counts().waiters, anew.store.counts().waiters);
    }
    assert!(deliveries > 3_000, "{deliveries} deliveries");
}

#[test]
fn late_nodes_of_many_pops_come_into_order() {
    let subscribers = 200;
    let (mut kept, mut anew) = (Model::new(true, subscribers), Model::new(false, subscribers));
    for model in [&mut kept, &mut anew] {
        for number in 0..subscribers {
            // The own queue of each is the way to serve them in any order.
            let own = QUEUES + number;
            model.subscribers[number] =
                Subscriber { queues: vec![0, own], credits: 5, is_new: true, ..Default::default() };
            model.pop_if_due(number);
        }
        for round in 0..3 {
            for number in (0..subscribers).rev().filter(|number| (number + round) % 3 > 0) {
                model.push(QUEUES + number, 1, -1, 0);
            }
            (0..subscribers / 2).for_each(|_| model.push(0, 1, -1, 0));
        }
        model.store.check_invariants();
    }
    assert_eq!(kept.answers, anew.answers);
}

#[test]
fn delivery_costs_the_same_for_any_number_of_subscriptions() {
    for queues in [1, 1_000] {
        let mut model = Model::new(true, 2);
        for number in 0..2 {
            let queues = (0..queues).collect();
            model.subscribers[number] =
                Subscriber { queues, credits: 100, is_new: true, ..Default::default() };
            model.pop_if_due(number);
        }
        model.store.take_work();
        for number in 0..100 {
            model.push(number % queues, 1, -1, 0);
            let work = model.store.take_work();
            assert!(work <= 4 * WAIT_NODE_WORK, "{work} of {queues} queues");
        }
    }
}
