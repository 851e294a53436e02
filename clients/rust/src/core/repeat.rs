//! Whether a request is repeated after a connection was lost, and when.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use crate::error::{Error, Result};

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);

/// The attempts of one call.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    failures: u32,
    may_be_executed: bool,
}

impl Attempts {
    /// The pause before the request is sent again; the error if it must not be. `left`: how long
    /// the call may still take.
    pub(crate) fn after(
        &mut self,
        error: Error,
        repeatable: bool,
        left: Duration,
    ) -> Result<Duration> {
        match &error {
            Error::AnswerLost(_) => {
                self.may_be_executed = true;
                if !repeatable {
                    return Err(error);
                }
            }
            Error::ConnectionLost(_) => {}
            _ => return Err(error),
        }
        if left.is_zero() {
            return Err(if self.may_be_executed {
                Error::Timeout(format!("there was no answer in time: {error}"))
            } else {
                error
            });
        }
        Ok(self.pause().min(left))
    }

    /// Pauses double, and are drawn between half and whole.
    pub(crate) fn pause(&mut self) -> Duration {
        let whole = LONGEST.min(FIRST * 2_u32.saturating_pow(self.failures.min(16)));
        self.failures += 1;
        let drawn = RandomState::new().build_hasher().finish() % 500;
        whole.mul_f64(0.5 + f64::from(u32::try_from(drawn).unwrap_or(0)) / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Duration = Duration::from_secs(30);

    #[test]
    fn pauses_grow_to_a_limit() {
        let mut attempts = Attempts::default();
        let pauses: Vec<_> = (0..40).map(|_| attempts.pause()).collect();
        assert!(pauses[0] <= FIRST && pauses[0] >= FIRST / 2);
        assert!(pauses[39] <= LONGEST && pauses[39] >= LONGEST / 2);
    }

    #[test]
    fn a_lost_answer_is_repeated_only_if_that_is_safe() {
        let lost = || Error::AnswerLost("lost".into());
        assert!(Attempts::default().after(lost(), true, LEFT).is_ok());
        let error = Attempts::default().after(lost(), false, LEFT).expect_err("not safe");
        assert_eq!(error.kind(), "answer-lost");
        let error = Attempts::default().after(lost(), true, Duration::ZERO).expect_err("late");
        assert_eq!(error.kind(), "timeout");
        let refused = Error::Draining("drained".into());
        assert_eq!(
            Attempts::default().after(refused, true, LEFT).expect_err("").kind(),
            "draining"
        );
    }
}
