//! Pops of key groups that have more packets than one pass can remove.
//!
//! ```text
//!   Gathering --- all packets are gathered, their end is recorded ---> Taking ---> answered
//! ```
//!
//! - *Gathering*: the packets leave heaps, groups, ids and deadlines, newest first, and get the
//!   status `Popped`: from then on no command finds them. Their queue is on hold until the last one
//!   is gathered, so no client gets a part of the group. A delete of a packet that is not gathered
//!   yet, or the end of its time to live, comes before the pop.
//! - Then the end of all of them is recorded in one step, so that the records are in one batch of
//!   the journal: a crash leaves the whole group or nothing. Until then they keep their slots, and
//!   their base records are live.
//! - *Taking*: the payloads move into the answer, and the slots are free.
//!
//! Only the oldest pop makes progress. All share the steps of a pass with the ends of clients.
//!
//! Invariants: a queue has at most one pop that gathers; a job has the status `Popped` exactly if
//! it is a member of a pop and not taken yet.

use super::dependencies::JobEnds;
use super::idx::{JobIdx, KeyGroupIdx, QueueIdx};
use super::spread_work::HoldMarks;
use super::{DirtyRecord, Effects, RecordKey, Store};
use crate::base::limits::{EXTRA_WORK_PER_TURN, PACKETS_PER_POP_MAX};
use crate::base::time::Now;
use crate::model::id::{JobId, Ticket};
use crate::model::job::{Packet, Status};
use crate::model::owned::OwnedReply;
use crate::model::stats::JobCounter;
use std::collections::{BTreeSet, VecDeque};

/// Pops in progress. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct LargePops {
    /// In the order of their begin.
    pops: VecDeque<LargePop>,
    /// Bytes of the packets that are taken and not answered.
    packet_bytes: usize,
}

#[derive(Debug)]
struct LargePop {
    ticket: Ticket,
    queue: QueueIdx,
    /// The packets gathered, in the order of the answer.
    members: Vec<JobIdx>,
    /// What ends with them, once their end is recorded, and has not yet ended.
    ends: VecDeque<JobEnds>,
    /// The id of the last one gathered from the group: the next is older.
    below: u64,
    /// Those taken so far; `None`: it gathers.
    packets: Option<Vec<Packet>>,
    /// Their bytes.
    packet_bytes: usize,
}

impl LargePops {
    /// How many pops are in progress.
    pub(super) fn len(&self) -> usize {
        self.pops.len()
    }

    /// Bytes of packets that are no longer in the job table. O(1).
    pub(super) fn packet_bytes(&self) -> usize {
        self.packet_bytes
    }

    /// All jobs that are gathered and not taken. O(packets): for checks.
    pub(super) fn members(&self) -> BTreeSet<JobIdx> {
        let left = |pop: &LargePop| {
            let taken = pop.packets.as_ref().map_or(0, Vec::len);
            pop.members[taken..].to_vec()
        };
        self.pops.iter().flat_map(left).collect()
    }

    /// What ends with the packets that are gathered. O(packets): for checks.
    pub(super) fn ends(&self) -> impl Iterator<Item = &JobEnds> {
        self.pops.iter().flat_map(|pop| pop.ends.iter())
    }

    /// Whether the pop of this ticket is in progress. O(pops).
    pub(super) fn contains(&self, ticket: Ticket) -> bool {
        self.pops.iter().any(|pop| pop.ticket == ticket)
    }

    fn is_taking(&self) -> bool {
        self.pops.front().is_some_and(|pop| pop.packets.is_some())
    }
}

impl Store {
    /// Begins a pop of an unlinked packet and its group. O(log of the number of pops).
    #[cold]
    pub(super) fn begin_large_pop(
        &mut self,
        selected: JobIdx,
        group: KeyGroupIdx,
        ticket: Ticket,
        now: Now,
    ) {
        let queue = self.jobs[selected].queue;
        debug_assert!(
            !self.queues[queue].holds.has(HoldMarks::GATHERED),
            "a queue has one pop at most that gathers"
        );
        self.key_groups.begin_walk(queue, group);
        self.queues[queue].holds.set(HoldMarks::GATHERED);
        let ends = self.mark_popped(selected, now).into_iter().collect();
        // The client's next request waits: see `Store::is_deferred`.
        self.waiters.note_work(EXTRA_WORK_PER_TURN + 1);
        let members = vec![selected];
        let pop = LargePop {
            ticket,
            queue,
            members,
            ends,
            below: u64::MAX,
            packets: None,
            packet_bytes: 0,
        };
        self.large_pops.pops.push_back(pop);
        self.spread.begin_task();
    }

    /// Takes an unlinked packet out of all tables but that of jobs. Returns what ends
    /// with it. O(1).
    fn mark_popped(&mut self, slot: JobIdx, now: Now) -> Option<JobEnds> {
        let ends = self.take_ends(slot);
        self.count_popped(slot);
        self.detach_from_queue(slot);
        let job = &mut self.jobs[slot];
        debug_assert!(job.is_packet() && job.class().is_none(), "a popped job is a free packet");
        debug_assert!(job.timer().is_none(), "a popped job has no deadline");
        job.clear_links();
        job.set_status(Status::Popped);
        self.totals.ready_ms.note(u64::from(job.ready_for(now)), 1);
        self.totals.count(JobCounter::Popped);
        let known = self.ids.remove(job.id());
        debug_assert_eq!(known, Some(slot), "a packet was not found by its id");
        ends
    }

    /// Gathers and takes packets of the oldest pops, up to the steps that are left in this pass.
    /// O(log n) for each. Recording the end of a group is one step, of up to
    /// [`PACKETS_PER_POP_MAX`] short records.
    #[inline]
    pub(super) fn run_large_pops(&mut self, now: Now, fx: &mut Effects) {
        if self.large_pops.pops.is_empty() {
            return;
        }
        while let Some(mut pop) = self.large_pops.pops.pop_front() {
            let more = if pop.packets.is_none() {
                self.gather(&mut pop, now, fx)
            } else {
                self.take_packets(&mut pop, fx)
            };
            if more {
                return self.large_pops.pops.push_front(pop);
            }
            self.spread.end_task();
        }
        debug_assert_eq!(self.large_pops.packet_bytes, 0, "no packets are taken without a pop");
    }

    /// Gathers packets of a group. Returns whether this pass does nothing more for pops.
    fn gather(&mut self, pop: &mut LargePop, now: Now, fx: &mut Effects) -> bool {
        // The first member has the key of all; another group may have it now.
        let group = self.key_groups.of(pop.members[0], &self.jobs);
        while pop.members.len() < PACKETS_PER_POP_MAX {
            let next = self.key_groups.next_in_walk(pop.queue, group, pop.below, &self.jobs);
            let Some(slot) = next else { break };
            if self.spread.steps_left() == 0 {
                return true;
            }
            self.spread.spend(1);
            debug_assert!(self.jobs[slot].id() < pop.below, "packets are gathered newest first");
            debug_assert_eq!(
                self.jobs[slot].key(),
                self.jobs[pop.members[0]].key(),
                "a pop gathers the packets of one key"
            );
            pop.below = self.jobs[slot].id();
            self.unlink_cold(slot);
            if self.jobs[slot].is_expired(now) {
                drop(self.remove(slot, fx));
            } else {
                pop.ends.extend(self.mark_popped(slot, now));
                pop.members.push(slot);
            }
        }
        self.end_gathering(pop);
        if !fx.keeps_changes {
            return self.take_packets(pop, fx);
        }
        fx.mark_dirty(DirtyRecord::EndedTogether(pop.ticket));
        true
    }

    /// All packets are gathered: the queue is no longer on hold.
    fn end_gathering(&mut self, pop: &mut LargePop) {
        self.key_groups.end_walk(pop.queue);
        debug_assert!(
            pop.packets.is_none() && (1..=PACKETS_PER_POP_MAX).contains(&pop.members.len()),
            "a pop gathers once, one packet at least"
        );
        pop.packets = Some(Vec::with_capacity(pop.members.len()));
        let queue = &mut self.queues[pop.queue];
        debug_assert!(queue.holds.has(HoldMarks::GATHERED), "it was on hold while it gathered");
        queue.holds.clear(HoldMarks::GATHERED);
        queue.holds.set(HoldMarks::TAKEN);
        if !queue.waiters.is_empty() {
            self.constraints.schedule_match(pop.queue.into());
        }
    }

    /// Takes packets whose end is recorded, after what ends with them, and answers the pop after
    /// the last one. Returns whether any is left.
    fn take_packets(&mut self, pop: &mut LargePop, fx: &mut Effects) -> bool {
        // What is settled for them comes at the end of the pass.
        while !pop.ends.is_empty() && self.spread.steps_left() > 0 {
            self.spread.spend(1);
            pop.ends.pop_front().into_iter().for_each(|ends| self.end_popped(&ends));
        }
        if !pop.ends.is_empty() {
            return true;
        }
        let packets = pop.packets.get_or_insert_default();
        while packets.len() < pop.members.len() {
            if self.spread.steps_left() == 0 {
                return true;
            }
            self.spread.spend(1);
            let slot = pop.members[packets.len()];
            debug_assert_eq!(self.jobs[slot].status(), Status::Popped, "a member is popped");
            let packet = self.jobs.remove(slot).into_packet();
            fx.mark_dirty(DirtyRecord::Forgotten(RecordKey::Job(slot)));
            pop.packet_bytes += packet.byte_len();
            self.large_pops.packet_bytes += packet.byte_len();
            packets.push(packet);
        }
        debug_assert!(pop.ends.is_empty(), "a pop is answered after what ends with its packets");
        self.large_pops.packet_bytes -= pop.packet_bytes;
        fx.reply(pop.ticket, OwnedReply::Packets(std::mem::take(packets)));
        self.queues[pop.queue].holds.clear(HoldMarks::TAKEN);
        self.queues.list_if_idle(pop.queue);
        false
    }

    /// The jobs of a pop whose end is to be recorded ([`DirtyRecord::EndedTogether`]).
    pub fn popped_together(&self, ticket: Ticket) -> impl Iterator<Item = JobId> {
        let pops = self.large_pops.pops.iter().filter(move |pop| pop.ticket == ticket);
        pops.flat_map(|pop| pop.members.iter().map(|&slot| JobId(self.jobs[slot].id())))
    }

    /// Whether jobs have base records whose end is recorded: they must not be recorded again. O(1).
    #[must_use]
    pub fn has_ended_records(&self) -> bool {
        self.large_pops.is_taking()
    }

    /// Whether the job in `slot` has this id and was popped, and its end may not be recorded yet.
    pub(super) fn is_popped(&self, slot: JobIdx, id: JobId) -> bool {
        let is_popped = |job: &super::Job| job.status() == Status::Popped && job.id() == id.0;
        self.jobs.get(slot).is_some_and(is_popped)
    }
}

#[cfg(test)]
mod tests;
