//! The oracle's store for HTTP clients: indexed queues, queries, and single jobs.

use super::store_model::{Content, Job, StoreModel, Watched};
use super::types::{Body, Page, QUEUES, Question, Queue, Reply, STATES, Want};
use jobcentre::base::limits::POLL_ROWS_PER_STEP;

impl Want {
    fn fits(self, job: &Job) -> bool {
        let state = job.record.as_ref().unwrap().state;
        let has = |n| matches!(&job.content, Content::Json(payload) if payload.n == Some(n));
        self.state.is_none_or(|wanted| wanted == state) && self.n.is_none_or(has)
    }
}

fn list(rows: &[Job], limit: Option<usize>) -> Page {
    let rows = rows.iter().take(limit.unwrap_or(usize::MAX));
    Page::jobs(&rows.map(Job::text).collect::<Vec<_>>())
}

impl StoreModel {
    /// Answers a question. One that has to be looked at elsewhere is answered later:
    /// go on with [`StoreModel::begin_search`].
    pub(super) fn answer(&mut self, question: &Question) -> Reply {
        let queue = match *question {
            Question::Queues => return Reply::Page(self.list_queues()),
            Question::Declare(queue) => return Reply::Page(self.declare(queue)),
            Question::Wrong(204, allow) => {
                return Reply::Page(Page { allow, ..Page::new(204, Body::None) });
            }
            Question::Wrong(status, allow) => {
                return Reply::Page(Page { allow, ..Page::error(status) });
            }
            Question::Drop(queue)
            | Question::List(queue)
            | Question::Find { queue, .. }
            | Question::Poll { queue, .. }
            | Question::Post { queue, .. }
            | Question::Show(queue, _)
            | Question::Delete(queue, _)
            | Question::Advance { queue, .. }
            | Question::Note { queue, .. } => queue,
        };
        if !self.exists(queue) {
            self.note("no such queue");
            return Reply::Page(Page::error(404));
        }
        self.watched[queue].get_or_insert_with(Watched::default);
        Reply::Page(match *question {
            Question::Drop(_) => self.drop_queue(queue),
            Question::List(_) => {
                let job = |job: &Job| {
                    let state = STATES[job.record.as_ref().unwrap().state].shown;
                    format!("{{\"id\":{},\"state\":{state}}}", job.id)
                };
                Page::jobs(&self.rows(queue, Want::default()).iter().map(job).collect::<Vec<_>>())
            }
            Question::Find { want, limit, .. } => {
                self.record_all(queue);
                if want.n.is_some() {
                    return Reply::Later;
                }
                list(&self.rows(queue, want), limit)
            }
            Question::Poll { want, .. } if want.n.is_some() => {
                self.record_all(queue);
                return Reply::Later;
            }
            Question::Poll { want, new, .. } => self.poll(queue, want, new),
            Question::Post { ref payload, state, .. } => self.post(queue, payload, state),
            Question::Show(_, id) => self.about(queue, id, |_| None),
            Question::Delete(_, id) => self.delete(queue, id),
            Question::Advance { id, old, new, .. } => self.about(queue, id, |store| {
                let state = store.find(id).unwrap().record.as_ref().unwrap().state;
                if state != old {
                    store.note("another state");
                    let state = Some(STATES[state].shown.to_owned());
                    return Some(Page::new(409, Body::Error(state)));
                }
                store.advance(id, new);
                None
            }),
            Question::Note { id, event, .. } => self.about(queue, id, |store| {
                store.happen(id, "user_event", &format!("\"event\":{event},"));
                None
            }),
            Question::Queues | Question::Declare(_) | Question::Wrong(..) => {
                unreachable!("answered already")
            }
        })
    }

    /// What is there at this moment of what a search is for; `None` if there is no such queue.
    pub(super) fn begin_search(&mut self, question: &Question) -> Option<Vec<Job>> {
        let (Question::Find { queue, want, .. } | Question::Poll { queue, want, .. }) = *question
        else {
            panic!("nothing to search for: {question:?}")
        };
        if !self.exists(queue) {
            self.note("a queue went before a search");
            return None;
        }
        self.watched[queue].get_or_insert_with(Watched::default);
        Some(self.rows(queue, want))
    }

    /// What is made of what was found; `None` if all that a poll could have has changed since.
    pub(super) fn end_search(&mut self, question: &Question, found: &[Job]) -> Option<Page> {
        self.note("a search");
        let new = match *question {
            Question::Poll { new, .. } => new,
            Question::Find { limit, .. } => return Some(list(found, limit)),
            _ => panic!("nothing to search for: {question:?}"),
        };
        if found.is_empty() {
            return Some(Page::error(404));
        }
        let most = usize::try_from(POLL_ROWS_PER_STEP).unwrap();
        let same = |it: &&Job| self.find(it.id).is_some_and(|job| job.is_unchanged_since(it));
        let Some(id) = found.iter().take(most).find(same).map(|job| job.id) else {
            self.note("what was found had changed");
            return None;
        };
        if id != found[0].id {
            self.note("the first that was found had changed");
        }
        self.advance(id, new);
        Some(self.show(id))
    }

    fn record_all(&mut self, queue: Queue) {
        let jobs = self.jobs.iter().filter(|job| job.queue == queue);
        for id in jobs.map(|job| job.id).collect::<Vec<_>>() {
            self.record(id);
        }
    }

    /// The jobs that a query is for, longest untouched first.
    fn rows(&mut self, queue: Queue, want: Want) -> Vec<Job> {
        self.record_all(queue);
        let jobs = self.jobs.iter().filter(|job| job.queue == queue && want.fits(job));
        let mut rows: Vec<Job> = jobs.cloned().collect();
        rows.sort_by_key(|job| (job.record.as_ref().unwrap().modified, job.id));
        rows
    }

    fn poll(&mut self, queue: Queue, want: Want, new: usize) -> Page {
        let Some(id) = self.rows(queue, want).first().map(|job| job.id) else {
            self.note("a poll found nothing");
            return Page::error(404);
        };
        let held = self.find(id).unwrap().holder.is_some();
        self.note(if held { "a poll found a job at work" } else { "a poll found a job" });
        self.advance(id, new);
        self.show(id)
    }

    /// Shows a job of a queue after something was done to it.
    fn about(
        &mut self,
        queue: Queue,
        id: u64,
        deed: impl FnOnce(&mut Self) -> Option<Page>,
    ) -> Page {
        if self.find(id).is_none_or(|job| job.queue != queue) {
            self.miss(id, true);
            return Page::error(404);
        }
        self.record(id);
        deed(self).unwrap_or_else(|| self.show(id))
    }

    fn delete(&mut self, queue: Queue, id: u64) -> Page {
        match self.find(id).filter(|job| job.queue == queue).map(|job| job.holder.is_some()) {
            None => {
                self.miss(id, true);
                return Page::error(404);
            }
            Some(true) => self.note("a job at work was deleted"),
            Some(false) => self.note("a job was deleted"),
        }
        self.remove(id, true);
        Page::json("{}".to_owned())
    }

    fn drop_queue(&mut self, queue: Queue) -> Page {
        let there = self.jobs.iter().filter(|job| job.queue == queue);
        let there: Vec<u64> = there.map(|job| job.id).collect();
        for &id in &there {
            if self.find(id).unwrap().holder.is_some() {
                self.note("a job at work was dropped");
            }
            self.remove(id, true);
        }
        if let Some(watched) = &mut self.watched[queue] {
            watched.declared = false;
        }
        self.end_watches();
        self.note("a queue was dropped");
        Page::json(format!("{{\"deleted\":{}}}", there.len()))
    }

    /// All queues, sorted as they are named.
    fn list_queues(&self) -> Page {
        let mut there: Vec<Queue> = (0..QUEUES.len()).filter(|&it| self.exists(it)).collect();
        there.sort_by_key(|&queue| QUEUES[queue].bytes);
        let row = |&queue: &Queue| {
            let jobs = self.jobs.iter().filter(|job| job.queue == queue).count();
            format!("{{\"id\":{},\"jobs\":{jobs}}}", QUEUES[queue].shown)
        };
        let rows: Vec<String> = there.iter().map(row).collect();
        Page::json(format!("{{\"queues\":[{}]}}", rows.join(",")))
    }
}
