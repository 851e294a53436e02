//! Matching: the waiters, and which of them gets a job.

use super::order::leaves_before;
use super::types::Queue;
use super::{Job, Oracle, Waiter};
use jobcentre::base::limits::CONSTRAINT_SCAN_BYTES_PER_PASS;
use jobcentre::model::id::{ClientId, Ticket};
use jobcentre::model::job::Status;

/// In place of a queue: the waiters for any tracked job.
pub(crate) const ANYWHERE: Queue = usize::MAX;

impl Oracle {
    /// The jobs of a queue that would be selected next: one for each set of workers that have
    /// refused one.
    pub(crate) fn tops(&self, queue: Queue) -> Vec<&Job> {
        let mut tops: Vec<&Job> = Vec::new();
        for job in &self.jobs {
            let there = job.queue == queue || queue == ANYWHERE && job.options().tracked;
            let waits = there && job.status == Status::Ready && !self.is_over(job);
            if !waits || self.is_held_back(job) || self.is_paused(job.queue) {
                continue;
            }
            match tops.iter_mut().find(|top| top.refused_by == job.refused_by) {
                None => tops.push(job),
                Some(top) if leaves_before(job, top) => *top = job,
                Some(_) => {}
            }
        }
        tops
    }

    /// Whether a client may have a job.
    fn is_for(&self, client: ClientId, job: &Job) -> bool {
        self.worker_of(client).is_none_or(|worker| !job.refused_by.contains(&worker))
    }

    /// Those of these queues that a client may have.
    fn tops_for(&self, queues: &[Queue], client: ClientId) -> Vec<&Job> {
        let tops = queues.iter().flat_map(|&queue| self.tops(queue));
        tops.filter(|job| self.is_for(client, job)).collect()
    }

    /// The job that a reserve or pop of these queues selects.
    pub(crate) fn best_of(&self, queues: &[Queue], client: ClientId) -> Option<u64> {
        let mut best: Option<&Job> = None;
        for top in self.tops_for(queues, client) {
            if best.is_none_or(|best| leaves_before(top, best)) {
                best = Some(top);
            }
        }
        best.map(|job| job.id)
    }

    /// The job that a pop of these queues selects. One that waits does not see what is too large.
    pub(crate) fn first_of(&self, queues: &[Queue], client: ClientId, waits: bool) -> Option<u64> {
        let mut best: Option<&Job> = None;
        for &queue in queues {
            for top in self.tops_for(&[queue], client) {
                let seen = !(waits && top.load.is_too_large());
                let goes_first = |best: &Job| {
                    top.priority > best.priority || best.queue == queue && leaves_before(top, best)
                };
                if seen && best.is_none_or(goes_first) {
                    best = Some(top);
                }
            }
        }
        best.map(|job| job.id)
    }

    /// The first waiter that is eligible for a top job of a queue, and the job.
    fn next_service(&self, queue: Queue) -> Option<(Ticket, &Job)> {
        let mut next: Option<(Ticket, &Job)> = None;
        if ![queue, ANYWHERE].into_iter().any(|queue| self.has_waiters(queue)) {
            return None;
        }
        for top in self.tops(queue) {
            let place = |waiter: &Waiter| {
                let fits = !(waiter.pops && top.load.is_too_large());
                let can = fits && self.is_for(waiter.ticket.client, top);
                let named = |place: &&(Queue, u64)| {
                    place.0 == queue || place.0 == ANYWHERE && top.options().tracked
                };
                let places = waiter.places.iter().filter(named).map(|&(_, place)| place);
                places.filter(|_| can).min().map(|place| (place, waiter.ticket))
            };
            let first = self.waiters.iter().filter_map(place).min();
            if let Some((_, ticket)) = first
                && next.is_none_or(|(_, best)| leaves_before(top, best))
            {
                next = Some((ticket, top));
            }
        }
        next
    }

    /// Matches the waiters of these queues, the most urgent job first.
    pub(crate) fn serve(&mut self, queues: &[Queue]) {
        // Where there are constraints a job may make way for another one anywhere.
        let mut queues = queues.to_vec();
        self.notice_lost();
        queues.extend(self.settle_ended());
        if !self.constraints.is_empty() {
            for queue in 0..self.names.len() {
                if !queues.contains(&queue) && self.is_looked_at(queue) {
                    queues.push(queue);
                }
            }
        }
        for number in 0.. {
            // A pop may have let other jobs go, and so may what the engine has come across.
            if number > 0 {
                self.notice_lost();
            }
            queues.extend(self.settle_ended());
            let mut next: Option<(Ticket, &Job)> = None;
            for service in
                queues.iter().chain(&[ANYWHERE]).filter_map(|&queue| self.next_service(queue))
            {
                if next.is_none_or(|(_, best)| leaves_before(service.1, best)) {
                    next = Some(service);
                }
            }
            let Some((ticket, job)) = next else { return };
            let (id, queue, too_large) = (job.id, job.queue, job.load.is_too_large());
            let index = self.waiters.iter().position(|waiter| waiter.ticket == ticket).unwrap();
            if number > 0 {
                self.see("service: of several");
            }
            if self.waiters.remove(index).pops {
                self.see("service: a pop");
                self.pop_out(id, ticket);
            } else {
                self.see("service: a reserve");
                if too_large && self.has_waiters(queue) {
                    self.see("too large: given to a reserve, past pops");
                }
                self.hand_out(id, ticket);
            }
        }
    }

    /// Settles what has ended, and matches waiters with the jobs that this has released.
    pub(crate) fn serve_ended(&mut self) {
        if !self.ended.is_empty() {
            self.serve(&[]);
        }
    }

    /// Whatever has changed may let jobs of all queues run.
    pub(crate) fn serve_everywhere(&mut self) {
        let all: Vec<Queue> = (0..self.names.len()).collect();
        self.serve(&all);
    }

    pub(crate) fn has_waiters(&self, queue: Queue) -> bool {
        self.waiters.iter().any(|waiter| waiter.places.iter().any(|place| place.0 == queue))
    }

    /// Whether pops wait beside payloads that a change of constraints looks at in several passes:
    /// jobs that are too large for them are blocked meanwhile.
    pub(crate) fn pops_may_pass_large_jobs(&self) -> bool {
        let bytes: usize = self.jobs.iter().map(|job| job.load.text.len()).sum();
        bytes >= CONSTRAINT_SCAN_BYTES_PER_PASS && self.waiters.iter().any(|waiter| waiter.pops)
    }

    /// Matches waiters with a job that has become ready merely because time has passed, if
    /// the engine notices.
    pub(crate) fn serve_if_noticed(&mut self, queue: Queue) {
        if self.would_serve(queue) && self.notices() {
            self.serve(&[queue]);
        }
    }

    /// Whether a waiter of a queue could have a job.
    pub(crate) fn would_serve(&self, queue: Queue) -> bool {
        self.next_service(queue).is_some()
    }

    /// Whether the engine looks at a queue where nothing has changed but that time has passed.
    fn is_looked_at(&mut self, queue: Queue) -> bool {
        let is_over = |job: &Job| job.queue == queue && self.is_over(job);
        let hidden = self.jobs.iter().any(is_over) && self.next_service(queue).is_some();
        !hidden || self.notices()
    }

    /// The next choice of the engine.
    pub(crate) fn notices(&mut self) -> bool {
        if self.chosen == self.choices.len() {
            self.choices.push(false);
        }
        self.chosen += 1;
        let notices = self.choices[self.chosen - 1];
        self.see(if notices { "choice: served at once" } else { "choice: served later" });
        notices
    }

    /// Whether the engine may have to choose: some job is over, or will be when it goes back.
    pub(crate) fn may_choose(&self) -> bool {
        !self.waiters.is_empty() && self.jobs.iter().any(|job| self.has_passed(job))
    }

    /// To be called before a step that may look at jobs that are over, and forget them.
    pub(crate) fn doubt(&mut self) {
        let over: Vec<bool> = self.jobs.iter().map(|job| self.is_over(job)).collect();
        for (job, over) in self.jobs.iter_mut().zip(over) {
            job.doubtful |= over;
        }
    }

    /// Matches waiters when a job has come or the first one has gone.
    pub(crate) fn serve_after(&mut self, id: u64, queue: Queue, was_in_front: bool) {
        let is_ready = self.find(id).is_some_and(|job| job.status == Status::Ready);
        if !is_ready && was_in_front && self.next_service(queue).is_some() {
            self.see("too large: gone before waiting pops");
        }
        if is_ready || was_in_front || !self.constraints.is_empty() {
            self.serve(&[queue]);
        } else {
            self.serve_if_noticed(queue);
        }
    }

    /// Whether a job is or was the one that would be selected next.
    pub(crate) fn is_in_front(&self, job: &Job) -> bool {
        let tops = self.tops(job.queue);
        let beside = tops.iter().find(|top| top.refused_by == job.refused_by && top.id != job.id);
        job.status == Status::Ready && beside.is_none_or(|top| leaves_before(job, top))
    }

    /// What the engine may notice at any time: of each queue, and of several together.
    pub(super) fn notice(&mut self) {
        let mut noticed = Vec::new();
        for queue in 0..self.names.len() {
            if self.would_serve(queue) && self.notices() {
                noticed.push(queue);
            }
        }
        if noticed.len() > 1 && self.notices() {
            return self.serve(&noticed);
        }
        // In any order.
        while !noticed.is_empty() {
            let last = noticed.len() - 1;
            let next = (0..last).find(|_| !self.notices()).unwrap_or(last);
            let queue = noticed.remove(next);
            self.serve(&[queue]);
        }
    }
}
