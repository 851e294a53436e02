//! Invariants of the dependencies.

use super::{Dependencies, EdgeIdx, SourceIdx};
use crate::base::slab_index::SlabIndex;
use crate::model::job::Status;
use crate::store::{JobIdx, Store};
use std::collections::{BTreeMap, BTreeSet};

impl Store {
    /// Asserts that edges, sources, groups and jobs agree. O(jobs + edges): for checks.
    pub(in crate::store) fn check_dependencies_of_all(&self) {
        let all = &self.dependencies;
        assert!(all.ended.is_empty(), "a source that has ended is not settled");
        assert!(all.restored.is_empty(), "restored dependencies are not settled");
        all.losses.check_invariants();
        let mut sources: BTreeSet<SourceIdx> =
            all.sources.iter().map(|(source, _)| source).collect();
        let mut edges = BTreeMap::<EdgeIdx, JobIdx>::new();
        let mut members = BTreeMap::<&[u8], u64>::new();
        for (slot, job) in self.jobs.iter() {
            let Some(deps) = job.deps() else { continue };
            let holds = deps.is_held && job.status() == Status::Delayed;
            assert_eq!(holds, deps.is_held, "a job is held that is not delayed");
            let waits = !deps.edges.is_empty();
            assert!(waits || !deps.is_held, "a job is held that waits for nothing");
            assert!(
                !waits || deps.is_held || job.status() == Status::Buried,
                "a job that waits for others is neither held nor buried"
            );
            if let Some(source) = deps.source.expand() {
                assert!(sources.remove(&source), "a source has two jobs, or is none");
                assert!(all.sources[source].end.is_none(), "a job has a source that has ended");
            }
            for (place, &edge) in deps.edges.iter().enumerate() {
                assert_eq!(edges.insert(edge, slot), None, "an edge is of two jobs");
                let edge = &all.edges[edge];
                assert_eq!(usize::from(edge.place), place, "an edge has another place");
                assert_eq!(edge.dependent.0, job.id(), "an edge is of another job");
                assert!(!edge.source.is_none(), "an edge has no source");
            }
            if let Some(group) = deps.group.as_ref().filter(|group| group.is_counted) {
                assert_ne!(job.status(), Status::Completed, "a completed member is counted");
                assert_eq!(all.groups[&group.name].run, group.run, "a member is of another run");
                *members.entry(&*group.name).or_default() += 1;
            }
        }
        for ends in self.large_pops.ends() {
            if let Some(source) = ends.source {
                assert!(sources.remove(&source), "the source of a popped job is gone");
            }
            if let Some(group) = &ends.group {
                *members.entry(&**group).or_default() += 1;
            }
        }
        for name in all.kept.names() {
            *members.entry(name).or_default() += 1;
        }
        let dropped = all.dropped.iter().flatten();
        for &edge in dropped {
            assert!(!edges.contains_key(&edge), "an edge is dropped that a job has");
            assert_eq!(self.ids.find(all.edges[edge].dependent.0), None, "its job is there");
        }
        let dropped: usize = all.dropped.iter().map(Vec::len).sum();
        assert_eq!(all.edges.len(), edges.len() + dropped, "an edge has no job");
        for (name, group) in &all.groups {
            let counted = members.remove(&**name);
            assert_eq!(counted, Some(group.unfinished), "a group counts its members wrongly");
            if let Some(source) = group.source.expand() {
                assert!(sources.remove(&source), "a source has two owners");
            }
        }
        assert!(members.is_empty(), "a member is of no group");
        for source in self.disconnects.sources() {
            assert!(sources.remove(&source), "a source has ended twice, or is gone");
        }
        assert!(sources.is_empty(), "a source has no owner");
        all.check_lists();
    }
}

impl Dependencies {
    fn check_lists(&self) {
        for (number, source) in self.sources.iter() {
            let (mut count, mut cancelling, mut previous) = (0, 0, None);
            let mut next = source.first.expand();
            while let Some(slot) = next {
                let edge = &self.edges[slot];
                assert_eq!(edge.source.expand(), Some(number), "an edge is of another source");
                assert_eq!(edge.previous.expand(), previous, "a list of edges is broken");
                count += 1;
                cancelling += u32::from(edge.cancels);
                (previous, next) = (next, edge.next.expand());
            }
            assert_eq!(source.last.expand(), previous, "a list of edges has another end");
            assert_eq!(
                (source.count, source.cancelling),
                (count, cancelling),
                "source {} counts its edges wrongly",
                number.slot()
            );
        }
    }
}
