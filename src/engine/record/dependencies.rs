//! The encoding of dependencies.

use super::read::{Read, RecordReader};
use super::{push_byte_string, push_number};
use crate::base::api_limits::DEPENDENCIES_MAX;
use crate::model::id::JobId;
use crate::model::manage::NewDependencies;
use crate::model::snapshot::PersistedDependencies;
use std::borrow::Cow;

const HAS_GROUP: u8 = 1;
const HAS_AFTER_GROUP: u8 = 1 << 1;
const RUNS_IF_LOST: u8 = 1 << 2;

pub(super) fn push(out: &mut Vec<u8>, dependencies: &PersistedDependencies<'_>) {
    let PersistedDependencies { after, group, after_group, runs_if_lost } = dependencies;
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let groups = flag(group.is_some(), HAS_GROUP) | flag(after_group.is_some(), HAS_AFTER_GROUP);
    out.push(groups | flag(*runs_if_lost, RUNS_IF_LOST));
    push_number(out, after.len() as u64);
    for id in after.iter() {
        push_number(out, id.0);
    }
    if let Some((name, run)) = group {
        push_byte_string(out, name);
        push_number(out, run.0);
    }
    if let Some((name, run)) = after_group {
        push_byte_string(out, name);
        push_number(out, run.map_or(0, |run| run.0));
    }
}

/// Those of the job of a schedule, which belongs to no run.
pub(super) fn push_new(out: &mut Vec<u8>, new: &NewDependencies) {
    let NewDependencies { after, group, after_group, runs_if_lost } = new;
    let dependencies = PersistedDependencies {
        after: Cow::Borrowed(after),
        group: group.as_deref().map(|name| (name, JobId(1))),
        after_group: after_group.as_deref().map(|name| (name, None)),
        runs_if_lost: *runs_if_lost,
    };
    push(out, &dependencies);
}

impl<'a> RecordReader<'a> {
    pub(super) fn dependencies(&mut self) -> Read<PersistedDependencies<'a>> {
        let flags = self.byte()?;
        if flags & !(HAS_GROUP | HAS_AFTER_GROUP | RUNS_IF_LOST) != 0 {
            return self.malformed();
        }
        let count: usize = self.narrow_number()?;
        if count > DEPENDENCIES_MAX {
            return self.malformed();
        }
        let after = (0..count).map(|_| self.id()).collect::<Read<Vec<JobId>>>()?;
        let group = match flags & HAS_GROUP {
            0 => None,
            _ => Some((self.byte_string()?, self.id()?)),
        };
        let after_group = match flags & HAS_AFTER_GROUP {
            0 => None,
            _ => Some((self.byte_string()?, Some(JobId(self.number()?)).filter(|run| run.0 > 0))),
        };
        let (after, runs_if_lost) = (Cow::Owned(after), flags & RUNS_IF_LOST != 0);
        Ok(PersistedDependencies { after, group, after_group, runs_if_lost })
    }

    pub(super) fn new_dependencies(&mut self) -> Read<NewDependencies> {
        let PersistedDependencies { after, group, after_group, runs_if_lost } =
            self.dependencies()?;
        Ok(NewDependencies {
            after: after.into(),
            group: group.map(|(name, _)| name.into()),
            after_group: after_group.map(|(name, _)| name.into()),
            runs_if_lost,
        })
    }
}
