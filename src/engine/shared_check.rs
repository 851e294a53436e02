//! Looks for what is wrong with the records of a shared sink, as far as they say so themselves.

use super::record;
use super::restore::restore_loaded;
use super::shared::Field;
use super::shared::redis::Loaded;
use crate::base::time::Now;
use crate::model::snapshot::Record;
use std::collections::HashSet;

/// Findings that are told one by one.
const FINDINGS_MAX: usize = 20;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedCheck {
    /// Jobs.
    pub jobs: usize,
    /// Base records: those of jobs, and of queues, workers, constraints and schedules.
    pub bases: usize,
    /// States beside them.
    pub states: usize,
    /// Events beside them.
    pub events: usize,
    /// Sentences about what is wrong: the first of them.
    pub findings: Vec<String>,
    /// How many things are wrong.
    pub wrong: usize,
}

impl SharedCheck {
    /// Adds a finding.
    pub fn add(&mut self, what: impl FnOnce() -> String) {
        self.wrong += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(what());
        }
    }
}

/// Reads all records. `is_still`: nothing was written while they were loaded, so that they fit each
/// other. All ids given so far are below `mark`. O(records).
#[must_use]
pub fn check_shared(loaded: &Loaded, mark: u64, is_still: bool, now: Now) -> SharedCheck {
    let mut check = SharedCheck::default();
    let (mut bases, mut next_event) = (HashSet::new(), None);
    for (field, bytes) in loaded.records() {
        let (Field::Base(id) | Field::State(id) | Field::Event(id, _)) = field;
        let record = match record::read(bytes, now) {
            Ok(record) => record,
            Err(error) => {
                check.add(|| format!("{} {id} cannot be read: {error}", kind(field)));
                continue;
            }
        };
        if record.id().0 != id || !is_of(field, &record) {
            let found = record.id().0;
            check.add(|| format!("{} {id} is another record, of {found}", kind(field)));
            continue;
        }
        match field {
            Field::Base(_) => {
                check.bases += 1;
                bases.insert(id);
                if let Record::Job(_) = record {
                    check.jobs += 1;
                    if is_still && id >= mark {
                        check.add(|| format!("job {id} is not below {mark}, the next id"));
                    }
                }
                continue;
            }
            Field::State(_) => check.states += 1,
            Field::Event(_, number) => {
                check.events += 1;
                let expected = match next_event {
                    Some((of, next)) if of == id => next,
                    _ => 0,
                };
                next_event = Some((id, number + 1));
                if is_still && number != expected {
                    check.add(|| format!("event {expected} of job {id} is missing"));
                }
            }
        }
        if is_still && !bases.contains(&id) {
            check.add(|| format!("{} {id} belongs to no job", kind(field)));
        }
    }
    if is_still
        && check.wrong == 0
        && let Err(why) = restore_loaded(loaded, (mark, 0), now, &mut |_, _| {})
    {
        check.add(|| why);
    }
    check
}

fn kind(field: Field) -> &'static str {
    match field {
        Field::Base(_) => "record",
        Field::State(_) => "state of job",
        Field::Event(..) => "event of job",
    }
}

fn is_of(field: Field, record: &Record<'_>) -> bool {
    match field {
        Field::Base(_) => {
            !matches!(record, Record::State(..) | Record::Event(..) | Record::Deleted(_))
        }
        Field::State(_) => matches!(record, Record::State(..)),
        Field::Event(..) => matches!(record, Record::Event(..)),
    }
}
