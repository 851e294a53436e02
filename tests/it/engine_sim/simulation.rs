//! The engine beside its oracle: both execute every step, and their replies must be equal.

use super::indexed_requests::IndexedRequest;
use super::requests::{QUEUES, Request};
use super::worker_requests::WorkerRequest;
use crate::oracle::Oracle;
use crate::oracle::types::{Answer, Replies};
use jobcentre::base::slab::SlabKey;
use jobcentre::base::time::{Mono, Now};
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::Status;
use std::hash::{DefaultHasher, Hash};

/// What may happen.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Time has passed.
    Time(Now),
    Submit(Ticket, Request),
    Cancel(Ticket),
    Forget(ClientId),
    /// Whatever is due ends.
    Expire,
}

impl Step {
    fn changes_constraints(&self) -> bool {
        matches!(
            self,
            Self::Submit(
                _,
                Request::Work(WorkerRequest::SetConstraint(_) | WorkerRequest::RemoveConstraint(_))
            )
        )
    }
}

/// Whom the replies go to that only the oracle wants.
const ORACLE: ClientId = SlabKey { index: 100, generation: 0 };

/// Replies, one a line.
fn list(replies: &[(Ticket, Answer)]) -> String {
    replies.iter().fold(String::new(), |text, (ticket, said)| {
        let Ticket { client, serial } = ticket;
        text + &format!("\n    {}/{} #{serial} {said:?}", client.index, client.generation)
    })
}

/// More batches than anything takes that comes to an end.
const BATCHES: usize = 1_000;

pub(super) struct Simulation {
    pub(super) engine: Engine,
    pub(super) oracle: Oracle,
    pub(super) now: Now,
    /// A hash of everything said, and to whom.
    pub(super) said: DefaultHasher,
    /// The last thing said.
    pub(super) last: Option<Answer>,
    /// Prints what happens.
    pub(super) loud: bool,
    asked: u32,
}

impl Simulation {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            engine: Engine::in_memory(seed),
            oracle: Oracle::new(&QUEUES),
            now: Now::default(),
            said: DefaultHasher::new(),
            last: None,
            loud: false,
            asked: 0,
        }
    }

    /// Takes a step.
    ///
    /// # Panics
    /// If the engine does not do what the oracle says.
    pub(super) fn step(&mut self, step: &Step) {
        if let Step::Time(now) = *step {
            assert!(self.now.mono <= now.mono, "time runs back");
            (self.now, self.oracle.now) = (now, now);
        } else {
            let watches = matches!(step, Step::Submit(_, Request::Indexed(_)));
            let watches = (watches || self.oracle.is_indexing()) && self.oracle.has_over();
            // What is due ends when a changed constraint begins a pass of its own: more changes of
            // one pass might not come to all jobs in it.
            if watches || step.changes_constraints() {
                self.carry_out(&Step::Expire);
            }
            self.carry_out(step);
        }
        self.compare_sizes();
    }

    fn carry_out(&mut self, step: &Step) {
        if self.loud {
            println!("{:>16} {step:?}", self.now.mono.0);
        }
        let failing = match *step {
            Step::Submit(
                _,
                Request::Fail { id, .. }
                | Request::Work(WorkerRequest::Report { id, failure: Some(_), .. }),
            ) => Some(id.0),
            _ => None,
        };
        let by_chance = self.oracle.up_to_chance(failing);
        let either_way = self.oracle.told_either_way();
        let may_tell_early = self.oracle.may_tell_early();
        let mut said = self.ask_engine(step);
        self.oracle.learned.clear();
        let before = said.len();
        for id in by_chance {
            said.append(&mut self.learn(id));
        }
        let more = said.len() > before;
        let mut expected = self.expected(step, &said);
        let constrained = !self.oracle.constraints.is_empty() || step.changes_constraints();
        if constrained {
            self.oracle.note_held_back();
        }
        for ticket in &either_way {
            let gone = said.iter_mut().find(|told| **told == (*ticket, Answer::Gone));
            if let Some((_, said)) = gone
                && expected.contains(&(*ticket, Answer::NotYet))
            {
                *said = Answer::NotYet;
            }
        }
        let more = more || may_tell_early;
        if constrained
            || more
            || matches!(step, Step::Submit(_, Request::Indexed(IndexedRequest::DropQueue(_))))
        {
            // The order in which jobs of a queue are deleted is left open, and some are gone only
            // when they are looked at.
            said.sort_by_key(|(ticket, _)| *ticket);
            expected.sort_by_key(|(ticket, _)| *ticket);
        }
        if said != expected {
            let same = said.iter().zip(&expected).take_while(|(said, wanted)| said == wanted);
            let same = same.count();
            panic!(
                "after {step:?} at {:?}, behind {same} replies that are right, the engine said{}\n\
                 instead of{}",
                self.now.mono,
                list(&said[same..]),
                list(&expected[same..])
            );
        }
        if self.loud && !said.is_empty() {
            println!("{}", list(&said).trim_start_matches('\n'));
        }
        for (ticket, said) in said {
            ticket.hash(&mut self.said);
            format!("{said:?}").hash(&mut self.said);
            self.last = Some(said);
        }
    }

    /// What should be said. Where the engine may choose, any choice will do; if none explains what
    /// it said, here is what follows from noticing nothing.
    fn expected(&mut self, step: &Step, said: &Replies) -> Replies {
        let before = self.oracle.may_choose().then(|| self.oracle.clone());
        let first = self.ask_oracle(step);
        let Some(before) = before else { return first };
        let mut expected = first.clone();
        loop {
            let choices = std::mem::take(&mut self.oracle.choices);
            if expected == *said {
                return expected;
            }
            // The next choices: as a binary number counts, the last digit first.
            let next = choices.iter().rposition(|notices| !notices);
            let Some(last) = next else { return first };
            self.oracle = before.clone();
            self.oracle.choices = [&choices[..last], &[true]].concat();
            expected = self.ask_oracle(step);
        }
    }

    fn ask_oracle(&mut self, step: &Step) -> Replies {
        let oracle = &mut self.oracle;
        oracle.chosen = 0;
        if !matches!(step, Step::Expire) {
            oracle.doubt();
        }
        match *step {
            Step::Time(_) => Replies::new(),
            Step::Submit(ticket, ref ask) => oracle.submit(|it| ask.perform(it, ticket)),
            Step::Cancel(ticket) => oracle.run(|it| it.cancel(ticket)),
            Step::Forget(client) => oracle.run(|it| it.forget(client)),
            Step::Expire => oracle.run(Oracle::expire),
        }
    }

    fn ask_engine(&mut self, step: &Step) -> Replies {
        let now = self.now;
        match step {
            Step::Time(_) => {}
            Step::Submit(ticket, ask) => {
                ask.with_command(|command| self.engine.submit(*ticket, command, now));
            }
            Step::Cancel(ticket) => self.engine.cancel(*ticket, now),
            Step::Forget(client) => self.engine.disconnect_client(*client, now),
            Step::Expire => return self.expire(),
        }
        self.completions()
    }

    fn completions(&mut self) -> Replies {
        let mut said = Vec::new();
        while let Some(completion) = self.engine.poll_completion() {
            said.push((completion.ticket, Answer::of(&completion.reply)));
        }
        said
    }

    /// Calls the engine until nothing is due.
    fn expire(&mut self) -> Replies {
        let mut said = Vec::new();
        for _ in 0..BATCHES {
            self.engine.expire(self.now);
            said.append(&mut self.completions());
            if self.engine.poll_timeout().is_none_or(|at| at > self.now.mono) {
                return said;
            }
        }
        panic!("something is still due after {BATCHES} batches");
    }

    /// Looks at a job whose backoff was up to chance; what others are told by that is returned.
    fn learn(&mut self, id: u64) -> Replies {
        self.asked += 1;
        let ticket = Ticket { client: ORACLE, serial: self.asked };
        let mut more = self.ask_engine(&Step::Submit(ticket, Request::Peek(JobId(id))));
        // If the job is expired, the peek removes it, and what that lets others have comes first.
        let own = more.iter().position(|&(answered, _)| answered == ticket);
        let (_, said) = more.remove(own.expect("a peek is answered at once"));
        let end = match said {
            Answer::Seen { status: Status::Delayed, due, .. } => due,
            _ => None,
        };
        self.oracle.learned.insert(id, end);
        more
    }

    /// Both must have the same jobs, waiters and deadlines, as far as can be told.
    fn compare_sizes(&self) {
        let counts = self.engine.counts();
        let (least, most) = self.oracle.count();
        assert!(
            (least..=most).contains(&counts.jobs),
            "the engine has {} jobs instead of {least} to {most}",
            counts.jobs
        );
        assert_eq!(counts.waiters, self.oracle.waiters.len(), "waiters");
        assert_eq!(counts.watchers, self.oracle.watchers.len(), "job watchers");
        assert_eq!(counts.workers, self.oracle.workers.len(), "workers");
        let (earliest, latest) = self.oracle.timeout();
        let never = |at: Option<Mono>| at.map_or((true, Mono(0)), |at| (false, at));
        let timeout = self.engine.poll_timeout();
        assert!(
            never(earliest) <= never(timeout) && never(timeout) <= never(latest),
            "the engine wants to be called at {timeout:?}: expected {earliest:?} to {latest:?}"
        );
    }
}
