//! How many replicas have a write before it counts: as the settings say, or else one, as long as
//! the primary has one connected. It is asked for them from time to time.

use crate::base::time::Mono;
use crate::engine::shared::limits::ROLE_INTERVAL;

/// The replicas of the node.
#[derive(Debug)]
pub(super) struct Replicas {
    /// As the settings say.
    fixed: Option<u32>,
    /// Connected when the primary was asked last. `None`: it was not asked.
    connected: Option<u32>,
    /// When that was. `None`: it is to be asked now.
    asked: Option<Mono>,
}

impl Replicas {
    pub(super) fn new(fixed: Option<u32>) -> Self {
        Self { fixed, connected: None, asked: None }
    }

    /// How many have to have a write.
    pub(super) fn wanted(&self) -> u32 {
        self.fixed.unwrap_or_else(|| self.connected().min(1))
    }

    pub(super) fn connected(&self) -> u32 {
        self.connected.unwrap_or(0)
    }

    /// Whether the primary is to be asked again.
    pub(super) fn is_due(&self, now: Mono) -> bool {
        self.asked.is_none_or(|asked| asked.after(ROLE_INTERVAL) <= now)
    }

    pub(super) fn note_asked(&mut self, now: Mono) {
        self.asked = Some(now);
    }

    /// The next time is now: a write has fewer replicas than wanted.
    pub(super) fn ask_again(&mut self) {
        self.asked = None;
    }

    /// The primary has this many. Returns what an operator should know of the change.
    pub(super) fn note(&mut self, connected: u32) -> Option<String> {
        let before = self.connected.replace(connected);
        match (self.fixed, before.unwrap_or(0), connected) {
            (None, 0, 1..) => Some(format!(
                "answers wait until a replica has what they rest on (connected: {connected})"
            )),
            (None, 1.., 0) => Some(
                "Redis has no replica any more: answers wait for none (--engine-wait)".to_owned(),
            ),
            (Some(fixed), before_count, _)
                if connected < fixed && (before.is_none() || before_count >= fixed) =>
            {
                Some(format!(
                    "replicas of Redis: {connected}, and --engine-wait is {fixed}: nothing is \
                     answered until there are as many"
                ))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_replica_is_waited_for_as_long_as_there_is_one() {
        let mut replicas = Replicas::new(None);
        assert!(replicas.wanted() == 0 && replicas.is_due(Mono(0)));
        assert_eq!(replicas.note(0), None);
        assert!(replicas.note(2).unwrap().contains("wait until a replica"));
        assert_eq!(replicas.wanted(), 1);
        assert_eq!(replicas.note(1), None);
        assert!(replicas.note(0).unwrap().contains("no replica any more"));
        assert_eq!(replicas.wanted(), 0);
    }

    #[test]
    fn fixed_number_is_waited_for_whatever_there_is() {
        let mut replicas = Replicas::new(Some(2));
        assert_eq!(replicas.wanted(), 2);
        assert!(replicas.note(1).unwrap().contains("nothing is answered"));
        assert_eq!(replicas.note(1), None);
        assert_eq!(replicas.note(2), None);
        assert!(replicas.note(0).is_some());
        assert_eq!(replicas.wanted(), 2);
    }
}
