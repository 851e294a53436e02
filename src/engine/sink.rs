//! Where the records of an engine go: a journal of its own, or a store that several servers share.
//! The gate speaks to both in the journal's words.

use super::shared::{Leader, Place};
use crate::base::time::{Mono, Now};
use crate::journal::{BatchSeq, Journal, LogStats, SYNC_BOUNDS_NS, SegmentCopy};
use crate::model::driver::{Link, LogLine};
use crate::model::stats::{JournalStats, ServerStats};

/// The sink of an engine that keeps its jobs.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of them, and the journal's path is hot"
)]
pub(super) enum Sink {
    /// Segments in a data directory.
    Journal(Journal),
    /// What the leader of a shared engine writes.
    Shared(Box<Leader>),
}

impl Sink {
    /// Appends a record to the open batch and returns that batch. `key` is the record key of a base
    /// record. See [`Journal::append_with`].
    #[inline]
    pub(super) fn append(
        &mut self,
        place: Place,
        key: Option<u32>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> BatchSeq {
        match self {
            Self::Journal(journal) => journal.append_with(key, write),
            Self::Shared(leader) => leader.append(place, write),
        }
    }

    /// See [`Journal::mark_dead`].
    #[inline]
    pub(super) fn mark_dead(&mut self, key: u32) {
        if let Self::Journal(journal) = self {
            journal.mark_dead(key);
        }
    }

    /// The batch on which an answer rests that rests on no record: with a shared sink the open one,
    /// because only a write says that this server still leads. `None`: on none.
    #[inline]
    pub(super) fn batch_of_any_answer(&mut self) -> Option<BatchSeq> {
        match self {
            Self::Journal(_) => None,
            Self::Shared(leader) => leader.force(),
        }
    }

    /// See [`Journal::raise_high_id`].
    #[inline]
    pub(super) fn raise_high_id(&mut self, mark: u64) {
        match self {
            Self::Journal(journal) => journal.raise_high_id(mark),
            Self::Shared(leader) => leader.raise_high_id(mark),
        }
    }

    /// See [`Journal::maybe_seal`].
    #[inline]
    pub(super) fn maybe_seal(&mut self) {
        match self {
            Self::Journal(journal) => journal.maybe_seal(),
            Self::Shared(leader) => leader.maybe_seal(),
        }
    }

    /// See [`Journal::next_to_move`]: a shared sink compacts nothing.
    pub(super) fn next_to_move(&mut self) -> Option<u32> {
        match self {
            Self::Journal(journal) => journal.next_to_move(),
            Self::Shared(_) => None,
        }
    }

    /// See [`Journal::poll`].
    pub(super) fn poll(&mut self, now: Now) {
        if let Self::Journal(journal) = self {
            journal.poll(now);
        }
    }

    /// Ends a pass.
    pub(super) fn commit(&mut self, now: Now) {
        match self {
            Self::Journal(journal) => journal.commit(now),
            Self::Shared(leader) => leader.commit(now),
        }
    }

    /// The last durable batch.
    #[inline]
    pub(super) fn durable(&self) -> BatchSeq {
        match self {
            Self::Journal(journal) => journal.durable(),
            Self::Shared(leader) => leader.durable(),
        }
    }

    /// The batch of the next record.
    #[inline]
    pub(super) fn next_batch(&self) -> BatchSeq {
        match self {
            Self::Journal(journal) => journal.next_batch(),
            Self::Shared(leader) => leader.next_batch(),
        }
    }

    /// Whether there is space for such a record.
    #[inline]
    pub(super) fn has_capacity(&self, bytes: usize) -> bool {
        match self {
            Self::Journal(journal) => journal.has_capacity(bytes),
            Self::Shared(leader) => leader.has_capacity(bytes),
        }
    }

    /// See [`Journal::bulk_capacity`].
    pub(super) fn bulk_capacity(&self) -> (u64, bool) {
        match self {
            Self::Journal(journal) => journal.bulk_capacity(),
            Self::Shared(leader) => leader.bulk_capacity(),
        }
    }

    /// See [`Journal::begin_copy`]: of a shared sink there is nothing to copy here.
    pub(super) fn begin_copy(&mut self) -> (Vec<SegmentCopy>, BatchSeq) {
        match self {
            Self::Journal(journal) => journal.begin_copy(),
            Self::Shared(leader) => (Vec::new(), leader.durable()),
        }
    }

    /// See [`Journal::end_copy`].
    pub(super) fn end_copy(&mut self) {
        if let Self::Journal(journal) = self {
            journal.end_copy();
        }
    }

    /// Whether nothing becomes durable any more.
    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        match self {
            Self::Journal(journal) => journal.disk_error().is_some(),
            Self::Shared(leader) => leader.failure().is_some(),
        }
    }

    /// Why nothing becomes durable any more.
    pub(super) fn failure(&self) -> Option<String> {
        match self {
            Self::Journal(journal) => journal.disk_error().map(ToString::to_string),
            Self::Shared(leader) => leader.failure().map(str::to_owned),
        }
    }

    /// Whether another server leads by now.
    pub(super) fn has_lost_lead(&self) -> bool {
        match self {
            Self::Journal(_) => false,
            Self::Shared(leader) => leader.is_fenced(),
        }
    }

    /// Why nothing is carried out now, if that is so.
    #[inline]
    pub(super) fn unavailable(&self) -> Option<String> {
        match self {
            Self::Journal(_) => None,
            Self::Shared(leader) => leader.unavailable(),
        }
    }

    /// When the next pass is due at the latest.
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        match self {
            Self::Journal(journal) => journal.poll_timeout(),
            Self::Shared(leader) => leader.poll_timeout(),
        }
    }

    /// The next line for the operator's log.
    pub(super) fn poll_log_line(&mut self) -> Option<LogLine> {
        match self {
            Self::Journal(_) => None,
            Self::Shared(leader) => leader.poll_log_line(),
        }
    }

    /// Starts to make everything durable.
    pub(super) fn close(&mut self, now: Now) {
        match self {
            Self::Journal(journal) => journal.close(now),
            Self::Shared(leader) => leader.close(),
        }
    }

    /// Whether that is done, or it has failed.
    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::Journal(journal) => journal.is_closed(),
            Self::Shared(leader) => leader.is_closed(),
        }
    }

    /// The connection to a shared sink.
    pub(super) fn link(&mut self) -> Option<&mut dyn Link> {
        match self {
            Self::Journal(_) => None,
            Self::Shared(leader) => Some(&mut **leader),
        }
    }

    /// Statistics of the journal, if it is one. O(segments).
    pub(super) fn journal_stats(&self) -> Option<LogStats> {
        match self {
            Self::Journal(journal) => Some(journal.stats()),
            Self::Shared(_) => None,
        }
    }

    /// Writes its counters into `stats`. O(segments).
    pub(super) fn stats(&self, stats: &mut ServerStats) {
        match self {
            Self::Journal(journal) => stats.journal = Some(journal_stats(&journal.stats())),
            Self::Shared(leader) => stats.shared = Some(leader.stats()),
        }
    }

    /// Asserts every invariant.
    pub(super) fn check_invariants(&self) {
        match self {
            Self::Journal(journal) => journal.check_invariants(),
            Self::Shared(leader) => leader.check_invariants(),
        }
    }
}

fn journal_stats(stats: &LogStats) -> JournalStats {
    let bounds = SYNC_BOUNDS_NS.into_iter().map(Some).chain([None]);
    JournalStats {
        live_bytes: stats.live_bytes,
        dead_bytes: stats.dead_bytes,
        free_bytes: stats.free_bytes,
        total_bytes: stats.total_bytes,
        pending_bytes: stats.pending_bytes,
        segments: stats.segments,
        batches: stats.batches,
        records: stats.records,
        written_bytes: stats.written_bytes,
        moved_bytes: stats.moved_bytes,
        sync_ns: stats.sync_ns,
        sync_max_ns: stats.sync_max_ns,
        syncs: bounds.zip(stats.sync_histogram).collect(),
        full: stats.full,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::shared::redis::Address;
    use crate::engine::shared::{Begin, Settings};
    use crate::engine::{CommandExecutor, Engine};
    use crate::model::command::Command;
    use crate::model::driver::{LinkAction, Target};
    use crate::model::id::{ClientId, Ticket};
    use crate::model::job::{Encoding, Payload, Priority, TieBreak};
    use crate::store::Store;
    use std::sync::Arc;

    /// An engine over a shared sink, which is not connected.
    fn leading() -> Engine {
        let target = Arc::new(Target { host: "h".into(), port: 1, tls: false });
        let address = Address::Node(target);
        let settings = Settings { wait: Some(0), ..Settings::new(address, [0; 8], "one") };
        let begin = Begin { birth: b"b".to_vec(), epoch: 1, seq: 0, mark: 1 };
        Engine::over(Store::new(1), Sink::Shared(Box::new(Leader::new(settings, begin))))
    }

    /// The serials of the requests that are completed.
    fn completed(engine: &mut Engine) -> Vec<u32> {
        let next = || engine.poll_completion().map(|completion| completion.ticket.serial);
        std::iter::from_fn(next).collect()
    }

    /// While it closes, a shared sink takes no record any more, but still writes a batch.
    #[test]
    fn put_after_the_close_of_a_shared_sink_is_not_answered() {
        let mut engine = leading();
        let now = Now { mono: Mono(1_000_000_000), ..Now::default() };
        let put = Command::Put {
            queue: b"q",
            priority: Priority::Small(1),
            tie_break: TieBreak::Fifo,
            payload: Payload { encoding: Encoding::Json, bytes: b"1" },
            options: None,
        };
        let client = ClientId { index: 1, generation: 1 };
        engine.submit(Ticket { client, serial: 1 }, &put, now);
        assert!(completed(&mut engine).is_empty(), "answered before it is written");
        engine.close(now);
        engine.submit(Ticket { client, serial: 2 }, &put, now);
        assert!(completed(&mut engine).is_empty(), "answered before it is written");
        engine.commit(now);
        let link = engine.link().unwrap();
        assert!(matches!(link.poll_action(), Some(LinkAction::Connect(_))));
        link.handle_connected(now);
        link.handle_input(b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n", now);
        engine.commit(now);
        engine.link().unwrap().handle_input(b"*1\r\n$2\r\nOK\r\n", now);
        engine.commit(now);
        assert_eq!(completed(&mut engine), [1], "the other one was never written");
        assert!(engine.fatal_error().is_none());
    }
}
