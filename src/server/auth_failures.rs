//! Wrong tokens by address: the answers to one that goes on guessing are delayed.

use crate::base::limits::{
    AUTH_FAILURE_ADDRESSES_MAX, AUTH_FAILURE_DELAY, AUTH_FAILURE_WINDOW, AUTH_FAILURES_PER_WINDOW,
};
use crate::base::time::Mono;
use crate::model::peer::PeerAddress;
use std::collections::HashMap;

/// When a wrong token is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Now,
    After(Mono),
}

/// Counts of the windows that have begun, at most [`AUTH_FAILURE_ADDRESSES_MAX`]. Further addresses
/// share a count.
#[derive(Debug, Default)]
pub(super) struct AuthFailures {
    /// The start of a window, and how many there were in it. `None`: of no address, or shared.
    windows: HashMap<Option<PeerAddress>, (Mono, u32)>,
    total: u64,
}

impl AuthFailures {
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Counts one. Addresses of a network /64 of IPv6 are one: each of its machines has all of
    /// them. O(1); if the table is full, O(`AUTH_FAILURE_ADDRESSES_MAX`).
    pub(super) fn note(&mut self, address: Option<PeerAddress>, now: Mono) -> Verdict {
        self.total += 1;
        let address = address.map(PeerAddress::network);
        let is_full = self.windows.len() >= AUTH_FAILURE_ADDRESSES_MAX;
        if is_full && !self.windows.contains_key(&address) {
            self.windows.retain(|_, window| now < window.0.after(AUTH_FAILURE_WINDOW));
        }
        let is_full = self.windows.len() >= AUTH_FAILURE_ADDRESSES_MAX;
        let is_known = self.windows.contains_key(&address);
        let address = if is_full && !is_known { None } else { address };
        let window = self.windows.entry(address).or_insert((now, 0));
        if now >= window.0.after(AUTH_FAILURE_WINDOW) {
            *window = (now, 0);
        }
        window.1 += 1;
        if window.1 <= AUTH_FAILURES_PER_WINDOW {
            Verdict::Now
        } else {
            Verdict::After(now.after(AUTH_FAILURE_DELAY))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: usize) -> PeerAddress {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
        PeerAddress(bytes)
    }

    #[test]
    fn address_that_goes_on_is_answered_later_until_its_window_is_over() {
        let mut failures = AuthFailures::default();
        let (start, one, other) = (Mono(7), Some(address(1)), Some(address(2)));
        for _ in 0..AUTH_FAILURES_PER_WINDOW {
            assert_eq!(failures.note(one, start), Verdict::Now);
        }
        let later = Verdict::After(start.after(AUTH_FAILURE_DELAY));
        assert_eq!(failures.note(one, start), later);
        assert_eq!(failures.note(other, start), Verdict::Now);
        assert_eq!(failures.note(one, start.after(AUTH_FAILURE_WINDOW)), Verdict::Now);
        assert_eq!(failures.total(), u64::from(AUTH_FAILURES_PER_WINDOW) + 3);
    }

    #[test]
    fn table_of_addresses_is_bounded() {
        let mut failures = AuthFailures::default();
        for number in 0..AUTH_FAILURE_ADDRESSES_MAX + 100 {
            failures.note(Some(address(number)), Mono(0));
        }
        assert!(failures.windows.len() <= AUTH_FAILURE_ADDRESSES_MAX + 1);
        assert_ne!(
            failures.note(Some(address(usize::MAX)), Mono(0)),
            Verdict::Now,
            "they share a count"
        );
        failures.note(Some(address(0)), Mono(0).after(AUTH_FAILURE_WINDOW));
        failures.note(Some(address(usize::MAX)), Mono(0).after(AUTH_FAILURE_WINDOW));
        assert_eq!(failures.windows.len(), 2);
    }
}
