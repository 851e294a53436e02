//! Replies: each is checked, recorded, and frees its token for the next step.

use super::Generator;
use crate::cli::bench::connection::InFlight;
use crate::cli::bench::job_tracker::quote;
use crate::cli::bench::latency::LatencyKind;
use crate::cli::bench::phase::{PhaseKind, TokenStep};
use crate::cli::bench::protocols::{Answer, Request};

impl Generator<'_> {
    /// Parses the complete replies at the front of `bytes`. Returns their length.
    #[inline]
    pub(super) fn take_replies(
        &mut self,
        number: usize,
        bytes: &[u8],
        now: u64,
    ) -> Result<usize, String> {
        let mut used = 0;
        while used < bytes.len() {
            let Some(flight) = self.connections[number].in_flight.front().copied() else {
                let rest = quote(&bytes[used..]);
                return Err(format!("the server said something without being asked: {rest}"));
            };
            let parsed = self.codec.parse(&flight.request, flight.receipt, &bytes[used..])?;
            let Some((length, answer)) = parsed else { break };
            used += length;
            if answer != Answer::Unsolicited {
                self.connections[number].in_flight.pop_front();
                self.handle_reply(number, flight, &answer, now)?;
            }
        }
        Ok(used)
    }

    /// Checks and records a reply, and frees its token for the next step.
    #[inline]
    fn handle_reply(
        &mut self,
        number: usize,
        flight: InFlight,
        answer: &Answer<'_>,
        now: u64,
    ) -> Result<(), String> {
        self.replies += 1;
        if flight.measured {
            self.window.on_reply(LatencyKind::of(&flight.request), now.saturating_sub(flight.at));
        }
        let step = match (flight.request, answer) {
            (Request::Get { queue, wait: true, .. }, Answer::Job(job)) => {
                let name = self.codec.name(queue);
                let seq = self.tracker.deliver(job, name, &self.codec.content)?;
                self.handle_delivery(seq, now);
                if let TokenStep::Delete { seq, id } = self.after_delivery(seq, job.id) {
                    let at = self.clock.now();
                    self.send(number, Request::Delete { seq, id }, at);
                }
                self.send_waiting_get(number);
                return Ok(());
            }
            (Request::Get { queue, .. }, Answer::Job(job)) => {
                let name = self.codec.name(queue);
                let seq = self.tracker.deliver(job, name, &self.codec.content)?;
                self.check_order(number, seq)?;
                self.after_delivery(seq, job.id)
            }
            (Request::Put { seq }, Answer::Put { id }) => {
                self.tracker.acknowledge(seq, *id)?;
                self.phase.after_put(seq)
            }
            (Request::Delete { seq, .. }, Answer::Deleted | Answer::Echo) => {
                self.tracker.delete(seq);
                self.phase.first()
            }
            (Request::Put { seq }, Answer::Echo) => {
                self.tracker.acknowledge(seq, seq)?;
                self.phase.after_put(seq)
            }
            (Request::Get { seq, .. }, Answer::Echo) => {
                self.tracker.record_delivery(seq, seq)?;
                TokenStep::Delete { seq, id: seq }
            }
            (Request::Get { .. }, Answer::NoJob) if self.phase.kind == PhaseKind::Probes => {
                TokenStep::Next
            }
            (request, _) => return Err(self.no_job(&request)),
        };
        self.in_flight -= 1;
        if number < self.plan.connections {
            self.free.push_back((number, step));
        }
        Ok(())
    }

    /// The step after a delivery: the delete, or the next job if delivery deletes.
    #[inline]
    fn after_delivery(&mut self, seq: u64, id: u64) -> TokenStep {
        if self.plan.protocol.deletes() {
            return TokenStep::Delete { seq, id };
        }
        self.tracker.delete(seq);
        self.phase.first()
    }

    /// A job was delivered to a waiting worker.
    fn handle_delivery(&mut self, seq: u64, now: u64) {
        let at = usize::try_from(seq).unwrap_or(usize::MAX);
        let (put_sent, measured) = self.put_sent[at];
        if measured {
            self.window.latencies.record(LatencyKind::Delivery, now.saturating_sub(put_sent));
        }
        self.undelivered -= 1;
    }

    /// Checks the order: while nothing is put, each connection gets the jobs of a queue by
    /// priority.
    #[inline]
    fn check_order(&mut self, number: usize, seq: u64) -> Result<(), String> {
        let content = &self.codec.content;
        let queue = usize::try_from(content.queue(seq)).unwrap_or(usize::MAX);
        let Some(last) = self.connections[number].last_priorities.get_mut(queue) else {
            return Ok(());
        };
        let priority = content.priority(seq);
        if priority > *last {
            return Err(format!(
                "job n={seq} of priority {priority} was delivered after one of priority {last}, \
                 though it was in the queue before"
            ));
        }
        *last = priority;
        Ok(())
    }

    #[cold]
    fn no_job(&self, request: &Request) -> String {
        match request {
            Request::Get { queue, .. } => {
                let name = self.codec.name(*queue);
                format!("a get from {name} found no job, though one must be there")
            }
            Request::Delete { seq, id } => {
                format!("job n={seq} (id {id}) was delivered, but is not there to be deleted")
            }
            Request::Put { seq } => format!("the put of job n={seq} was answered with no job"),
        }
    }
}
