//! What the answers of the sink mean for a leader.

use super::link::Waits;
use super::{Leader, Stage};
use crate::base::time::{Mono, Now};
use crate::engine::shared::limits::{KEPT_BYTES_MAX, TIGHT_INTERVAL};
use crate::engine::shared::redis::{Answer, Lead, Primary, Requests, Role, is_passing};
use crate::journal::BatchSeq;
use crate::model::driver::{Link, LinkAction, Severity};
use crate::wire::resp::Raw;

/// An answer, read as what was waited for.
enum Said {
    /// Of a function, or an error.
    Answer(Answer, Option<String>),
    /// Of a Sentinel: host and port.
    Named(Result<Primary, String>),
    Role(Result<Role, String>),
    Replicas(Result<u32, String>),
    Lead(Result<Lead, String>),
}

impl Said {
    fn read(waits: Option<Waits>, raw: Raw<'_>) -> Self {
        match waits {
            Some(Waits::Sentinel) => Self::Named(Primary::read(raw)),
            Some(Waits::Role) => Self::Role(Role::read(raw)),
            Some(Waits::Replicas) => {
                let count = raw.integer().and_then(|count| count.try_into().ok());
                let why = || match raw.error() {
                    Some((_, text)) => String::from_utf8_lossy(text).into_owned(),
                    None => raw.bytes().escape_ascii().to_string(),
                };
                Self::Replicas(count.ok_or_else(why))
            }
            Some(Waits::Lead) => Self::Lead(Lead::read(raw).map_err(|why| why.to_string())),
            _ => {
                let error = raw.error().map(|(_, text)| String::from_utf8_lossy(text).into_owned());
                Self::Answer(Answer::read(raw), error)
            }
        }
    }
}

impl Leader {
    fn on_write_answer(&mut self, answer: Answer, now: Mono) {
        match answer {
            Answer::Ok(offer) => {
                self.on_accepted(now);
                self.note_offer(offer, now);
            }
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
            Answer::Moved(primary) => self.link.go_on(primary, now),
            Answer::Later(why) => self.on_refused_for_now(why, now),
            Answer::Gap { epoch, seq } => self.on_gap(epoch, seq, now),
            Answer::Fenced(name) => self.on_fenced(&name),
            Answer::Gone => self.fail(
                "the engine's data was removed or replaced by other data: this server stops. What \
                 is in memory here is not written there"
                    .to_owned(),
            ),
            Answer::Refused(why) => self.fail(format!("the engine refuses a write: {why}")),
        }
    }

    fn on_fenced(&mut self, name: &str) {
        self.stage = Stage::Fenced;
        self.fail(format!(
            "another server leads by now ({name}): this one was away for longer than its lease. \
             Its clients are disconnected: what it has not answered may be done or not"
        ));
    }

    fn on_refused_for_now(&mut self, why: String, now: Mono) {
        let is_replica = why.starts_with("READONLY") || why.starts_with("MASTERDOWN");
        if is_replica && self.link.may_move() {
            // Another node is the primary by now.
            self.link.drop_connection(now);
        } else {
            self.link.rest(now);
        }
        self.note_trouble(why, now);
    }

    /// An error of something else than a write. If it passes, the node is asked for anew, and what
    /// was not accepted is written again.
    fn on_refused(&mut self, why: &str, now: Mono) {
        let why = why.trim_end();
        if is_passing(why.as_bytes()) {
            self.link.drop_connection(now);
            return self.note_trouble(why.to_owned(), now);
        }
        let help = if why.contains("NOPERM") {
            ": docs/redis.md has the rights that its user needs in one line"
        } else {
            ""
        };
        self.fail(format!("the engine refuses this server: {why}{help}"));
    }

    /// What the node says of itself.
    fn on_role(&mut self, role: Result<Role, String>, now: Mono) {
        match role {
            Ok(Role::Primary(replicas)) => {
                if let Some(text) = self.replicas.note(replicas) {
                    let needs = self.replicas.wanted();
                    let severity = if replicas < needs || replicas == 0 {
                        Severity::Warn
                    } else {
                        Severity::Info
                    };
                    self.note(severity, text);
                }
            }
            Ok(Role::Other) if self.link.may_move() => {
                self.link.drop_connection(now);
                self.note_trouble("the node that was named is a replica".into(), now);
            }
            Ok(Role::Other) => {}
            Err(why) => self.on_refused(&why, now),
        }
        self.replicas.note_asked(now);
    }

    /// This many replicas have the write that is under way.
    fn on_replicas(&mut self, count: u32, now: Mono) {
        let Some(answer) = self.write_answer.take() else { return };
        let wanted = self.replicas.wanted();
        if !matches!(answer, Answer::Ok(_)) || count >= wanted {
            return self.on_write_answer(answer, now);
        }
        // It is written again under its number, which renews the lease and asks once more.
        self.replicas.ask_again();
        self.link.rest(now);
        let why = format!("{count} of {wanted} replicas have what was written (--engine-wait)");
        self.note_trouble(why, now);
    }

    /// It is not known how many replicas have the write that is under way.
    fn on_unknown_replicas(&mut self, why: &str, now: Mono) {
        match self.write_answer.take() {
            // It was not accepted, so none was to have it.
            Some(answer) if !matches!(answer, Answer::Ok(_)) => self.on_write_answer(answer, now),
            _ => self.on_refused(why, now),
        }
    }

    /// This server leads again, or another one does.
    fn on_lead(&mut self, lead: Lead, now: Mono) {
        match lead {
            Lead::Led { epoch, seq, .. } if epoch == self.term.epoch => {
                self.on_gap(epoch, seq, now);
            }
            Lead::Led { epoch, seq, .. } => self.on_lost(epoch, seq),
            Lead::Held { name, .. } => self.on_fenced(&name),
        }
    }

    fn on_accepted(&mut self, now: Mono) {
        self.end_absence(now);
        if !self.is_sent_tight && self.tight.take().is_some() {
            self.note(Severity::Info, "the engine's memory has room again".to_owned());
        }
        let Some(batch) = self.sealed.pop_front() else { return };
        debug_assert_eq!(batch.seq, self.durable + 1, "a batch is accepted before an earlier one");
        debug_assert!(
            self.pending_bytes >= batch.request.len(),
            "a batch that is written is among the unwritten bytes"
        );
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
    fn on_gap(&mut self, epoch: u64, seq: BatchSeq, now: Mono) {
        let has_all =
            seq == self.durable || self.kept.front().is_some_and(|oldest| oldest.seq <= seq + 1);
        if epoch > self.term.epoch || seq > self.durable || !has_all {
            return self.on_lost(epoch, seq);
        }
        if epoch < self.term.epoch {
            // It does not know that this server leads.
            let request = self.requests.lead(&self.term.birth, self.term.epoch);
            return self.link.send(&request, Waits::Lead, now);
        }
        let lost = self.durable - seq;
        if lost == 0 {
            return;
        }
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
        debug_assert!(
            self.kept.back().is_none_or(|newest| newest.seq == seq),
            "what was lost is kept as if it was accepted"
        );
        let text = format!("the engine has lost its last {lost} writes: they are written again");
        self.note(Severity::Warn, text);
    }

    fn on_lost(&mut self, epoch: u64, seq: BatchSeq) {
        self.fail(format!(
            "the engine has lost writes, and they are not kept here any more: it has epoch {epoch} \
             and write {seq}, this server epoch {} and write {}. Restore Redis from its own \
             files, or start this server again to go on with what is left there",
            self.term.epoch, self.durable
        ));
    }

    /// What came of the resignation. What the sink has lost is written again before.
    fn on_resigned(&mut self, answer: Answer, now: Mono) {
        debug_assert!(self.sealed.is_empty(), "a lead is given back after all writes");
        let why = match answer {
            Answer::Gap { .. } | Answer::Later(_) | Answer::NoLibrary | Answer::Moved(_) => {
                return self.on_write_answer(answer, now);
            }
            Answer::Ok(_) | Answer::Fenced(_) => None,
            Answer::Gone => Some("the engine's data was removed or replaced".to_owned()),
            Answer::Full => Some("the engine's memory is full".to_owned()),
            Answer::Refused(why) => Some(why),
        };
        self.stage = Stage::Closed;
        if let Some(why) = why {
            // The next leader waits for the rest of the lease.
            self.note(Severity::Warn, format!("the lead was not given back: {why}"));
        }
    }

    fn on_answer(&mut self, waits: Waits, said: Said, now: Mono) {
        match (waits, said) {
            (_, Said::Answer(Answer::Moved(primary), _)) if waits != Waits::Write(true) => {
                self.link.go_on(primary, now);
            }
            (Waits::Login(_), Said::Answer(_, Some(why))) if self.link.asks_sentinel() => {
                // Another one may let this server in.
                self.link.drop_connection(now);
                self.note_trouble(format!("the login at a Sentinel failed: {why}"), now);
            }
            (Waits::Login(_) | Waits::Library, Said::Answer(_, Some(why))) => {
                self.on_refused(&why, now);
            }
            (Waits::Write(true), Said::Answer(answer, _)) => self.write_answer = Some(answer),
            (Waits::Write(false), Said::Answer(answer, _)) => self.on_write_answer(answer, now),
            (Waits::Sentinel, Said::Named(Ok(primary))) => self.link.go_on(primary, now),
            (Waits::Sentinel, Said::Named(Err(why))) => {
                self.link.drop_connection(now);
                self.note_trouble(why, now);
            }
            (Waits::Role, Said::Role(role)) => self.on_role(role, now),
            (Waits::Replicas, Said::Replicas(Ok(count))) => self.on_replicas(count, now),
            (Waits::Replicas, Said::Replicas(Err(why))) => self.on_unknown_replicas(&why, now),
            (Waits::Lead, Said::Lead(Ok(lead))) => self.on_lead(lead, now),
            (Waits::Lead, Said::Lead(Err(why))) => {
                self.link.rest(now);
                self.note_trouble(why, now);
            }
            (Waits::Resign, Said::Answer(answer, _)) => self.on_resigned(answer, now),
            _ => {}
        }
    }
}

impl Link for Leader {
    fn poll_action(&mut self) -> Option<LinkAction> {
        self.link.poll_action()
    }

    fn handle_connected(&mut self, now: Now) {
        self.write_answer = None;
        self.link.connected(&self.requests, now.mono);
    }

    fn handle_lost(&mut self, why: &str, now: Now) {
        self.link.lost(now.mono);
        self.note_trouble(why.to_owned(), now.mono);
    }

    fn handle_input(&mut self, bytes: &[u8], now: Now) {
        self.link.append_input(bytes);
        // An answer may end the connection.
        while self.failure.is_none() && self.link.is_up() {
            let waits = self.link.waits().map(|(waits, _)| waits);
            match (self.link.next_answer(|raw| Said::read(waits, raw)), waits) {
                (Ok(Some(said)), Some(waits)) => {
                    self.link.answered();
                    self.on_answer(waits, said, now.mono);
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
        let why = if self.last_error.is_empty() { "no answer" } else { &self.last_error };
        format!(
            "the engine at {} is away ({why}): this server ends without it. Changes that were not \
             answered may be done or not, and the next server leads once the lease is over",
            self.settings.address
        )
    }

    fn handle_sent(&mut self, count: usize) {
        self.link.handle_sent(count);
    }

    fn offer_lead(&mut self, now: Now) -> bool {
        self.begin_offer(now.mono)
    }

    fn offers_lead(&mut self, now: Now) -> bool {
        self.is_offer_open(now.mono)
    }
}
