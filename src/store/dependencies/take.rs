//! A new job takes its dependencies; a job with unmet ones is held.

use super::{Group, JobDeps, Membership, Source, edge_place};
use crate::base::api_limits::DEPENDENCY_WORK;
use crate::base::slab_index::PackedOption;
use crate::base::time::{Mono, Now};
use crate::model::id::JobId;
use crate::model::job::Status;
use crate::model::manage::NewDependencies;
use crate::model::reply::Rejection;
use crate::store::idx::SourceIdx;
use crate::store::{Effects, JobIdx, Store};

impl Store {
    /// Checks that a new job does not wait for an id that was never given out. O(ids).
    pub(in crate::store) fn check_dependencies(
        &self,
        new: Option<&NewDependencies>,
    ) -> Result<(), Rejection> {
        let unknown = |id: &&JobId| !self.ids.was_given_out(id.0);
        match new.and_then(|new| new.after.iter().find(unknown)) {
            Some(&id) => Err(Rejection::UnknownJob(id)),
            None => Ok(()),
        }
    }

    /// Gives a new job, which is unlinked, its dependencies. O(1) for each id, O(log g + name) for
    /// each group.
    pub(in crate::store) fn take_dependencies(
        &mut self,
        slot: JobIdx,
        new: &NewDependencies,
        now: Now,
        fx: &mut Effects,
    ) {
        let NewDependencies { after, group, after_group, runs_if_lost } = new;
        debug_assert!(
            !self.jobs[slot].is_linked() && self.jobs[slot].deps().is_none(),
            "a new job gets its dependencies once, before its place"
        );
        let deps =
            JobDeps { after: after.clone(), runs_if_lost: *runs_if_lost, ..JobDeps::default() };
        self.jobs.change(slot, |job| job.work_mut().deps = Some(Box::new(deps)));
        for &id in after {
            if let Some(source) = self.source_of_job(id, now, fx) {
                self.add_edge(slot, source, !runs_if_lost);
            }
        }
        if let Some(name) = after_group {
            let run = self.wait_for_group(slot, name, None);
            let name = (&**name).into();
            self.jobs.change(slot, |job| job.deps_mut_or_insert().after_group = Some((name, run)));
        }
        if let Some(name) = group {
            let run = JobId(self.jobs[slot].id());
            self.join_group(slot, name, run);
        }
    }

    /// The same for an imported job that waits for nothing any more; a completed one is no
    /// unfinished member of its group. O(ids + log g + name).
    pub(in crate::store) fn take_met_dependencies(
        &mut self,
        slot: JobIdx,
        new: &NewDependencies,
        is_unfinished: bool,
    ) {
        let NewDependencies { after, group, after_group, runs_if_lost } = new;
        debug_assert!(self.jobs[slot].deps().is_none(), "a new job has no dependencies yet");
        let run = JobId(self.jobs[slot].id());
        let member = |name: &[u8]| Membership { name: name.into(), run, is_counted: false };
        let deps = JobDeps {
            after: after.clone(),
            runs_if_lost: *runs_if_lost,
            group: group.as_deref().map(member),
            after_group: after_group.as_ref().map(|name| ((&**name).into(), None)),
            ..JobDeps::default()
        };
        self.jobs.change(slot, |job| job.work_mut().deps = Some(Box::new(deps)));
        if let Some(name) = group.as_ref().filter(|_| is_unfinished) {
            self.join_group(slot, name, run);
        }
    }

    /// The source of a job that is not done yet. O(1).
    fn source_of_job(&mut self, id: JobId, now: Now, fx: &mut Effects) -> Option<SourceIdx> {
        let slot = self.find_cold(id, now, fx)?;
        (self.jobs[slot].status() != Status::Completed).then(|| self.source_in(slot))
    }

    /// The source of the job in this slot, made if there is none. O(1).
    pub(super) fn source_in(&mut self, slot: JobIdx) -> SourceIdx {
        debug_assert_ne!(
            self.jobs[slot].status(),
            Status::Completed,
            "no job waits for one that is done"
        );
        if let Some(source) = self.jobs[slot].deps().and_then(|deps| deps.source.expand()) {
            debug_assert!(
                self.dependencies.sources[source].end.is_none(),
                "the source of a job ends with it"
            );
            return source;
        }
        let source = self.dependencies.sources.insert(Source::default());
        self.jobs.change(slot, |job| job.deps_mut_or_insert().source = source.into());
        source
    }

    /// Adds a reason to wait. O(1).
    pub(super) fn add_edge(&mut self, slot: JobIdx, source: SourceIdx, cancels: bool) {
        let job = &mut self.jobs[slot];
        let id = JobId(job.id());
        self.waiters.note_work(DEPENDENCY_WORK);
        let edges = &mut job.deps_mut_or_insert().edges;
        edges.push(self.dependencies.link(id, source, edge_place(edges.len()), cancels));
    }

    /// Makes a job wait for a group, if it has unfinished members: of this run, if one is said.
    /// Returns the run. O(log g + name).
    pub(super) fn wait_for_group(
        &mut self,
        slot: JobIdx,
        name: &[u8],
        run: Option<JobId>,
    ) -> Option<JobId> {
        let group = self.dependencies.groups.get_mut(name)?;
        debug_assert!(group.unfinished > 0, "a known group has unfinished members");
        let present = group.run;
        if run.is_some_and(|run| run != present) {
            return None;
        }
        let source = group.source.expand().unwrap_or_else(|| {
            let source = self.dependencies.sources.insert(Source::default());
            group.source = source.into();
            source
        });
        debug_assert!(
            self.dependencies.sources[source].end.is_none(),
            "the source of a group ends with its last member"
        );
        // What is lost in a group is finished.
        self.add_edge(slot, source, false);
        Some(present)
    }

    /// Makes a job an unfinished member of a group, which begins with this run if it has no other
    /// one. O(log g + name).
    pub(super) fn join_group(&mut self, slot: JobIdx, name: &[u8], run: JobId) {
        debug_assert!(
            self.jobs[slot]
                .deps()
                .and_then(|deps| deps.group.as_ref())
                .is_none_or(|member| !member.is_counted),
            "a member of a group is counted once"
        );
        let groups = &mut self.dependencies.groups;
        let known = groups.get_key_value(name).map(|(name, _)| name.clone());
        let name = known.unwrap_or_else(|| name.into());
        let group = groups.entry(name.clone()).or_insert(Group {
            run,
            unfinished: 0,
            source: PackedOption::NONE,
        });
        debug_assert!(
            group.unfinished > 0 || group.source.is_none(),
            "jobs wait for a group only while it has unfinished members"
        );
        group.unfinished += 1;
        let member = Membership { name, run: group.run, is_counted: true };
        self.jobs.change(slot, |job| job.deps_mut_or_insert().group = Some(member));
    }

    /// Holds an unlinked job that waits for others; `until`: the end of its delay. Its time to live
    /// goes on. O(log d).
    pub(in crate::store) fn hold_back(&mut self, slot: JobIdx, until: Option<Mono>, now: Now) {
        self.set_held(slot);
        let job = &mut self.jobs[slot];
        job.ready_since(now);
        let (has_ttl, expires) = (job.has_ttl(), job.expires());
        let deps = job.deps_mut_or_insert();
        debug_assert!(!deps.edges.is_empty(), "a job is held that waits for nothing");
        debug_assert!(!deps.is_held, "a job is held once");
        (deps.is_held, deps.available_from) = (true, until);
        if has_ttl {
            self.jobs.arm(slot, expires, &mut self.deadlines);
        }
    }

    /// Notes that a delayed job is being unlinked, and is no longer held. O(1).
    #[inline(never)]
    pub(in crate::store) fn end_delay(&mut self, slot: JobIdx) {
        self.uncount_delayed(slot);
        if let Some(deps) = self.jobs[slot].deps_mut() {
            (deps.is_held, deps.available_from) = (false, None);
        }
    }
}
