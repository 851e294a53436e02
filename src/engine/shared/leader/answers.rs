//! What the answers of the sink mean for a leader.

use super::link::Waits;
use super::{Leader, Stage};
use crate::base::time::{Mono, Now};
use crate::engine::shared::limits::{KEPT_BYTES_MAX, TIGHT_INTERVAL};
use crate::engine::shared::redis::{Answer, Requests};
use crate::journal::BatchSeq;
use crate::model::driver::{Link, LinkAction, Severity};

impl Leader {
    fn on_write_answer(&mut self, answer: Answer, now: Mono) {
        match answer {
            Answer::Ok => self.on_accepted(now),
            Answer::Full => {
                if self.tight.is_none() {
                    let text = "the engine's memory is full: nothing is put until it has room";
                    self.note(Severity::Error, text.to_owned());
                }
                self.tight = Some(now.after(TIGHT_INTERVAL));
            }
            Answer::NoLibrary => {
                self.note(Severity::Warn, "the engine's functions are gone: loaded again".into());
                self.link.send(&Requests::load_library(), Waits::Library, now);
            }
            Answer::Later(why) => {
                self.link.rest(now);
                self.note_trouble(why, now);
            }
            Answer::Gap { epoch, seq } => self.on_gap(epoch, seq),
            Answer::Fenced(name) => {
                self.stage = Stage::Fenced;
                self.fail(format!(
                    "another server leads by now ({name}): this one was away for longer than its \
                     lease. Its clients are disconnected: what it has not answered may be done or \
                     not"
                ));
            }
            Answer::Gone => self.fail(
                "the engine's data was removed or replaced by other data: this server stops. What \
                 is in memory here is not written there"
                    .to_owned(),
            ),
            Answer::Refused(why) => self.fail(format!("the engine refuses a write: {why}")),
        }
    }

    fn on_accepted(&mut self, now: Mono) {
        self.end_absence(now);
        if !self.is_sent_tight && self.tight.take().is_some() {
            self.note(Severity::Info, "the engine's memory has room again".to_owned());
        }
        let Some(batch) = self.sealed.pop_front() else { return };
        debug_assert_eq!(batch.seq, self.durable + 1, "a batch is accepted before an earlier one");
        self.durable = batch.seq;
        self.pending_bytes -= batch.request.len();
        self.stats.batches += 1;
        self.stats.changes += batch.changes;
        self.stats.bytes += batch.request.len() as u64;
        self.stats.write_ns.note(now.0.saturating_sub(self.written.0), 1);
        self.kept_bytes += batch.request.len();
        debug_assert!(
            self.kept.back().is_none_or(|newest| newest.seq + 1 == batch.seq),
            "the batches that are kept have no gap"
        );
        self.kept.push_back(batch);
        while self.kept_bytes > KEPT_BYTES_MAX
            && let Some(oldest) = self.kept.pop_front()
        {
            self.kept_bytes -= oldest.request.len();
        }
    }

    /// The sink has lost writes: those behind `seq` are written again.
    fn on_gap(&mut self, epoch: u64, seq: BatchSeq) {
        let has_all = self.kept.front().is_some_and(|oldest| oldest.seq <= seq + 1);
        if epoch != self.term.epoch || seq >= self.durable || !has_all {
            return self.fail(format!(
                "the engine has lost writes, and they are not kept here any more: it has epoch \
                 {epoch} and write {seq}, this server epoch {} and write {}. Restore Redis from \
                 its own files, or start this server again to go on with what is left there",
                self.term.epoch, self.durable
            ));
        }
        let lost = self.durable - seq;
        self.stats.rewritten += lost;
        while let Some(batch) = self.kept.pop_back_if(|batch| batch.seq > seq) {
            self.kept_bytes -= batch.request.len();
            self.pending_bytes += batch.request.len();
            self.sealed.push_front(batch);
        }
        self.durable = seq;
        debug_assert_eq!(
            self.sealed.front().map(|batch| batch.seq),
            Some(seq + 1),
            "what was lost is written again, without a gap"
        );
        let text = format!("the engine has lost its last {lost} writes: they are written again");
        self.note(Severity::Warn, text);
    }

    fn on_answer(&mut self, waits: Waits, answer: Answer, error: Option<String>, now: Mono) {
        match waits {
            Waits::Login(_) | Waits::Library => {
                if let Some(why) = error {
                    self.fail(format!("the engine refuses this server: {why}"));
                }
            }
            Waits::Write => self.on_write_answer(answer, now),
            Waits::Resign => {
                debug_assert!(self.sealed.is_empty(), "a lead is given back after all writes");
                self.stage = Stage::Closed;
                // The next leader waits for the rest of the lease otherwise.
                if answer != Answer::Ok {
                    self.note(Severity::Warn, format!("the lead was not given back: {answer:?}"));
                }
            }
        }
    }
}

impl Link for Leader {
    fn poll_action(&mut self) -> Option<LinkAction> {
        self.link.poll_action()
    }

    fn handle_connected(&mut self, now: Now) {
        self.link.connected(self.requests.login(), now.mono);
    }

    fn handle_lost(&mut self, why: &str, now: Now) {
        self.link.lost(now.mono);
        self.note_trouble(why.to_owned(), now.mono);
    }

    fn handle_input(&mut self, bytes: &[u8], now: Now) {
        self.link.append_input(bytes);
        while self.failure.is_none() {
            let next = self.link.next_answer(|raw| {
                let error = raw.error().map(|(_, text)| String::from_utf8_lossy(text).into_owned());
                (Answer::read(raw), error)
            });
            match (next, self.link.waits()) {
                (Ok(Some((answer, error))), Some((waits, _))) => {
                    self.link.answered();
                    self.on_answer(waits, answer, error, now.mono);
                }
                (Ok(None), _) => return,
                (Ok(Some(_)), None) => self.fail("the engine answers without a request".to_owned()),
                (Err(why), _) => self.fail(format!("what the engine answers {why}")),
            }
        }
    }

    fn output(&self) -> &[u8] {
        self.link.output()
    }

    fn late(&self) -> String {
        let target = &self.settings.target;
        let why = if self.last_error.is_empty() { "no answer" } else { &self.last_error };
        format!(
            "the engine at {}:{} is away ({why}): this server ends without it. Changes that were \
             not answered may be done or not, and the next server leads once the lease is over",
            target.host, target.port
        )
    }

    fn handle_sent(&mut self, count: usize) {
        self.link.handle_sent(count);
    }
}
