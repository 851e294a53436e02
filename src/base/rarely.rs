//! Rate-limited reports of a counter.

use crate::base::time::Mono;
use std::time::Duration;

/// A counter that is reported at most once in an interval; the first event is reported at once.
#[derive(Debug)]
pub struct Rarely {
    every: Duration,
    told: Option<Mono>,
    untold: u64,
}

impl Rarely {
    /// Nothing has happened yet; it is to be told at most this often.
    #[must_use]
    pub fn new(every: Duration) -> Self {
        Self { every, told: None, untold: 0 }
    }

    /// It has happened once more.
    pub fn note(&mut self) {
        self.untold += 1;
    }

    /// How often it has happened since it was last told, if it is to be told now.
    pub fn take(&mut self, now: Mono) -> Option<u64> {
        if self.next()? > now {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.untold))
    }

    /// When there is something to be told; past moments mean now.
    #[must_use]
    pub fn next(&self) -> Option<Mono> {
        let at = || self.told.map(|told| told.after(self.every)).unwrap_or_default();
        (self.untold > 0).then(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_often_is_told_once_in_a_while_with_its_count() {
        let at = |seconds: u64| Mono(seconds * 1_000_000_000);
        let mut rarely = Rarely::new(Duration::from_secs(1));
        assert_eq!((rarely.next(), rarely.take(at(5))), (None, None));
        rarely.note();
        assert_eq!(rarely.take(at(5)), Some(1));
        for _ in 0..1_000 {
            rarely.note();
            assert_eq!(rarely.take(at(5)), None);
        }
        assert_eq!(rarely.next(), Some(at(6)), "the rest is told even if nothing more happens");
        assert_eq!(rarely.take(at(6)), Some(1_000));
        assert_eq!((rarely.next(), rarely.take(at(9))), (None, None));
    }
}
