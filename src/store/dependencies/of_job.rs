//! Accessors of [`Job`] for its dependencies.

use super::JobDeps;
use crate::base::time::Mono;
use crate::model::job::Status;
use crate::store::job::Job;

impl Job {
    /// Its dependencies, if it has, had, or is one.
    pub(in crate::store) fn deps(&self) -> Option<&JobDeps> {
        self.work()?.deps.as_deref()
    }

    pub(super) fn deps_mut(&mut self) -> Option<&mut JobDeps> {
        self.ext_mut()?.work.as_mut()?.deps.as_deref_mut()
    }

    /// Its dependencies, added if there are none.
    pub(super) fn deps_mut_or_insert(&mut self) -> &mut JobDeps {
        self.work_mut().deps.get_or_insert_default()
    }

    /// Whether it waits for other jobs: it must not become ready.
    pub(in crate::store) fn has_unmet_dependencies(&self) -> bool {
        self.deps().is_some_and(|deps| !deps.edges.is_empty())
    }

    /// Whether other jobs hold it back: it is delayed without a deadline.
    pub(in crate::store) fn is_held(&self) -> bool {
        let is_held = self.deps().is_some_and(|deps| deps.is_held);
        debug_assert!(
            !is_held || self.status() == Status::Delayed,
            "a job that others hold back is delayed"
        );
        is_held
    }

    /// The end of its delay, while it is held.
    pub(in crate::store) fn held_until(&self) -> Option<Mono> {
        let deps = self.deps()?;
        debug_assert!(
            deps.is_held || deps.available_from.is_none(),
            "the end of a delay is kept while the job is held"
        );
        deps.available_from
    }
}
