//! Jobs that wait for other jobs: dependencies on jobs by id, and on groups.
//!
//! ```text
//!   predecessor ----\
//!                    source --- edge --- edge --- edge     (in the order of the puts)
//!   group ----------/             |        |        |
//!                                 job      job      job    (dependents)
//! ```
//!
//! A job that others wait for has a *source*, and so has a group for which jobs wait. Each *edge*
//! is one reason of one job to wait; its ends know it, so that it goes in O(1) with either. A job
//! with edges is *held*: it has the status `Delayed` without a deadline of its own, and is shown
//! and counted as blocked. It may also be buried; then it is held when it is kicked.
//!
//! When a predecessor is done, or no member of a group is unfinished, the source has *ended*: its
//! edges go, and jobs without further edges are released. When a predecessor is *lost* (cancelled,
//! deleted by another one than its holder, purged, expired), those jobs are cancelled that do not
//! say otherwise; their own sources end as lost, too. Sources that end in a call are settled at its
//! end, as far as the steps of the pass go. What is left is settled over later passes by
//! `disconnects`: all jobs that a source releases become available in one moment.
//!
//! In the journal a job has the list of what it waits for, and of a group the *run*: the id of the
//! member with which the group began to have unfinished members. Everything else follows from which
//! jobs are there: one that is gone or completed counts as done. What does not follow is that a
//! job was lost. That is done within one batch together with all that it cancels; or else the
//! source has a record, a *loss*, until it is settled. It concerns only jobs with lower ids than
//! the next one at that time.
//!
//! Costs: O(1) for an edge, O(log g) for a group of g; jobs without dependencies have no part in
//! it. An edge takes 24 bytes, a source 32.

mod check;
mod job_deps;
mod kept_groups;
mod of_job;
mod release;
mod restore;
mod take;

use super::idx::{EdgeIdx, JobIdx, LossIdx, SourceIdx};
use super::record_tables::RecordTable;
use crate::base::paged::PagedSlab;
use crate::base::slab_index::PackedOption;
use crate::model::id::JobId;
pub(super) use job_deps::{JobDeps, Membership};
use kept_groups::KeptGroups;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Memory of a source, nearly: with the rare fields that its job gets.
const SOURCE_MEMORY_BYTES: usize = 500;

/// Memory of a group beside its name, nearly.
const GROUP_MEMORY_BYTES: usize = 150;

/// One reason of a job to wait.
#[derive(Clone, Copy, Debug)]
struct Edge {
    /// The job that waits. It is gone if its edges are being dropped.
    dependent: JobId,
    /// `NONE`: the source has ended before the edge of a job that is gone was dropped.
    source: PackedOption<SourceIdx>,
    /// Its place among the edges of the job.
    place: u16,
    /// Whether the job is cancelled if the source is lost.
    cancels: bool,
    previous: PackedOption<EdgeIdx>,
    next: PackedOption<EdgeIdx>,
}

const _: () = assert!(size_of::<Edge>() == 24);

/// What jobs wait for.
#[derive(Debug, Default)]
struct Source {
    first: PackedOption<EdgeIdx>,
    last: PackedOption<EdgeIdx>,
    /// Edges in the list.
    count: u32,
    /// Those of jobs that are cancelled if the source is lost.
    cancelling: u32,
    /// How it has ended.
    end: Option<SourceEnd>,
}

/// How a source has ended.
#[derive(Clone, Copy, Debug)]
enum SourceEnd {
    Done,
    /// This job was lost.
    Lost(JobId),
    /// The same, and it has a record.
    Recorded(LossIdx),
}

/// A job that was lost, while jobs that wait for it are there.
#[derive(Clone, Copy, Debug)]
struct Loss {
    job: JobId,
    /// Jobs with lower ids are cancelled.
    below: JobId,
    /// `NONE` during recovery.
    source: PackedOption<SourceIdx>,
}

/// A group with unfinished members.
#[derive(Debug)]
struct Group {
    /// The member with which it began to have unfinished ones.
    run: JobId,
    unfinished: u64,
    /// If jobs wait for it.
    source: PackedOption<SourceIdx>,
}

/// All dependencies. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Dependencies {
    edges: PagedSlab<Edge, EdgeIdx>,
    sources: PagedSlab<Source, SourceIdx>,
    groups: BTreeMap<Arc<[u8]>, Group>,
    kept: KeptGroups,
    losses: RecordTable<Loss, LossIdx>,
    /// Sources that have ended in this call.
    ended: VecDeque<SourceIdx>,
    /// Some of them are settled: what they have ended may go on without end.
    has_settled: bool,
    /// Edges of jobs that are gone.
    dropped: Vec<Vec<EdgeIdx>>,
    /// During recovery: jobs with dependencies, perhaps more than once, and perhaps gone.
    restored: Vec<JobIdx>,
}

/// The place of an edge among those of its job.
fn edge_place(number: usize) -> u16 {
    // Proof: a job has DEPENDENCIES_MAX edges to jobs, and one to a group.
    u16::try_from(number).expect("the edges of a job are numbered by 16 bits")
}

/// What ends with a job: its source, and its membership of a group.
#[derive(Debug)]
pub(super) struct JobEnds {
    source: Option<SourceIdx>,
    group: Option<Arc<[u8]>>,
}

/// The next edge of a source that has ended.
enum NextEdge {
    None,
    /// Its job is gone.
    Dropped,
    Of(JobIdx),
}

impl Dependencies {
    /// The number of records of losses.
    pub(super) fn losses(&self) -> usize {
        self.losses.len()
    }

    /// The ids of these records.
    pub(super) fn record_ids(&self) -> impl Iterator<Item = JobId> {
        self.losses.iter().map(|(_, loss)| loss.id)
    }

    /// The record of a loss with this id. O(log l).
    pub(super) fn find_loss(&self, id: JobId) -> Option<LossIdx> {
        self.losses.find(id)
    }

    /// Lists of dropped edges, and imports that are over: each is a task of the spread work.
    pub(super) fn unfinished(&self) -> usize {
        self.dropped.len() + self.kept.unfinished()
    }

    /// The bytes that edges, sources and groups take, nearly.
    pub(super) fn memory_bytes(&self) -> usize {
        let edges = self.edges.len() * (size_of::<Edge>() + size_of::<EdgeIdx>());
        let sources = self.sources.len() * SOURCE_MEMORY_BYTES;
        edges + sources + self.groups.len() * GROUP_MEMORY_BYTES
    }

    /// Appends an edge to a source.
    fn link(&mut self, dependent: JobId, source: SourceIdx, place: u16, cancels: bool) -> EdgeIdx {
        debug_assert!(
            !matches!(self.sources[source].end, Some(SourceEnd::Done | SourceEnd::Lost(_))),
            "no job begins to wait for what has ended"
        );
        let last = self.sources[source].last;
        debug_assert!(
            last.expand().is_none_or(|last| self.edges[last].next.is_none()),
            "no edge is behind the last one"
        );
        let edge = Edge {
            dependent,
            source: source.into(),
            place,
            cancels,
            previous: last,
            next: PackedOption::NONE,
        };
        let edge = self.edges.insert(edge);
        match last.expand() {
            Some(last) => self.edges[last].next = edge.into(),
            None => self.sources[source].first = edge.into(),
        }
        let record = &mut self.sources[source];
        record.last = edge.into();
        record.count += 1;
        record.cancelling += u32::from(cancels);
        debug_assert!(
            record.cancelling <= record.count && record.first.is_some(),
            "a source counts the edges in its list"
        );
        edge
    }

    /// Takes an edge out of the list of its source, if it is in one.
    fn unlink(&mut self, edge: EdgeIdx) {
        let Edge { source, cancels, previous, next, .. } = self.edges[edge];
        let Some(source) = source.expand() else { return };
        debug_assert!(
            previous.expand().map_or(self.sources[source].first, |it| self.edges[it].next)
                == edge.into(),
            "an edge is the first of its source, or its neighbour names it"
        );
        debug_assert!(
            next.expand().map_or(self.sources[source].last, |it| self.edges[it].previous)
                == edge.into(),
            "an edge is the last of its source, or its neighbour names it"
        );
        match previous.expand() {
            Some(previous) => self.edges[previous].next = next,
            None => self.sources[source].first = next,
        }
        match next.expand() {
            Some(next) => self.edges[next].previous = previous,
            None => self.sources[source].last = previous,
        }
        let record = &mut self.sources[source];
        record.count -= 1;
        record.cancelling -= u32::from(cancels);
        debug_assert!(record.cancelling <= record.count, "edges that cancel are counted twice");
        debug_assert_eq!(
            record.count == 0,
            record.first.is_none() && record.last.is_none(),
            "a source counts the edges in its list"
        );
        let edge = &mut self.edges[edge];
        (edge.source, edge.previous, edge.next) =
            (PackedOption::NONE, PackedOption::NONE, PackedOption::NONE);
    }
}
