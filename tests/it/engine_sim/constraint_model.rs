//! The oracle's constraints: which jobs they block.

use super::store_model::{Job, Model};
use super::types::{Answer, QUEUES, Queue};
use jobcentre::model::id::Ticket;
use jobcentre::model::job::{Priority, Status};
use jobcentre::model::worker::{Compare, Condition, Constraint, Path, Scalar};

/// The names of all constraints there are.
pub(super) const CONSTRAINT_NAMES: [&str; 3] = ["x", "y", "z"];

/// The queues that a constraint may be about: all, some, or one.
const SHAPES: [&str; 3] = ["*", "a*", "default"];

/// How many shapes there are.
pub(super) const SHAPES_COUNT: usize = SHAPES.len();

/// A constraint, by its number in [`CONSTRAINT_NAMES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConstraintSpec {
    pub(super) name: usize,
    /// Which queues, by their number in [`SHAPES`].
    pub(super) shape: usize,
    pub(super) most: u32,
    /// The limit applies to each queue.
    pub(super) each: bool,
}

impl ConstraintSpec {
    pub(super) fn constraint(&self) -> Constraint {
        let values = vec![Scalar::Text(SHAPES[self.shape].into())];
        Constraint {
            name: CONSTRAINT_NAMES[self.name].into(),
            matcher: vec![Condition { path: Path::Name, op: Compare::Equal, values }],
            max_running: Some(self.most),
            rate: None,
            per: self.each.then_some(Path::Name),
        }
    }

    fn is_about(&self, job: &Job) -> bool {
        let name = QUEUES[job.queue];
        let meant = match self.shape {
            0 => true,
            1 => name.starts_with(b"a"),
            _ => name == b"default",
        };
        meant && job.load.key().is_none() && job.priority != Priority::Unselected
    }

    /// Whether two jobs count together.
    fn shares(&self, one: Queue, other: Queue) -> bool {
        !self.each || one == other
    }
}

impl Model {
    /// Whether as many jobs run as may beside this one.
    pub(super) fn is_held_back(&self, job: &Job) -> bool {
        self.constraints.iter().filter(|constraint| constraint.is_about(job)).any(|constraint| {
            let counts = |other: &&Job| {
                let runs = other.status == Status::Reserved && constraint.is_about(other);
                runs && constraint.shares(job.queue, other.queue)
            };
            self.jobs.iter().filter(counts).count() >= constraint.most as usize
        })
    }

    pub(super) fn constrain(&mut self, ticket: Ticket, constraint: &ConstraintSpec) {
        let before = self.constraints.len();
        self.constraints.retain(|known| known.name != constraint.name);
        let new = self.constraints.len() == before;
        self.constraints.push(constraint.clone());
        self.say(ticket, Answer::Constrained(new));
        self.serve(&[]);
    }

    pub(super) fn free(&mut self, ticket: Ticket, name: usize) {
        let before = self.constraints.len();
        self.constraints.retain(|known| known.name != name);
        let gone = self.constraints.len() < before;
        self.say(ticket, if gone { Answer::Done } else { Answer::NoConstraint });
        self.serve_everywhere();
    }

    /// Not to be asked too often: see what is held back.
    pub(super) fn note_held_back(&mut self) {
        let held_back = self
            .jobs
            .iter()
            .any(|job| job.status == Status::Ready && !self.is_over(job) && self.is_held_back(job));
        if held_back {
            self.see("a job is held back");
        }
    }
}
