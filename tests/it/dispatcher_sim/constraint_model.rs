//! Constraints over simulated workers: their limits, and whether runs keep to them.

use super::simulation::Simulation;
use crate::rng::TestRng;
use jobcentre::base::time::Mono;
use jobcentre::model::reply::Reply;
use jobcentre::model::worker::{Constraint, ConstraintReply, WorkerCommand};
use jobcentre::protocol::http::lightjq::messages::read_constraint_json;
use std::collections::BTreeMap;

/// What constraints allow.
#[derive(Clone, Debug, Default)]
pub(super) struct ConstraintModel {
    /// Jobs that run at a time.
    all: Option<usize>,
    /// The same of each queue.
    each: Option<usize>,
    /// Starts of jobs: how many at once, and how many milliseconds for each further one.
    rate: Option<(u64, u64)>,
    since: Mono,
}

fn constraint(name: &str, json: &str) -> Constraint {
    read_constraint_json(name, json.as_bytes()).unwrap()
}

impl ConstraintModel {
    pub(super) fn draw(rng: &mut TestRng) -> Self {
        if rng.percent(30) {
            return Self::default();
        }
        Self {
            all: rng.percent(50).then(|| rng.between(1, 5)),
            each: rng.percent(60).then(|| rng.between(1, 2)),
            rate: rng
                .percent(40)
                .then(|| (rng.between(1, 4) as u64, rng.between(200, 1_200) as u64)),
            since: Mono(0),
        }
    }

    fn constraints(&self) -> Vec<Constraint> {
        let mut all = Vec::new();
        if let Some(most) = self.all {
            all.push(constraint("all", &format!(r#"{{"matcher":[],"max_running":{most}}}"#)));
        }
        if let Some(most) = self.each {
            let json = format!(
                r#"{{"matcher":[["name","in",["a","b"]]],"max_running":{most},"per":"name"}}"#
            );
            all.push(constraint("each", &json));
        }
        if let Some((burst, ms)) = self.rate {
            let seconds = format!("{}.{:03}", ms / 1_000, ms % 1_000);
            let json = format!(
                r#"{{"matcher":[],"rate":{{"count":1,"period":{seconds},"burst":{burst}}}}}"#
            );
            all.push(constraint("rate", &json));
        }
        all
    }
}

impl Simulation {
    /// Sets the constraints of this run.
    pub(super) fn set_constraints(&mut self) {
        self.constraint_model.since = self.now.mono;
        for constraint in self.constraint_model.clone().constraints() {
            let set = self.work(WorkerCommand::SetConstraint(&constraint), |reply| {
                Some(*reply == Reply::Constraint(ConstraintReply::Set { new: true }))
            });
            assert_eq!(set, Some(true), "{constraint:?}");
            self.note("a constraint was set");
        }
    }

    /// Not more runs than may, and not more has come of jobs than could be started.
    pub(super) fn check_constraints(&mut self) {
        let (mut running, mut held_back) = (BTreeMap::<&'static str, usize>::new(), 0);
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            match self.state(id).map(|state| state.status) {
                Some("running") => *running.entry(self.jobs[&id].queue).or_default() += 1,
                Some("queued") => held_back += 1,
                _ => {}
            }
        }
        let all: usize = running.values().sum();
        let ConstraintModel { all: most, each, rate, since } = self.constraint_model;
        if let Some(most) = most {
            assert!(all <= most, "{all} run where {most} may");
            if all == most && held_back > 0 {
                self.note("a limit was reached");
            }
        }
        if let Some(most) = each {
            let found = [running.get("a"), running.get("b")].into_iter().flatten().max();
            assert!(found.is_none_or(|&found| found <= most), "{running:?} run of {most} each");
            if found == Some(&most) && held_back > 0 {
                self.note("a limit of a queue was reached");
            }
        }
        if let Some((burst, ms)) = rate {
            // Runs of which something came: others may have been given back.
            let runs = |job: &super::simulation::Job| u64::from(job.successes + job.costs);
            let runs: u64 = self.jobs.values().map(runs).sum();
            let tokens = burst + (self.now.mono.0 - since.0) / (ms * 1_000_000);
            assert!(runs <= tokens, "{runs} runs for {tokens} tokens");
            if runs > 0 && runs + 2 >= tokens {
                self.note("a rate was nearly reached");
            }
        }
    }
}
