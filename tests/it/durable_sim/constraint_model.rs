//! Constraints among the commands: which may apply, and which must apply after a restart.

use super::Simulation;
use super::oracle::{Asked, Oracle};
use jobcentre::base::time::Now;
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::command::Command;
use jobcentre::model::id::{ClientId, Ticket};
use jobcentre::model::reply::Reply;
use jobcentre::model::worker::{
    Compare, Condition, Constraint, ConstraintReply, Path, Rate, Scalar, WorkerCommand,
};
use std::collections::BTreeMap;

const NAMES: [&str; 3] = ["one", "two", "all"];

/// What a constraint allows, or that there is none.
type Most = Option<u32>;

/// What may be in force by each name: what surely was, and what was asked for since then.
#[derive(Debug, Default)]
pub(super) struct ConstraintModel(BTreeMap<&'static str, Vec<(Option<Ticket>, Most)>>);

/// A constraint that is known by what it allows.
pub(super) fn constraint(name: &str, most: u32) -> Constraint {
    let queues = if name == "all" { "*" } else { "a" };
    let values = vec![Scalar::Text(queues.into())];
    let mut matcher = vec![Condition { path: Path::Name, op: Compare::Equal, values }];
    if name == "two" {
        let values = vec![Scalar::Integer(most.into())];
        let path = Path::Argument(vec!["n".into()]);
        matcher.push(Condition { path, op: Compare::Less, values });
    }
    let rate = Rate { count: 1 + most % 7, period_ms: 10, burst: 3 };
    Constraint {
        name: name.into(),
        matcher,
        max_running: Some(most),
        rate: (name == "two").then_some(rate),
        per: (most % 2 == 1).then(|| Path::Argument(vec!["n".into()])),
    }
}

impl ConstraintModel {
    fn of(&mut self, name: &'static str) -> &mut Vec<(Option<Ticket>, Most)> {
        self.0.entry(name).or_insert_with(|| vec![(None, None)])
    }
}

impl Simulation {
    pub(super) fn set_constraints(&mut self, engine: &mut Engine, ticket: Ticket) {
        let name = *self.rng.pick(&NAMES);
        self.oracle.ask(ticket, Asked::Constraint(name));
        if self.rng.percent(30) {
            self.oracle.constraints.of(name).push((Some(ticket), None));
            engine.submit(
                ticket,
                &Command::Work(WorkerCommand::RemoveConstraint { name }),
                self.now,
            );
        } else {
            // Some are asked for once more.
            let most = *self.rng.pick(&[0, 1, 2, 3, 20, 50]);
            self.oracle.constraints.of(name).push((Some(ticket), Some(most)));
            let constraint = constraint(name, most);
            engine.submit(
                ticket,
                &Command::Work(WorkerCommand::SetConstraint(&constraint)),
                self.now,
            );
        }
        self.take_completions(engine);
    }
}

impl Oracle {
    pub(super) fn on_reply_constraint(
        &mut self,
        name: &'static str,
        ticket: Ticket,
        reply: &Reply<'_>,
    ) {
        let constraints = self.constraints.of(name);
        let place =
            constraints.iter().position(|&(asked, _)| asked == Some(ticket)).expect("it asked");
        match reply {
            Reply::Constraint(ConstraintReply::Set { .. } | ConstraintReply::Removed) => {
                constraints[place].0 = None;
                drop(constraints.drain(..place));
                self.seen.constraints += 1;
            }
            Reply::Constraint(ConstraintReply::NoConstraint | ConstraintReply::DiskFull) => {
                constraints.remove(place);
            }
            other => panic!("a constraint was answered by {other:?}"),
        }
    }

    /// Looks at the constraints that came back.
    pub(super) fn check_constraints(&mut self, engine: &mut Engine, client: ClientId, now: Now) {
        for (name, serial) in NAMES.into_iter().zip(u32::MAX - 9..) {
            let work = WorkerCommand::GetConstraint { name };
            engine.submit(Ticket { client, serial }, &Command::Work(work), now);
            let completion = engine.poll_completion().expect("what is durable is shown at once");
            let found = match completion.reply {
                Reply::ConstraintFound(found) => {
                    let most = found.max_running.expect("each has one");
                    assert_eq!(*found, constraint(name, most), "half a constraint");
                    Some(most)
                }
                Reply::Constraint(ConstraintReply::NoConstraint) => None,
                other => panic!("{other:?}"),
            };
            let constraints = self.constraints.of(name);
            let possible = constraints.iter().any(|&(_, most)| most == found);
            assert!(possible, "constraint {name} is {found:?} instead of {constraints:?}");
            self.seen.constraints_kept += u64::from(found.is_some() && constraints.len() == 1);
            self.seen.constraints_in_doubt += u64::from(constraints.len() > 1);
            *constraints = vec![(None, found)];
        }
    }
}

/// Nothing is held back any more.
pub(super) fn free_all(engine: &mut Engine, client: ClientId, now: Now) {
    for (name, serial) in NAMES.into_iter().zip(u32::MAX - 9..) {
        let ticket = Ticket { client, serial };
        engine.submit(ticket, &Command::Work(WorkerCommand::RemoveConstraint { name }), now);
        while engine.poll_completion().is_some() {}
    }
}
