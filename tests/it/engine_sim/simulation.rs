//! The engine beside its oracle: both execute every step, and their replies must be equal.

use super::indexed_requests::{IndexedRequest, query};
use super::manage_requests::ManageRequest;
use super::requests::{QUEUES, Request};
use super::run_requests::RunRequest;
use super::worker_requests::WorkerRequest;
use crate::oracle::Oracle;
use crate::oracle::types::{Answer, Details, Queue, Replies};
use crate::query::ImmediateExecutor;
use jobcentre::base::slab::SlabKey;
use jobcentre::base::time::{Mono, Now};
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::action::ActionState;
use jobcentre::model::command::Command;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::Status;
use jobcentre::model::manage::{JobCursor, JobState, ManageCommand, ManageReply};
use jobcentre::model::reply::Reply;
use std::hash::{DefaultHasher, Hash};
use std::time::Duration;

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
    /// Whether it changes many jobs at once, in an order that is left open.
    fn is_action(&self) -> bool {
        matches!(self, Self::Submit(_, Request::Manage(request)) if request.is_action())
    }

    /// Whether it puts jobs that others may wait for.
    fn is_native_put(&self) -> bool {
        matches!(self, Self::Submit(_, Request::Run(request)) if request.puts() > 0)
    }

    fn acts_by_query(&self) -> bool {
        matches!(self, Self::Submit(_, Request::Manage(request)) if request.acts_by_query())
    }

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

/// Takes out what is left open: whether waits in `either_way` end before what they wait for, and
/// with `any_order` which reply comes first.
fn settle(said: &mut Replies, expected: &mut Replies, either_way: &[Ticket], any_order: bool) {
    for ticket in either_way {
        let gone = said.iter_mut().find(|told| **told == (*ticket, Answer::Gone));
        if let Some((_, said)) = gone
            && expected.contains(&(*ticket, Answer::NotYet))
        {
            *said = Answer::NotYet;
        }
    }
    if any_order {
        said.sort_by_key(|(ticket, _)| *ticket);
        expected.sort_by_key(|(ticket, _)| *ticket);
    }
}

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
    pub(super) verbose: bool,
    asked: u32,
}

impl Simulation {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            engine: Engine::in_memory(seed)
                .with_queries(Box::new(ImmediateExecutor::new()), Duration::from_secs(5)),
            oracle: Oracle::new(&QUEUES),
            now: Now::default(),
            said: DefaultHasher::new(),
            last: None,
            verbose: false,
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
            let watches = matches!(
                step,
                Step::Submit(
                    _,
                    Request::Indexed(_)
                        | Request::Manage(_)
                        | Request::Run(_)
                        | Request::Consumer(_)
                )
            );
            // So does what others wait for.
            let watches = watches || self.oracle.has_dependents();
            let watches = (watches || self.oracle.is_indexing()) && self.oracle.has_over();
            // What is due ends when a changed constraint begins a pass of its own: more changes of
            // one pass might not come to all jobs in it.
            // An action over what a query finds goes on in later passes, which end what is due.
            if watches || step.changes_constraints() || step.acts_by_query() {
                self.carry_out(&Step::Expire);
            }
            self.carry_out(step);
        }
        self.compare_sizes();
    }

    fn carry_out(&mut self, step: &Step) {
        if self.shows_what_is_left_open(step) {
            return;
        }
        if self.verbose {
            println!("{:>16} {step:?}", self.now.mono.0);
        }
        let by_chance = self.up_to_chance(step);
        let either_way = self.oracle.may_reply_either_way();
        let may_notify_early = self.oracle.may_notify_early();
        let has_dependents = self.oracle.has_dependents();
        let mut said = self.ask_engine(step);
        self.oracle.learned.clear();
        let before = said.len();
        for id in by_chance {
            said.append(&mut self.learn(id));
        }
        let more = said.len() > before || may_notify_early;
        // The order in which jobs of a queue are deleted is left open, and some are gone only when
        // they are looked at: what waited for them goes on before or after the answer to that.
        let any_order = more
            || has_dependents
            || step.is_action()
            || step.changes_constraints()
            || !self.oracle.constraints.is_empty()
            || matches!(step, Step::Submit(_, Request::Indexed(IndexedRequest::DropQueue(_))));
        let mut expected = self.expected(step, |expected| {
            let (mut said, mut expected) = (said.clone(), expected.clone());
            settle(&mut said, &mut expected, &either_way, any_order);
            said == expected
        });
        if !self.oracle.constraints.is_empty() || step.changes_constraints() {
            self.oracle.note_held_back();
        }
        settle(&mut said, &mut expected, &either_way, any_order);
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
        if self.verbose && !said.is_empty() {
            println!("{}", list(&said).trim_start_matches('\n'));
        }
        for (ticket, said) in said {
            ticket.hash(&mut self.said);
            format!("{said:?}").hash(&mut self.said);
            self.last = Some(said);
        }
    }

    /// Whether the answer would show what the engine may do one way or the other.
    fn shows_what_is_left_open(&self, step: &Step) -> bool {
        match step {
            // Which ready jobs are blocked is the engine's own affair.
            Step::Submit(_, Request::Run(request)) => {
                request.shows_ready() && !self.oracle.constraints.is_empty()
            }
            Step::Submit(_, Request::Manage(request)) => request.order_shows(&self.oracle),
            Step::Submit(_, Request::Consumer(request)) => request.shows_blocked(&self.oracle),
            step if step.changes_constraints() => self.oracle.pops_may_pass_large_jobs(),
            _ => false,
        }
    }

    /// The jobs whose backoff a step leaves to chance.
    fn up_to_chance(&self, step: &Step) -> Vec<u64> {
        let failing = match *step {
            Step::Submit(_, Request::Run(ref request)) => request.failing().map(|id| id.0),
            Step::Submit(
                _,
                Request::Fail { id, .. }
                | Request::Work(WorkerRequest::Report { id, failure: Some(_), .. }),
            ) => Some(id.0),
            _ => None,
        };
        let mut by_chance = self.oracle.up_to_chance(failing);
        if matches!(step, Step::Submit(_, Request::Run(_) | Request::Consumer(_))) {
            // A job that has failed, or was released with a delay, beyond its time to live is
            // shown, and gone in the next pass: a look would remove it now.
            by_chance.retain(|&id| !self.oracle.is_past_its_time(id));
        }
        by_chance
    }

    /// What should be said. Where the engine may choose, any choice will do; if none explains what
    /// it said, here is what follows from noticing nothing.
    fn expected(&mut self, step: &Step, explains: impl Fn(&Replies) -> bool) -> Replies {
        let before = self.oracle.may_choose().then(|| self.oracle.clone());
        let first = self.ask_oracle(step);
        let Some(before) = before else { return first };
        let mut expected = first.clone();
        loop {
            let choices = std::mem::take(&mut self.oracle.choices);
            if explains(&expected) {
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
                if step.is_action() || step.is_native_put() {
                    // It ends in the command, and leaves steps for what comes in the same pass;
                    // so does what a job releases that ends later.
                    self.engine.set_spread_steps(1 << 30);
                }
                let engine = &mut self.engine;
                ask.with_command(&self.oracle, |command| engine.submit(*ticket, command, now));
                if step.changes_constraints() {
                    return self.settle_constraints(*ticket);
                }
                if let Request::Manage(request) = ask
                    && request.acts_by_query()
                {
                    return self.act_by_query(*ticket);
                }
                if let Request::Manage(ManageRequest::Search { queue, state, limit }) = *ask {
                    return self.search(*ticket, queue, state, limit);
                }
                if let Request::Run(RunRequest::Export(queue, state)) = *ask {
                    return self.export(*ticket, queue, state);
                }
                if let Request::Run(RunRequest::List(queue, state, limit)) = *ask {
                    return self.list(*ticket, queue, state, limit);
                }
            }
            Step::Cancel(ticket) => self.engine.cancel(*ticket, now),
            Step::Forget(client) => self.engine.disconnect_client(*client, now),
            Step::Expire => return self.expire(),
        }
        self.completions()
    }

    /// Passes until a change of constraints is answered: it is when it is in force for all jobs,
    /// and large ones take several.
    fn settle_constraints(&mut self, ticket: Ticket) -> Replies {
        let mut said = self.completions();
        for _ in 0..BATCHES {
            if said.iter().any(|&(answered, _)| answered == ticket) {
                break;
            }
            self.engine.expire(self.now);
            said.append(&mut self.completions());
        }
        said
    }

    /// An action over what a query finds: it is answered when that has had a turn, and goes on.
    fn act_by_query(&mut self, ticket: Ticket) -> Replies {
        let (mut said, mut begun) = (Replies::new(), None);
        for _ in 0..BATCHES {
            while let Some(completion) = self.engine.poll_completion() {
                if let Reply::Manage(ManageReply::Action(action)) = &completion.reply {
                    begun = Some(action.id);
                } else {
                    said.push((completion.ticket, Answer::of(&completion.reply)));
                }
            }
            if begun.is_some() || said.iter().any(|&(answered, _)| answered == ticket) {
                break;
            }
            self.engine.commit(self.now);
        }
        let Some(id) = begun else { return said };
        for _ in 0..BATCHES {
            self.engine.commit(self.now);
            said.append(&mut self.completions());
            self.engine.expire(self.now);
            said.append(&mut self.completions());
            self.asked += 1;
            let asked = Ticket { client: ORACLE, serial: self.asked };
            let show = Command::Manage(ManageCommand::ShowAction { id });
            self.engine.submit(asked, &show, self.now);
            let completion = self.engine.poll_completion().expect("it is shown at once");
            match &completion.reply {
                Reply::Manage(ManageReply::Action(action))
                    if action.state == ActionState::Running => {}
                reply => {
                    said.push((ticket, Answer::of(reply)));
                    return said;
                }
            }
        }
        panic!("an action has no end");
    }

    /// All pages of a list, the first of which was asked for.
    fn list(
        &mut self,
        ticket: Ticket,
        queue: Queue,
        state: Option<JobState>,
        limit: usize,
    ) -> Replies {
        let mut all = Vec::new();
        loop {
            let completion = self.engine.poll_completion().expect("a list is answered at once");
            let Reply::Manage(ManageReply::JobPage(page)) = &completion.reply else {
                return vec![(ticket, Answer::of(&completion.reply))];
            };
            assert!(page.jobs.len() <= limit, "a page is too long");
            all.extend(page.jobs.iter().map(Details::of));
            let Some(from) = page.next.clone() else {
                return vec![(ticket, Answer::JobList(all))];
            };
            drop(completion);
            let queue = QUEUES[queue];
            let page = ManageCommand::Jobs { queue, state, from: &from, limit };
            self.engine.submit(ticket, &Command::Manage(page), self.now);
        }
    }

    /// All parts of an export, the first of which was asked for.
    fn export(&mut self, ticket: Ticket, queue: Option<Queue>, state: Option<JobState>) -> Replies {
        let mut all = Vec::new();
        loop {
            let completion = self.engine.poll_completion().expect("a part is answered at once");
            let Reply::Manage(ManageReply::Exported(page)) = &completion.reply else {
                return vec![(ticket, Answer::of(&completion.reply))];
            };
            all.extend(page.jobs.iter().map(Details::of));
            let Some(from) = page.next else { return vec![(ticket, Answer::JobList(all))] };
            drop(completion);
            let queue = queue.map(|queue| QUEUES[queue]);
            let part = ManageCommand::Export { queue, state, from };
            self.engine.submit(ticket, &Command::Manage(part), self.now);
        }
    }

    /// All pages of a search, the first of which was asked for.
    fn search(
        &mut self,
        ticket: Ticket,
        queue: Queue,
        state: Option<usize>,
        limit: usize,
    ) -> Replies {
        let (mut all, query) = (Vec::new(), query(state));
        loop {
            let completion = self.engine.poll_completion().expect("few rows are found at once");
            let Reply::Manage(ManageReply::JobPage(page)) = &completion.reply else {
                return vec![(ticket, Answer::of(&completion.reply))];
            };
            assert!(page.jobs.len() <= limit, "a page is too long");
            all.extend(page.jobs.iter().map(Details::of));
            let Some(JobCursor::ById(last, None)) = page.next else {
                return vec![(ticket, Answer::JobList(all))];
            };
            drop(completion);
            let (queue, query, behind) = (QUEUES[queue], &query, JobId(last));
            let page = ManageCommand::Search { queue, query, behind, limit };
            self.engine.submit(ticket, &Command::Manage(page), self.now);
        }
    }

    fn completions(&mut self) -> Replies {
        let mut said = Vec::new();
        while let Some(completion) = self.engine.poll_completion() {
            if let Reply::Manage(ManageReply::Jobs(jobs)) = &completion.reply {
                for job in jobs {
                    let token = job.lease.as_ref().and_then(|lease| lease.token);
                    self.oracle.tokens.entry(job.id.0).or_default().extend(token);
                }
            }
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
