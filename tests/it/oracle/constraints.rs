//! Constraints of the oracle: which jobs they block.

use super::types::Answer;
use super::{Job, Oracle};
use jobcentre::model::id::Ticket;
use jobcentre::model::job::Status;

/// The queues that a constraint is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matcher {
    All,
    BeginningWithA,
    Default,
}

/// A constraint: a limit on running jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConstraintSpec {
    pub(crate) name: &'static str,
    pub(crate) matcher: Matcher,
    pub(crate) max_running: u32,
    /// The limit applies to each queue.
    pub(crate) per_queue: bool,
}

impl Oracle {
    pub(super) fn is_about(&self, constraint: &ConstraintSpec, job: &Job) -> bool {
        let name = self.names[job.queue];
        let meant = match constraint.matcher {
            Matcher::All => true,
            Matcher::BeginningWithA => name.starts_with(b"a"),
            Matcher::Default => name == b"default",
        };
        meant && job.load.key().is_none() && job.priority.is_some()
    }

    /// Whether as many jobs run as may beside this one.
    pub(crate) fn is_held_back(&self, job: &Job) -> bool {
        self.constraints.iter().filter(|constraint| self.is_about(constraint, job)).any(
            |constraint| {
                let counts = |other: &&Job| {
                    let together = !constraint.per_queue || other.queue == job.queue;
                    let runs = other.status == Status::Reserved;
                    runs && together && self.is_about(constraint, other)
                };
                self.jobs.iter().filter(counts).count() >= constraint.max_running as usize
            },
        )
    }

    pub(crate) fn set_constraint(&mut self, ticket: Ticket, constraint: ConstraintSpec) {
        self.see("work: set constraint");
        let before = self.constraints.len();
        self.constraints.retain(|known| known.name != constraint.name);
        let new = self.constraints.len() == before;
        self.constraints.push(constraint);
        self.reply(ticket, Answer::Constrained(new));
        self.serve(&[]);
    }

    pub(crate) fn remove_constraint(&mut self, ticket: Ticket, name: &str) {
        self.see("work: remove constraint");
        let before = self.constraints.len();
        self.constraints.retain(|known| known.name != name);
        let gone = self.constraints.len() < before;
        self.reply(ticket, if gone { Answer::Done } else { Answer::NoConstraint });
        self.serve_everywhere();
    }

    /// Not to be asked too often: see what is held back.
    pub(crate) fn note_held_back(&mut self) {
        let held_back = self
            .jobs
            .iter()
            .any(|job| job.status == Status::Ready && !self.is_over(job) && self.is_held_back(job));
        if held_back {
            self.see("a job is held back");
        }
    }
}
