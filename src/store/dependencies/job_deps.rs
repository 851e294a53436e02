//! What a job keeps of its dependencies.

use crate::base::slab_index::PackedOption;
use crate::base::time::Mono;
use crate::model::id::JobId;
use crate::model::snapshot::PersistedDependencies;
use crate::store::idx::{EdgeIdx, SourceIdx};
use std::borrow::Cow;
use std::sync::Arc;

/// The dependencies of a job, and what waits for it.
#[derive(Debug, Default)]
pub(in crate::store) struct JobDeps {
    /// The jobs that it was put after.
    pub(in crate::store) after: Box<[JobId]>,
    /// The group of which it is a member.
    pub(in crate::store) group: Option<Membership>,
    /// The group that it was put after, and the run of the group that it waited for, if any.
    pub(in crate::store) after_group: Option<(Arc<[u8]>, Option<JobId>)>,
    /// Whether it runs although a job that it waits for is lost.
    pub(in crate::store) runs_if_lost: bool,
    /// What it still waits for.
    pub(super) edges: Vec<EdgeIdx>,
    /// Whether it would be ready or delayed if it had no edges.
    pub(super) is_held: bool,
    /// The end of its delay, while it is held.
    pub(super) available_from: Option<Mono>,
    /// If jobs wait for it.
    pub(super) source: PackedOption<SourceIdx>,
}

/// That a job is a member of a group.
#[derive(Debug)]
pub(in crate::store) struct Membership {
    pub(in crate::store) name: Arc<[u8]>,
    /// The member with which the group began to have unfinished members.
    pub(super) run: JobId,
    /// Whether it is counted as an unfinished one.
    pub(super) is_counted: bool,
}

impl JobDeps {
    /// Whether there is something that a restart has to restore.
    fn is_said(&self) -> bool {
        !self.after.is_empty() || self.group.is_some() || self.after_group.is_some()
    }

    /// Bytes of names and lists that do not change.
    pub(in crate::store) fn content_bytes(&self) -> usize {
        let group = self.group.as_ref().map_or(0, |group| group.name.len());
        let after_group = self.after_group.as_ref().map_or(0, |(name, _)| name.len());
        size_of_val(&*self.after) + group + after_group
    }

    /// See [`PersistedDependencies`].
    pub(in crate::store) fn persisted(&self) -> Option<Box<PersistedDependencies<'_>>> {
        self.is_said().then(|| {
            let group = self.group.as_ref().map(|group| (&*group.name, group.run));
            let after_group = self.after_group.as_ref().map(|(name, run)| (&**name, *run));
            let (after, runs_if_lost) = (Cow::Borrowed(&*self.after), self.runs_if_lost);
            Box::new(PersistedDependencies { after, group, after_group, runs_if_lost })
        })
    }
}
