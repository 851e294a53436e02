//! What one command, and one pass, does at most, in steps.

use super::{Shop, argument, client, names, on};
use crate::base::limits::{
    CONSTRAINT_SCAN_JOBS_PER_PASS, CONSTRAINT_STEPS_PER_COMMAND, CONSTRAINT_STEPS_PER_PASS,
    CONSTRAINTS_MAX, SCAN_DEFER_MAX_MS,
};
use crate::base::time::Mono;
use crate::model::command::{Command, Wait};
use crate::model::id::{JobId, Ticket};
use crate::model::worker::{Compare, Condition, Constraint, Scalar};
use crate::store::Outcome;

/// What a command may do at once: its own steps, the pass's, and those of the last thing begun.
const AT_ONCE: u64 = CONSTRAINT_STEPS_PER_PASS + 4 * CONSTRAINT_STEPS_PER_COMMAND;

impl Shop {
    /// A take that does not wait, and its answer if there is one at once.
    fn ask(&mut self, index: u32, queue: &str) -> (Ticket, Option<Outcome>) {
        let list = names(&[queue]);
        let told = self.apply(index, &Command::Reserve { queues: list.from(0), wait: Wait::No });
        let ticket = Ticket { client: client(index), serial: self.serial };
        let own = told.into_iter().find(|&(told, _)| told == ticket);
        (ticket, own.map(|(_, outcome)| outcome))
    }

    /// One pass and no more; returns what it answered, and asserts what it may cost.
    fn pass(&mut self) -> Vec<(Ticket, Outcome)> {
        let (steps, ()) = self.steps(|shop| {
            shop.fx.clear();
            shop.store.expire(64, shop.now, &mut shop.fx);
        });
        assert!(steps <= AT_ONCE, "{steps} steps in a pass");
        self.fx.outcomes.clone()
    }

    /// Passes until somebody is answered, or nothing is left to be done.
    fn passes(&mut self) -> (usize, Vec<(Ticket, Outcome)>) {
        let mut passes = 0;
        while self.store.next_deadline() == Some(Mono(0)) {
            passes += 1;
            assert!(passes < 1_000, "it never ends");
            let told = self.pass();
            if !told.is_empty() {
                return (passes, told);
            }
        }
        (passes, Vec::new())
    }

    fn id_of(&self, outcome: Outcome) -> JobId {
        let Outcome::Job(slot) = outcome else { panic!("{outcome:?}") };
        self.store.view(slot).id
    }
}

/// All jobs whose `u` is small.
fn on_small(name: &str) -> Constraint {
    let values = vec![Scalar::Integer(1)];
    let matcher = vec![Condition { path: argument("u"), op: Compare::LessOrEqual, values }];
    Constraint { matcher, ..on(name, "*") }
}

/// Hosts of one user, each job of a host and a value of its own, shown one by one; then the limit
/// is lowered. Nobody has looked at any.
fn shown(shop: &mut Shop, jobs: u64) {
    shop.constrain(&on_small("host").running(2).per("h"));
    for number in 0..jobs {
        shop.put("q", &format!("{{\"h\":{number},\"u\":1}}"));
    }
    shop.constrain(&on_small("host").running(0).per("h"));
    shop.settle();
}

#[test]
fn a_limit_that_all_share_keeps_those_that_have_their_own_together() {
    let mut shop = Shop::new();
    shop.constrain(&on("host", "q").running(1).per("h"));
    shop.constrain(&on("user", "q").running(1).per("u"));
    for number in 0..20_000 {
        shop.put("q", &format!("{{\"h\":{number},\"u\":1}}"));
    }
    let first = shop.take(1, &["q"]).unwrap();
    let (steps, second) = shop.steps(|shop| shop.take(1, &["q"]));
    assert_eq!(second, None);
    assert!(steps <= 8, "{steps} steps in one take");
    let (steps, _) = shop.steps(|shop| shop.delete(first));
    assert!(steps <= 16, "{steps} steps in one delete");
    assert!(shop.take(1, &["q"]).is_some());
    shop.store.check_invariants();
}

#[test]
fn a_take_that_does_not_wait_passes_a_bounded_number_by_and_misses_nothing() {
    let mut shop = Shop::new();
    shown(&mut shop, 5_000);
    let free = shop.put_with("q", -1, "{\"u\":9}", None);
    let (steps, (ticket, told)) = shop.steps(|shop| shop.ask(1, "q"));
    assert!(steps <= AT_ONCE, "{steps} steps in one take");
    assert_eq!(told, None, "it is not known yet");
    shop.store.check_invariants();
    // Others who ask in the same pass have their own few steps.
    let (steps, (other, told)) = shop.steps(|shop| shop.ask(2, "q"));
    assert!(steps <= 4 * CONSTRAINT_STEPS_PER_COMMAND, "{steps} steps in another take");
    assert_eq!(told, None);
    let (passes, answers) = shop.passes();
    assert!(passes > 3, "{passes} passes");
    let [(first, found), (second, Outcome::NoJob)] = answers[..] else { panic!("{answers:?}") };
    assert_eq!((first, shop.id_of(found), second), (ticket, free, other));
    shop.store.check_invariants();
    assert_eq!(shop.ask(1, "q").1, Some(Outcome::NoJob), "now it is known at once");
    let (steps, _) = shop.steps(|shop| shop.ask(1, "q"));
    assert_eq!(steps, 0);
    assert_eq!(shop.store.counts().deadlines, 0);
    shop.store.check_invariants();
}

#[test]
fn a_pop_and_a_take_that_waits_pass_a_bounded_number_by() {
    let mut shop = Shop::new();
    shown(&mut shop, 5_000);
    let [first, second] = [2, 1].map(|number| shop.put_with("q", number - 9, "{\"u\":9}", None));
    let (steps, found) = shop.steps(|shop| shop.wait(1, "q"));
    assert!(steps <= AT_ONCE, "{steps} steps in one take");
    assert_eq!(found, []);
    let list = names(&["q"]);
    let pop = Command::Pop { queues: list.from(0), wait: Wait::No };
    let (steps, told) = shop.steps(|shop| shop.apply(2, &pop));
    assert!(steps <= 4 * CONSTRAINT_STEPS_PER_COMMAND, "{steps} steps in one pop");
    assert_eq!(told, []);
    let (_, answers) = shop.passes();
    let [(_, found), (_, Outcome::Packets { count: 1, .. })] = answers[..] else {
        panic!("{answers:?}");
    };
    assert_eq!(shop.id_of(found), first);
    assert!(shop.store.slot(second).is_none(), "it was popped");
    shop.store.check_invariants();
}

/// However much others have to be looked through, a take that does not wait is answered.
#[test]
fn a_take_that_does_not_wait_is_answered_after_a_while_in_any_case() {
    let mut shop = Shop::new();
    shown(&mut shop, 5_000);
    let (ticket, told) = shop.ask(1, "q");
    assert_eq!(told, None);
    shop.now.mono = Mono(shop.now.mono.0 + SCAN_DEFER_MAX_MS * 1_000_000);
    assert_eq!(shop.pass(), [(ticket, Outcome::NoJob)]);
    shop.store.check_invariants();
    // Or called off, or its client gone.
    let (ticket, told) = shop.ask(2, "q");
    assert_eq!(told, None);
    shop.fx.clear();
    shop.store.cancel(ticket, &mut shop.fx);
    assert_eq!(shop.fx.outcomes, [(ticket, Outcome::Cancelled)]);
    assert_eq!(shop.ask(3, "q").1, None);
    shop.fx.clear();
    shop.store.disconnect_client(client(3), shop.now, &mut shop.fx);
    assert_eq!(shop.passes().1, []);
    shop.store.check_invariants();
    assert_eq!(shop.store.counts().deadlines, 0);
}

/// What room brings about is bounded for all commands of a pass together, and each takes part.
#[test]
fn many_commands_of_a_pass_share_its_steps() {
    let mut shop = Shop::new();
    shop.constrain(&on("c", "q*").running(0));
    for number in 0..5_000 {
        shop.put(&format!("q{number}"), "{}");
    }
    shop.constrain(&on("c", "q*").running(u32::MAX));
    shop.settle();
    shop.constrain(&on("c", "q*").running(0));
    shop.settle();
    for number in 0..5_000 {
        assert_eq!(shop.take(1, &[&format!("q{number}")]), None);
    }
    shop.pass();
    let commands = 30;
    let (steps, ()) = shop.steps(|shop| {
        shop.constrain(&on("c", "q*").running(u32::MAX));
        for _ in 1..commands {
            let job = shop.put("other", "{}");
            assert_eq!(shop.take(1, &["other"]), Some(job));
            shop.delete(job);
        }
    });
    let bound = CONSTRAINT_STEPS_PER_PASS + 3 * commands * (CONSTRAINT_STEPS_PER_COMMAND + 4);
    assert!(steps <= bound, "{steps} steps of {commands} commands");
    shop.settle();
    for number in 0..5_000 {
        assert!(shop.take(1, &[&format!("q{number}")]).is_some());
    }
    shop.store.check_invariants();
}

/// Room that is there, but not made known yet to those who wait for it, is not overlooked.
#[test]
fn a_take_that_does_not_wait_gets_what_is_about_to_be_woken() {
    let mut shop = Shop::new();
    shop.constrain(&on("all", "q*").running(0));
    for number in 0..3_000 {
        shop.put(&format!("q{number}"), "{}");
    }
    let last = shop.put_with("q", -9, "{}", None);
    shop.constrain(&on("all", "q*").running(u32::MAX));
    let (ticket, told) = shop.ask(1, "q");
    assert_eq!(told, None, "it sleeps still");
    let (_, answers) = shop.passes();
    let [(first, found)] = answers[..] else { panic!("{answers:?}") };
    assert_eq!((first, shop.id_of(found)), (ticket, last));
    shop.settle();
    shop.store.check_invariants();
}

/// Constraints that are set one after the other match a bounded number of jobs anew in a pass.
#[test]
fn many_changes_of_a_pass_share_its_matches() {
    let mut shop = Shop::new();
    for _ in 0..20 * CONSTRAINT_SCAN_JOBS_PER_PASS {
        shop.put("q", "{}");
    }
    let before = shop.store.constraints.scan_pos;
    for number in 0..50 {
        shop.constrain(&on(&number.to_string(), "q").running(1));
    }
    let after = shop.store.constraints.scan_pos;
    assert_eq!(
        (after.0, after.1 - before.1),
        (0, u32::try_from(CONSTRAINT_SCAN_JOBS_PER_PASS).unwrap())
    );
    shop.settle();
    assert!(shop.take(1, &["q"]).is_some());
    assert_eq!(shop.take(1, &["q"]), None);
    shop.store.check_invariants();
}

/// Only buckets where somebody waits are looked at, and no job.
#[test]
fn other_limits_match_no_job_anew() {
    let mut shop = Shop::new();
    let (hosts, jobs) = (2_000, 5);
    shop.constrain(&on("c", "q*").running(0).per("h"));
    for number in 0..hosts * jobs {
        shop.put(&format!("q{}", number % 2), &format!("{{\"h\":{}}}", number % hosts));
    }
    let sweep = shop.store.constraints.sweep_until;
    let (steps, _) = shop.steps(|shop| shop.constrain(&on("c", "q*").running(1).per("h")));
    assert!(steps <= AT_ONCE, "{steps} steps at once");
    let (steps, ()) = shop.steps(Shop::settle);
    assert!(steps <= 6 * hosts, "{steps} steps for {hosts} buckets");
    assert_eq!(shop.store.constraints.sweep_until, sweep, "no job is matched anew");
    for _ in 0..hosts {
        assert!(shop.take(1, &["q0", "q1"]).is_some());
        shop.pass();
    }
    shop.store.check_invariants();
    for queue in ["q0", "q1"] {
        let (ticket, told) = shop.ask(1, queue);
        let told = told.map_or_else(|| shop.passes().1, |told| vec![(ticket, told)]);
        assert_eq!(told, [(ticket, Outcome::NoJob)]);
    }
    // While it goes on, it is changed again, and removed.
    shop.constrain(&on("c", "q*").running(2).per("h"));
    shop.constrain(&on("c", "q*").running(3).per("h"));
    shop.store.check_invariants();
    shop.free("c");
    shop.settle();
    shop.store.check_invariants();
    for _ in hosts..hosts * jobs {
        assert!(shop.take(1, &["q0", "q1"]).is_some());
        shop.pass();
    }
    let all = &shop.store.constraints;
    assert_eq!((all.rules.len(), all.limiters.len(), all.changed_limits.len()), (0, 0, 0));
}

/// Read anew for each condition, this payload would be eight thousand million bytes.
#[test]
fn a_payload_is_read_once_for_all_conditions() {
    let mut shop = Shop::new();
    let condition = |number: usize| {
        let path = argument(&format!("x{}.{}", number % 7, number));
        Condition { path, op: Compare::Equal, values: vec![Scalar::Nil] }
    };
    for number in 0..CONSTRAINTS_MAX {
        let matcher = (0..32).map(|own| condition(32 * number + own)).collect();
        let constraint = Constraint { matcher, ..on(&number.to_string(), "*") };
        let constraint = constraint.running(1).per(&format!("x1.{number}"));
        assert_eq!(shop.constrain(&constraint), Outcome::Constrained { new: true });
    }
    shop.settle();
    let many = "{\"y\":[1,2,3]},".repeat(1 << 16);
    let ids = [0, 1].map(|_| shop.put("q", &format!("{{\"x\":[{many}1],\"x1\":{{\"1\":2}}}}")));
    let bound = shop.store.constraints.classes.iter().map(|(_, strand)| strand.buckets.len());
    // The one whose condition asks for `x1.1` is not about them.
    assert_eq!(bound.collect::<Vec<_>>(), [CONSTRAINTS_MAX - 1]);
    assert_eq!(shop.take(1, &["q"]), Some(ids[0]));
    assert_eq!(shop.take(1, &["q"]), None);
    shop.store.check_invariants();
}
