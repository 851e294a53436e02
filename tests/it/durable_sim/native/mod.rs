//! Jobs of the native API in queues of their own: leases under tokens, unique keys, imports and
//! actions over many jobs.
//!
//! After each command the records of these jobs are noted as the store has them, durable or not. A
//! crash must leave what was there after one of the commands, with everything that was answered: no
//! change by half, none without those before it. That a completion is known, and that a key is
//! taken, is asked for.

mod commands;

use crate::seeds;
use jobcentre::engine::Engine;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{LeaseToken, Payload};
use jobcentre::model::manage::{ManageReply, OnDuplicate, RunReport};
use jobcentre::model::reply::{Rejection, Reply};
use jobcentre::model::snapshot::{PersistedStatus, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The queues of the native API.
pub(super) const QUEUES: [&[u8]; 2] = [b"m", b"n"];

/// Its first client; there are three.
pub(super) const CLIENT: u32 = 50;

/// Whether this is one of them.
pub(super) fn is_client(client: ClientId) -> bool {
    (CLIENT..CLIENT + 3).contains(&client.index)
}

/// A delay, lease or retention that outlives every run.
const LONG_MS: u64 = 100_000_000;

/// A key of a queue.
type Key = (Vec<u8>, Vec<u8>);

/// A job as its record has it.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    text: String,
    token: Option<LeaseToken>,
    is_completed: bool,
    key: Option<(Key, u64)>,
}

impl Entry {
    fn of(job: &Snapshot<'_>) -> Self {
        let token = match job.state.stage {
            PersistedStatus::Leased { token, .. } => Some(token),
            _ => None,
        };
        let key = job.key.map(|(bytes, ttl_ms)| ((job.queue.to_vec(), bytes.to_vec()), ttl_ms));
        let is_completed = matches!(job.state.stage, PersistedStatus::Completed(_));
        let payload = String::from_utf8_lossy(job.payload.bytes);
        let payload = format!("{:?} {payload}", job.payload.encoding);
        let mut rest = Snapshot { payload: Payload { bytes: b"", ..job.payload }, ..job.clone() };
        if let Some(options) = &mut rest.options {
            // A record has the moment instead.
            options.delay_ms = 0;
        }
        Self { text: format!("{rest:?} {payload}"), token, is_completed, key }
    }
}

/// All jobs of these queues.
type Jobs = BTreeMap<u64, Rc<Entry>>;

/// Who has a key, or had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Job(u64),
    None,
    NotCertain,
}

/// What an answer must be.
#[derive(Clone, Debug)]
enum Expected {
    /// To a put whose key is this job's.
    Put(Owner, OnDuplicate),
    /// To a report, of the lease that the job has.
    Valid(RunReport),
    /// To one that completes a job, and has done so before.
    Again,
    /// To a report of another lease.
    Stale,
    /// To something else.
    Any,
}

/// A command under way.
#[derive(Debug)]
struct Asked {
    expected: Expected,
    /// The place of the state in which everything is that the answer tells.
    rests_on: usize,
}

/// What the store had after each command.
#[derive(Debug)]
pub(super) struct NativeModel {
    /// The last one is the present one.
    states: Vec<Jobs>,
    /// The place of the last state that an answer has told.
    certain: usize,
    /// In which state a job was completed under a token.
    completed: Vec<(usize, JobId, LeaseToken)>,
    /// In which state a key became one that stays taken.
    past_keys: Vec<(usize, Key, u64)>,
    /// Keys of which this is not certain.
    uncertain_keys: BTreeSet<Key>,
    asked: BTreeMap<Ticket, Asked>,
    /// Actions that may go on over passes.
    actions: u32,
    /// The place of the state with which this life began.
    born: usize,
    pub(super) seen: NativeSeen,
}

/// How often something was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NativeSeen {
    pub(super) leases_kept: u64,
    pub(super) reported: u64,
    pub(super) completed_again: u64,
    pub(super) completed_in_another_life: u64,
    pub(super) keys_taken: u64,
    pub(super) past_keys_taken: u64,
    pub(super) lost: u64,
    pub(super) kept: u64,
    pub(super) imported: u64,
    pub(super) actions: u64,
}

impl NativeSeen {
    pub(super) fn counts(&mut self) -> [&mut u64; 10] {
        [
            &mut self.leases_kept,
            &mut self.reported,
            &mut self.completed_again,
            &mut self.completed_in_another_life,
            &mut self.keys_taken,
            &mut self.past_keys_taken,
            &mut self.lost,
            &mut self.kept,
            &mut self.imported,
            &mut self.actions,
        ]
    }
}

impl Default for NativeModel {
    fn default() -> Self {
        Self {
            states: vec![Jobs::new()],
            certain: 0,
            completed: Vec::new(),
            past_keys: Vec::new(),
            uncertain_keys: BTreeSet::new(),
            asked: BTreeMap::new(),
            actions: 0,
            born: 0,
            seen: NativeSeen::default(),
        }
    }
}

fn jobs_of(engine: &Engine) -> Jobs {
    let all = engine.snapshots().filter(|job| QUEUES.contains(&job.queue));
    all.map(|job| (job.id.0, Rc::new(Entry::of(&job)))).collect()
}

/// The jobs in which two states differ, and how.
fn differences(before: &Jobs, after: &Jobs) -> Vec<String> {
    let ids: BTreeSet<u64> = before.keys().chain(after.keys()).copied().collect();
    let differs = ids.into_iter().filter(|id| before.get(id) != after.get(id));
    let text = |jobs: &Jobs, id: u64| jobs.get(&id).map_or("none", |job| &job.text).to_owned();
    let show = |id| {
        let (one, two) = (text(before, id), text(after, id));
        let same = one.chars().zip(two.chars()).take_while(|(one, two)| one == two).count();
        let part = |text: &str| text.chars().skip(same.saturating_sub(40)).take(150).collect();
        let [one, two]: [String; 2] = [part(&one), part(&two)];
        format!("{id}: {one} -> {two}")
    };
    differs.map(show).collect()
}

impl NativeModel {
    fn present(&self) -> &Jobs {
        self.states.last().expect("there is always one")
    }

    fn last(&self) -> usize {
        self.states.len() - 1
    }

    /// The id of no job of these queues.
    pub(super) fn unknown_id(&self) -> JobId {
        if self.present().contains_key(&1) { JobId::NEVER } else { JobId(1) }
    }

    /// Notes what is there, if it has changed. Says whether it has.
    fn note(&mut self, engine: &Engine) -> bool {
        let mut jobs = jobs_of(engine);
        let present = self.present();
        if jobs == *present {
            return false;
        }
        for (id, entry) in &mut jobs {
            if let Some(known) = present.get(id).filter(|known| *known == entry) {
                *entry = known.clone();
            }
        }
        self.states.push(jobs);
        true
    }

    /// Notes what actions have done over passes.
    pub(super) fn note_actions(&mut self, engine: &Engine) {
        if self.actions > 0 {
            self.note(engine);
        }
    }

    /// The place of the first state in which a job is as it is now, or gone.
    fn last_change(&self, id: u64) -> usize {
        let now = self.present().get(&id);
        let is_same = |jobs: &&Jobs| match (jobs.get(&id), now) {
            (Some(then), Some(now)) => Rc::ptr_eq(then, now),
            (then, now) => then.is_none() && now.is_none(),
        };
        self.states.len() - self.states.iter().rev().take_while(is_same).count()
    }

    fn owner(&self, key: &Key) -> Owner {
        let has = |(_, entry): &(&u64, &Rc<Entry>)| {
            !entry.is_completed && entry.key.as_ref().is_some_and(|(known, _)| known == key)
        };
        if let Some((id, _)) = self.present().iter().find(has) {
            return Owner::Job(*id);
        }
        let past = self.past_keys.iter().find(|(_, known, _)| known == key);
        match past {
            Some(&(_, _, id)) => Owner::Job(id),
            None if self.uncertain_keys.contains(key) => Owner::NotCertain,
            None => Owner::None,
        }
    }

    /// A client is told something.
    pub(super) fn on_reply(&mut self, ticket: Ticket, reply: &Reply<'_>) {
        let Asked { expected, rests_on } = self.asked.remove(&ticket).expect("it was asked");
        seeds::say(|| format!("{} < {reply:?} rests on {rests_on}", ticket.serial));
        let reply = match reply {
            Reply::Manage(reply) => *reply,
            Reply::Done => &ManageReply::Done,
            Reply::NoJob => return,
            other => panic!("{expected:?} was answered by {other:?}"),
        };
        if *reply == ManageReply::Rejected(Rejection::DiskFull) {
            // It waits for nothing, and tells of no job.
            return;
        }
        self.certain = self.certain.max(rests_on);
        match expected {
            Expected::Put(owner, on_duplicate) => self.on_reply_put(owner, on_duplicate, reply),
            Expected::Valid(report) => {
                let completes = matches!(report, RunReport::Complete { .. });
                let fits = match reply {
                    ManageReply::Done => completes,
                    ManageReply::Job(_) => !completes,
                    _ => false,
                };
                assert!(fits, "{report:?} of a lease was answered by {reply:?}");
                self.seen.reported += 1;
            }
            Expected::Again => {
                assert_eq!(*reply, ManageReply::Done, "a completion once more");
                self.seen.completed_again += 1;
            }
            Expected::Stale => {
                let known = matches!(
                    reply,
                    ManageReply::StaleToken | ManageReply::Missing(_) | ManageReply::Cancelled
                );
                assert!(known, "another lease was answered by {reply:?}");
            }
            Expected::Any => {}
        }
    }

    fn on_reply_put(&mut self, owner: Owner, on_duplicate: OnDuplicate, reply: &ManageReply) {
        let found = match reply {
            ManageReply::Job(_) => None,
            ManageReply::Duplicate(job) => Some(job.id.0),
            ManageReply::Completed(id) | ManageReply::KeyTaken(id) => Some(id.0),
            other => panic!("a put was answered by {other:?}"),
        };
        let rejects = on_duplicate == OnDuplicate::Reject;
        let rejected = matches!(reply, ManageReply::KeyTaken(_));
        assert!(found.is_none() || rejects == rejected, "{on_duplicate:?}: {reply:?}");
        let owner = match owner {
            Owner::Job(id) => Some(id),
            Owner::None => None,
            Owner::NotCertain => return,
        };
        assert_eq!(found, owner, "the owner of a key is another one: {reply:?}");
        self.seen.keys_taken += u64::from(owner.is_some());
        let is_past = owner.is_some_and(|id| self.past_keys.iter().any(|past| past.2 == id));
        self.seen.past_keys_taken += u64::from(is_past);
    }

    /// Compares what came back after a crash with what was there.
    pub(super) fn came_back(&mut self, engine: &Engine) {
        let jobs = jobs_of(engine);
        let fits = |place: &usize| self.states[*place] == jobs;
        let mut places = (self.certain..self.states.len()).filter(fits);
        let Some(first) = places.next() else {
            let differs = self.states[self.certain..].iter().map(|state| differences(state, &jobs));
            panic!("what is there after the crash never was: {:#?}", differs.collect::<Vec<_>>());
        };
        let last = places.next_back().unwrap_or(first);
        self.seen.lost += (self.last() - last) as u64;
        self.seen.kept += (last - self.certain) as u64;
        self.seen.leases_kept +=
            self.present().values().filter(|entry| entry.token.is_some()).count() as u64;
        self.states.truncate(last + 1);
        self.born = last;
        self.completed.retain(|&(place, ..)| place <= first);
        let uncertain = self.past_keys.iter().filter(|(place, ..)| *place > first);
        self.uncertain_keys.extend(uncertain.map(|(_, key, _)| key.clone()));
        self.past_keys.retain(|(place, ..)| *place <= first);
        self.asked.clear();
        self.actions = 0;
    }
}
