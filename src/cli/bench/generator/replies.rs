//! What a reply means: it is checked, booked, and frees its token for the next step.

use super::Generator;
use crate::cli::bench::connection::InFlight;
use crate::cli::bench::job_tracker::shown;
use crate::cli::bench::latency::Kind;
use crate::cli::bench::phase::{PhaseKind, Step};
use crate::cli::bench::protocols::{Answer, Request};

impl Generator<'_> {
    /// Takes whole replies off the front of `bytes`, and says how many bytes these were.
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
                let rest = shown(&bytes[used..]);
                return Err(format!("the server said something without being asked: {rest}"));
            };
            let parsed = self.wire.parse(&flight.request, flight.receipt, &bytes[used..])?;
            let Some((length, answer)) = parsed else { break };
            used += length;
            if answer != Answer::Aside {
                self.connections[number].in_flight.pop_front();
                self.settle(number, flight, &answer, now)?;
            }
        }
        Ok(used)
    }

    /// Checks and books a reply; its token is free for the next step.
    #[inline]
    fn settle(
        &mut self,
        number: usize,
        flight: InFlight,
        answer: &Answer<'_>,
        now: u64,
    ) -> Result<(), String> {
        self.replies += 1;
        if flight.measured {
            self.window.settle(Kind::of(&flight.request), now.saturating_sub(flight.at));
        }
        let step = match (flight.request, answer) {
            (Request::Get { queue, wait: true, .. }, Answer::Job(job)) => {
                let name = self.wire.name(queue);
                let seq = self.ledger.deliver(job, name, &self.wire.content)?;
                self.handle_delivery(seq, now);
                if let Step::Delete { seq, id } = self.after_delivery(seq, job.id) {
                    let at = self.clock.now();
                    self.send(number, Request::Delete { seq, id }, at);
                }
                self.wait(number);
                return Ok(());
            }
            (Request::Get { queue, .. }, Answer::Job(job)) => {
                let name = self.wire.name(queue);
                let seq = self.ledger.deliver(job, name, &self.wire.content)?;
                self.check_order(number, seq)?;
                self.after_delivery(seq, job.id)
            }
            (Request::Put { seq }, Answer::Put { id }) => {
                self.ledger.acknowledge(seq, *id)?;
                self.phase.after_put(seq)
            }
            (Request::Delete { seq, .. }, Answer::Deleted | Answer::Echo) => {
                self.ledger.delete(seq);
                self.phase.first()
            }
            (Request::Put { seq }, Answer::Echo) => {
                self.ledger.acknowledge(seq, seq)?;
                self.phase.after_put(seq)
            }
            (Request::Get { seq, .. }, Answer::Echo) => {
                self.ledger.take(seq, seq)?;
                Step::Delete { seq, id: seq }
            }
            (Request::Get { .. }, Answer::NoJob) if self.phase.way == PhaseKind::Probes => {
                Step::Next
            }
            (request, _) => return Err(self.no_job(&request)),
        };
        self.in_flight -= 1;
        if number < self.plan.connections {
            self.free.push_back((number, step));
        }
        Ok(())
    }

    /// What a delivered job is followed by: its delete, or, where it is gone by then, the next job.
    #[inline]
    fn after_delivery(&mut self, seq: u64, id: u64) -> Step {
        if self.plan.protocol.deletes() {
            return Step::Delete { seq, id };
        }
        self.ledger.delete(seq);
        self.phase.first()
    }

    /// A job has reached a worker that waited.
    fn handle_delivery(&mut self, seq: u64, now: u64) {
        let at = usize::try_from(seq).unwrap_or(usize::MAX);
        let (born, measured) = self.born[at];
        if measured {
            self.window.latencies.record(Kind::Delivery, now.saturating_sub(born));
        }
        self.undelivered -= 1;
    }

    /// While nobody puts, each connection gets the jobs of a queue in the order of their priority.
    #[inline]
    fn check_order(&mut self, number: usize, seq: u64) -> Result<(), String> {
        let content = &self.wire.content;
        let queue = usize::try_from(content.queue(seq)).unwrap_or(usize::MAX);
        let Some(last) = self.connections[number].last.get_mut(queue) else { return Ok(()) };
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
                let name = self.wire.name(*queue);
                format!("a get from {name} found no job, though one must be there")
            }
            Request::Delete { seq, id } => {
                format!("job n={seq} (id {id}) was delivered, but is not there to be deleted")
            }
            Request::Put { seq } => format!("the put of job n={seq} was answered with no job"),
        }
    }
}
