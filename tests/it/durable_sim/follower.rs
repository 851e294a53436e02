//! A server that follows the leader in the simulation, as far as it comes before the leader's
//! death, and the node's part of that.

use super::node::{Kept, SimNode, list, number};
use crate::rng::TestRng;
use crate::seeds;
use jobcentre::base::time::Now;
use jobcentre::engine::shared::Begin;
use jobcentre::engine::shared::redis::{Calls, Requests};
use jobcentre::engine::{CommandExecutor, Engine, Follower, RestoredShared, Step};
use jobcentre::wire::resp::{push_array, push_bulk};
use std::collections::BTreeMap;

/// Writes of which a server that follows is told at once: few, so that it may lag behind.
const LOG_PART: u64 = 3;

/// What the node keeps for a server that follows.
#[derive(Debug, Default)]
pub(super) struct Succession {
    is_offered: bool,
    has_successor: bool,
    is_ready: bool,
    log: BTreeMap<u64, Vec<u8>>,
}

impl Succession {
    /// A write was accepted, with the changes in their order if the lead is offered.
    pub(super) fn note_write(&mut self, seq: u64, changes: Option<&[u8]>) -> Vec<u8> {
        let Some(changes) = changes else {
            *self = Self { is_offered: self.is_offered, ..Self::default() };
            return list(&[b"OK"]);
        };
        self.is_offered = true;
        if !self.has_successor {
            return list(&[b"OK", b"open"]);
        }
        if !changes.is_empty() {
            self.log.insert(seq, changes.to_vec());
        }
        list(&[b"OK", if self.is_ready { b"ready" } else { b"followed" }])
    }
}

impl Kept {
    /// `jl_follow`: birth, server, lease, stage, seq.
    pub(super) fn follow(&mut self, args: &[&[u8]]) -> Vec<u8> {
        assert_eq!(args[0], self.birth);
        let mut seq = number(args[4]);
        if args[3] == b"begin" {
            if !self.succession.is_offered {
                return list(&[b"LOST"]);
            }
            self.succession =
                Succession { is_offered: true, has_successor: true, ..Succession::default() };
            seq = self.seq;
        } else if !self.succession.has_successor || self.seq < seq {
            return list(&[b"LOST"]);
        }
        self.succession.is_ready = args[3] == b"ready";
        self.succession.log.retain(|&of, _| of > seq);
        let last = self.seq.min(seq + LOG_PART);
        let parts: Vec<&[u8]> =
            self.succession.log.range(..=last).map(|(_, changes)| &changes[..]).collect();
        let mut out = Vec::new();
        push_array(&mut out, 5);
        for word in ["OK".to_owned(), self.seq.to_string(), "0".to_owned(), last.to_string()] {
            push_bulk(&mut out, word.as_bytes());
        }
        out.extend(list(&parts));
        out
    }
}

/// The server that waits.
pub(super) struct Waiting {
    rng: TestRng,
    follower: Option<Follower>,
    /// It has all that there is.
    is_current: bool,
}

impl Waiting {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: TestRng::new(seed ^ 0x666f_6c6c), follower: None, is_current: false }
    }
}

impl SimNode {
    /// The leader offers its lead at times, and the server that waits follows for a few steps.
    pub(super) fn follow(&mut self, engine: &mut Engine, now: Now) {
        if self.waiting.rng.percent(5) && engine.link().is_some_and(|link| link.offer_lead(now)) {
            seeds::say(|| "the lead is offered".to_owned());
        }
        for _ in 0..self.waiting.rng.below(5) {
            self.step_follower(now);
        }
    }

    fn step_follower(&mut self, now: Now) {
        let (requests, birth) = (self.requests(), self.kept.birth.clone());
        let waiting = &mut self.waiting;
        let begins = self.kept.succession.is_offered && waiting.rng.percent(50);
        if waiting.follower.is_none() && !begins {
            return;
        }
        let follower = waiting.follower.get_or_insert_with(|| {
            seeds::say(|| "a server follows".to_owned());
            Follower::new(&birth, (5, None))
        });
        let mut calls = self.kept.calls();
        let renew = &mut |_: &mut dyn Calls, _: &[u8]| Ok(());
        let step = follower.step(&mut calls, &requests, now, renew).unwrap();
        waiting.is_current = matches!(step, Step::Current { .. });
        if step == Step::Lost {
            seeds::say(|| "it has to begin anew".to_owned());
            waiting.follower = None;
        }
    }

    /// The leader is dead: perhaps this server has read everything, or does so now.
    pub(super) fn catch_up(&mut self, now: Now) {
        self.waiting.is_current = false;
        if self.waiting.follower.is_none() || self.waiting.rng.percent(10) {
            return;
        }
        for _ in 0..10_000 {
            self.step_follower(now);
            if self.waiting.is_current || self.waiting.follower.is_none() {
                break;
            }
        }
    }

    /// What was read before the lead was taken, if that is everything.
    pub(super) fn take_followed(&mut self, begin: &Begin, now: Now) -> Option<RestoredShared> {
        let restored = self.waiting.follower.take()?.finish(begin, now)?;
        self.followed += 1;
        seeds::say(|| "what was read while the last leader led is used".to_owned());
        Some(restored)
    }

    fn requests(&self) -> Requests {
        Requests::new(&Self::settings(self.lives + 1))
    }
}
