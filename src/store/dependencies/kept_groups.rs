//! Groups that an import keeps from ending: jobs that wait for a group may come before its members,
//! and members may be done before further ones come.

use super::Group;
use crate::base::slab_index::PackedOption;
use crate::model::id::{ClientId, JobId};
use crate::store::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Names = BTreeSet<Arc<[u8]>>;

/// The groups of all imports. Each counts as an unfinished member of its group.
#[derive(Debug, Default)]
pub(super) struct KeptGroups {
    /// By the client that imports.
    importing: BTreeMap<ClientId, Names>,
    /// Those of imports that are over: they are let go in this pass or in later ones.
    over: Vec<Names>,
}

impl KeptGroups {
    /// Tasks of the spread work: imports that are over.
    pub(super) fn unfinished(&self) -> usize {
        self.over.len()
    }

    /// All names, one for each import. O(groups): for checks.
    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.importing.values().chain(&self.over).flatten().map(|name| &**name)
    }
}

impl Store {
    /// Keeps a group from ending until the import of this client is over. `run`: of the group, if
    /// it has no unfinished member. O(log g + name).
    pub(in crate::store) fn keep_group(&mut self, client: ClientId, name: &[u8], run: JobId) {
        let dependencies = &mut self.dependencies;
        let known = dependencies.groups.get_key_value(name).map(|(name, _)| name.clone());
        let name = known.unwrap_or_else(|| name.into());
        if dependencies.kept.importing.entry(client).or_default().insert(name.clone()) {
            let group = Group { run, unfinished: 0, source: PackedOption::NONE };
            dependencies.groups.entry(name).or_insert(group).unfinished += 1;
        }
    }

    /// The import of a client is over, or its client is gone: groups without unfinished members end
    /// in this pass or in later ones. O(log g + name) for each.
    pub(in crate::store) fn end_import(&mut self, client: ClientId) {
        if let Some(names) = self.dependencies.kept.importing.remove(&client) {
            self.dependencies.kept.over.push(names);
            self.spread.begin_task();
            self.let_groups_go();
        }
    }

    /// Lets groups of imports that are over go, up to what is left of the steps of a pass.
    pub(super) fn let_groups_go(&mut self) {
        while self.spread.steps_left() > 0
            && let Some(names) = self.dependencies.kept.over.last_mut()
        {
            self.spread.spend(1);
            if let Some(name) = names.pop_first() {
                self.leave_group(&name);
            } else {
                self.dependencies.kept.over.pop();
                self.spread.end_task();
            }
        }
    }
}
