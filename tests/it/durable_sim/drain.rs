//! The end of a run: every job that is ready is taken, and comes once.

use super::oracle::Oracle;
use super::{constraint_model, manage};
use jobcentre::base::strings::StringList;
use jobcentre::base::time::Now;
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::reply::Reply;
use std::collections::BTreeSet;

impl Oracle {
    /// Takes every job that is ready: each comes once. That a job with a record was taken is
    /// written down, so the disk has to `work` before that is told.
    pub(super) fn drain(
        &mut self,
        engine: &mut Engine,
        generation: u32,
        now: Now,
        mut work: impl FnMut(&mut Engine),
    ) {
        let client = ClientId { index: 98, generation };
        let mut names = StringList::default();
        for queue in super::QUEUES {
            names.push(queue);
        }
        let mut taken = BTreeSet::new();
        constraint_model::free_all(engine, client, now);
        manage::resume_all(engine, client, now);
        work(engine);
        while engine.poll_completion().is_some() {}
        for serial in 0.. {
            let command = Command::Reserve { queues: names.from(0), wait: Wait::No };
            engine.submit(Ticket { client, serial }, &command, now);
            let mut more = self.on_reply_drained(engine, &mut taken);
            if more.is_none() {
                work(engine);
                more = self.on_reply_drained(engine, &mut taken);
            }
            if !more.expect("it is answered when it is durable") {
                break;
            }
        }
        self.check_dependents(engine, client, now, &mut work);
    }

    /// Whether a job was handed out, if that is told.
    fn on_reply_drained(
        &mut self,
        engine: &mut Engine,
        taken: &mut BTreeSet<JobId>,
    ) -> Option<bool> {
        let Reply::Job(job) = engine.poll_completion()?.reply else { return Some(false) };
        self.check_job(&job);
        self.check_dependent(job.id);
        assert!(taken.insert(job.id), "a job was handed out twice");
        self.seen.drained += 1;
        Some(true)
    }
}
