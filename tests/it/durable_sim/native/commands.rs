//! How commands of the native API are drawn.

use super::{Asked, CLIENT, Expected, LONG_MS, NativeModel, Owner, QUEUES};
use crate::durable_sim::Simulation;
use crate::rng::TestRng;
use crate::seeds;
use jobcentre::base::strings::StringList;
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::action::{ActionFilter, ActionSpec, ActionVerb, JobChange};
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::external_id::Fraction;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{Encoding, JobOptions, LeaseToken, OwnedPriority, Retry};
use jobcentre::model::manage::{
    ErrorDetails, JobState, LeaseTerms, ManageCommand, NewJob, NewKey, OnDuplicate, ReserveTerms,
    RunReport,
};
use jobcentre::model::transfer::{ImportedJob, ImportedStage};

const KEYS: [&[u8]; 3] = [b"k", b"\xff\0", b"a longer key"];

/// With more jobs one is removed.
const JOBS_MAX: usize = 10;

fn long_or_none(rng: &mut TestRng) -> u64 {
    if rng.percent(40) { LONG_MS } else { 0 }
}

fn a_job(rng: &mut TestRng) -> NewJob {
    let retry =
        Retry { limit: 9, first_ms: LONG_MS, factor: 2, max_ms: LONG_MS, jitter_percent: 0 };
    let filler = "x".repeat(*rng.pick(&[0, 10, 700]));
    let on_duplicate = *rng.pick(&[OnDuplicate::Keep, OnDuplicate::Replace, OnDuplicate::Reject]);
    let key = NewKey { bytes: (*rng.pick(&KEYS)).into(), ttl_ms: long_or_none(rng), on_duplicate };
    NewJob {
        priority: OwnedPriority::Number(*rng.pick(&[-2, -1, 0, 1, 2])),
        encoding: Encoding::Json,
        payload: format!("[{},\"{filler}\"]", rng.below(1_000)).into_bytes().into(),
        options: JobOptions {
            delay_ms: if rng.percent(20) { LONG_MS } else { 0 },
            lease_ms: LONG_MS,
            retry: Some(retry),
            result_retention_ms: long_or_none(rng),
            max_attempts: 10,
            ..JobOptions::default()
        },
        key: rng.percent(60).then(|| Box::new(key)),
        dependencies: None,
    }
}

fn an_import(rng: &mut TestRng) -> ImportedJob {
    let result = rng.percent(50).then(|| (Encoding::Json, b"7"[..].into()));
    let stage = match rng.below(4) {
        0 | 1 => ImportedStage::Waiting,
        2 => ImportedStage::Buried(None),
        _ => ImportedStage::Completed { result, kept_ms: LONG_MS },
    };
    let (error, message) = ("E".into(), "it broke".into());
    ImportedJob {
        id: None,
        queue: (*rng.pick(&QUEUES)).into(),
        job: a_job(rng),
        after_here: Box::default(),
        waits: false,
        created_at: None,
        stage,
        attempts: u32::try_from(rng.below(4)).unwrap(),
        retries: 0,
        last_error: rng.percent(30).then_some(ErrorDetails { error, message, at: None }),
    }
}

fn a_report(rng: &mut TestRng) -> RunReport {
    match rng.below(12) {
        0..5 => {
            let result = rng.percent(70).then(|| (Encoding::Json, b"{\"r\":1}"[..].into()));
            RunReport::Complete { result }
        }
        5..7 => RunReport::Fail {
            error: "E".into(),
            message: "it broke".into(),
            retry: rng.percent(70),
            delay_ms: *rng.pick(&[None, Some(0), Some(LONG_MS)]),
        },
        7 | 8 => RunReport::Release {
            priority: rng.percent(50).then_some(OwnedPriority::Number(7)),
            delay_ms: long_or_none(rng),
        },
        9 => RunReport::Touch { ttr_ms: rng.percent(50).then_some(2 * LONG_MS) },
        _ => RunReport::Progress {
            progress: rng.percent(70).then(|| Fraction::new(0.25)).flatten(),
            message: rng.percent(50).then(|| "so far".into()),
        },
    }
}

/// A command is drawn, and what its answer must be. In queues of its own, under clients of its own.
impl Simulation {
    pub(in crate::durable_sim) fn use_native_api(&mut self, engine: &mut Engine) {
        self.serial += 1;
        let index = CLIENT + u32::try_from(self.rng.below(3)).unwrap();
        let client = ClientId { index, generation: self.generation };
        let ticket = Ticket { client, serial: self.serial };
        if self.oracle.native.present().len() >= JOBS_MAX {
            // All of them are looked at after each command.
            let first = self.oracle.native.present().first_key_value().map_or(0, |(&id, _)| id);
            let remove = ManageCommand::Remove { id: JobId(first) };
            self.ask_native(engine, ticket, Expected::Any, &remove);
            return self.take_completions(engine);
        }
        match self.rng.below(20) {
            0..6 => self.put_native(engine, ticket),
            6 => self.put_several(engine, ticket),
            7..10 => self.reserve_native(engine, ticket),
            10..15 => self.report_native(engine, ticket),
            15..17 => self.act_native(engine, ticket),
            _ => self.change_native(engine, ticket),
        }
        self.take_completions(engine);
    }

    fn ask_native(
        &mut self,
        engine: &mut Engine,
        ticket: Ticket,
        expected: Expected,
        command: &ManageCommand<'_>,
    ) -> bool {
        let model = &mut self.oracle.native;
        model.note_actions(engine);
        seeds::say(|| format!("{} > {command:?}", ticket.serial));
        let asked = Asked { expected, rests_on: model.certain };
        model.asked.insert(ticket, asked);
        engine.submit(ticket, &Command::Manage(*command), self.now);
        let changed = model.note(engine);
        if changed {
            let last = model.last();
            model.rest_on(ticket, last);
        }
        changed
    }

    fn put_native(&mut self, engine: &mut Engine, ticket: Ticket) {
        let (queue, job) = (*self.rng.pick(&QUEUES), a_job(&mut self.rng));
        let place = job.key.as_ref().map(|key| (queue.to_vec(), key.bytes.to_vec()));
        self.oracle.native.note_actions(engine);
        let owner = place.map_or(Owner::None, |key| self.oracle.native.owner(&key));
        let on_duplicate = job.key.as_ref().map(|key| key.on_duplicate).unwrap_or_default();
        let expected = Expected::Put(owner, on_duplicate);
        let put = ManageCommand::Put { queue, job: &job };
        let changed = self.ask_native(engine, ticket, expected, &put);
        let model = &mut self.oracle.native;
        if let Owner::Job(id) = owner
            && !changed
        {
            let place = model.last_change(id);
            model.rest_on(ticket, place);
        }
    }

    /// Several puts, or an import.
    fn put_several(&mut self, engine: &mut Engine, ticket: Ticket) {
        let count = self.rng.between(1, 4);
        if self.rng.percent(50) {
            let jobs: Vec<_> = (0..count).map(|_| an_import(&mut self.rng)).collect();
            let import = ManageCommand::Import(&jobs);
            let changed = self.ask_native(engine, ticket, Expected::Any, &import);
            self.oracle.native.seen.imported += u64::from(changed);
        } else {
            let queue = *self.rng.pick(&QUEUES);
            let jobs: Vec<_> = (0..count).map(|_| a_job(&mut self.rng)).collect();
            let put = ManageCommand::PutMany { queue, jobs: &jobs };
            self.ask_native(engine, ticket, Expected::Any, &put);
        }
    }

    fn reserve_native(&mut self, engine: &mut Engine, ticket: Ticket) {
        let mut names = StringList::default();
        let count = self.rng.between(1, 2);
        for queue in &QUEUES[..count] {
            names.push(queue);
        }
        let lease = LeaseTerms { ttr_ms: None, worker: "w".into() };
        let limit = self.rng.between(1, 3);
        let terms = &ReserveTerms { limit, wait: Wait::No, lease: Some(lease) };
        let reserve = ManageCommand::ReserveMore { first: None, queues: names.from(0), terms };
        self.ask_native(engine, ticket, Expected::Any, &reserve);
    }

    /// A report of a run: of one that goes on, of one that was completed, or of none.
    fn report_native(&mut self, engine: &mut Engine, ticket: Ticket) {
        let report = a_report(&mut self.rng);
        let (rng, model) = (&mut self.rng, &self.oracle.native);
        let under_tokens = model.present().iter();
        let under_tokens: Vec<(u64, LeaseToken)> =
            under_tokens.filter_map(|(&id, entry)| Some((id, entry.token?))).collect();
        if !model.completed.is_empty() && rng.percent(30) {
            let (place, id, token) = *rng.pick(&model.completed);
            let in_another_life = place <= model.born;
            let report = &RunReport::Complete { result: None };
            let again = ManageCommand::Report { id, token: Some(token), report };
            self.ask_native(engine, ticket, Expected::Again, &again);
            self.oracle.native.rest_on(ticket, place);
            self.oracle.native.seen.completed_in_another_life += u64::from(in_another_life);
            return;
        }
        let known = (!under_tokens.is_empty() && rng.percent(90)).then(|| *rng.pick(&under_tokens));
        let Some((id, token)) = known else {
            let (id, token) = (JobId(1 + rng.below(30) as u64), Some(LeaseToken(7)));
            let wrong = ManageCommand::Report { id, token, report: &report };
            self.ask_native(engine, ticket, Expected::Stale, &wrong);
            return;
        };
        let before = model.present()[&id].clone();
        let expected = Expected::Valid(report.clone());
        let command = ManageCommand::Report { id: JobId(id), token: Some(token), report: &report };
        let changed = self.ask_native(engine, ticket, expected, &command);
        if changed && matches!(report, RunReport::Complete { .. }) {
            let model = &mut self.oracle.native;
            let place = model.last();
            model.completed.push((place, JobId(id), token));
            if let Some((key, ttl_ms)) = before.key.clone()
                && ttl_ms > 0
            {
                model.uncertain_keys.remove(&key);
                model.past_keys.push((place, key, id));
            }
        }
    }

    fn act_native(&mut self, engine: &mut Engine, ticket: Ticket) {
        let at_once = self.rng.percent(50);
        if at_once {
            engine.set_spread_steps(1 << 30);
        }
        let states = [JobState::Ready, JobState::Scheduled, JobState::Buried, JobState::Completed];
        let filter = if self.rng.percent(50) {
            let count = self.rng.between(1, 2);
            ActionFilter::States((0..count).map(|_| *self.rng.pick(&states)).collect())
        } else {
            let ids = (0..self.rng.below(4)).map(|_| self.native_id()).collect();
            ActionFilter::Ids(ids)
        };
        let priority = Some(OwnedPriority::Number(1));
        let verb = match self.rng.below(5) {
            0 => ActionVerb::Delete,
            1 => ActionVerb::Kick,
            2 => ActionVerb::Bury,
            3 => ActionVerb::Move { to: (*self.rng.pick(&QUEUES)).into() },
            _ => ActionVerb::Change(JobChange { priority, ..JobChange::default() }),
        };
        let limit = self.rng.percent(20).then_some(2);
        let (queue, dry_run) = ((*self.rng.pick(&QUEUES)).into(), self.rng.percent(10));
        let wait = self.rng.percent(50);
        let spec = ActionSpec { queue, filter, verb, limit, dry_run, wait };
        self.oracle.native.actions += 1;
        let changed = self.ask_native(engine, ticket, Expected::Any, &ManageCommand::Act(&spec));
        self.oracle.native.seen.actions += u64::from(changed);
    }

    /// Some id, mostly of a job that is there.
    fn native_id(&mut self) -> JobId {
        let ids: Vec<u64> = self.oracle.native.present().keys().copied().collect();
        if ids.is_empty() || self.rng.percent(10) {
            return JobId(1 + self.rng.below(60) as u64);
        }
        JobId(*self.rng.pick(&ids))
    }

    /// A change of a single job, or a look at it.
    fn change_native(&mut self, engine: &mut Engine, ticket: Ticket) {
        self.oracle.native.note_actions(engine);
        let ids: Vec<u64> = self.oracle.native.present().keys().copied().collect();
        // Others may be jobs of other queues.
        if ids.is_empty() {
            return;
        }
        let rng = &mut self.rng;
        let id = JobId(*rng.pick(&ids));
        let change = JobChange {
            payload: rng.percent(30).then(|| (Encoding::Json, b"\"other\""[..].into())),
            priority: rng.percent(50).then_some(OwnedPriority::Number(3)),
            delay_ms: rng.percent(30).then(|| *rng.pick(&[0, LONG_MS])),
            queue: rng.percent(40).then(|| (*rng.pick(&QUEUES)).into()),
            max_attempts: rng.percent(20).then_some(5),
            ..JobChange::default()
        };
        let command = match rng.below(8) {
            0 => ManageCommand::Bury { id },
            1 => ManageCommand::Kick { id },
            2 => ManageCommand::Remove { id },
            3 => ManageCommand::Cancel { id },
            4..7 => ManageCommand::Change { id, change: &change },
            _ => ManageCommand::Show { id },
        };
        let changed = self.ask_native(engine, ticket, Expected::Any, &command);
        if !changed && let ManageCommand::Show { .. } = command {
            let model = &mut self.oracle.native;
            let place = model.last_change(id.0);
            model.rest_on(ticket, place);
        }
    }
}

impl NativeModel {
    /// The answer to a command that is under way tells what is in this state.
    fn rest_on(&mut self, ticket: Ticket, place: usize) {
        if let Some(asked) = self.asked.get_mut(&ticket) {
            asked.rests_on = asked.rests_on.max(place);
        }
    }
}
