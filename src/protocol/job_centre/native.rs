//! Requests of the native API on a connection.
//!
//! One is parsed, then submitted. If its command is answered at once in any case, later requests
//! are carried out before the answer is there, as behind a plain put: with a data directory an
//! answer waits for the disk, and one sync serves all that were submitted meanwhile. Otherwise the
//! session waits for it. A get that waits may have a second command, which says more about the job
//! that it was given.

use super::{Session, State};
use crate::base::buf::OutBuf;
use crate::model::reply::Reply;
use crate::protocol::operations::{
    Args, Call, Local, Next, Problem, ProblemKind, PromptCall, ServerLimits, Style, write_line,
};
use crate::protocol::{SessionAction, SessionContext, StatsKind};
use std::collections::VecDeque;
use std::sync::Arc;

/// The unanswered ones of a connection. There is no such thing while there are none.
#[derive(Debug, Default)]
pub(super) struct NativeCalls {
    /// The one that is submitted next, or for whose reply the session waits.
    current: Option<Call>,
    /// Its serial, once its first command was submitted.
    serial: Option<u32>,
    /// Its next command is submitted in the next pass.
    is_later: bool,
    /// Those that are answered at once, by serial: oldest first.
    prompt: VecDeque<(u32, PromptCall)>,
}

impl NativeCalls {
    fn is_empty(&self) -> bool {
        self.current.is_none() && self.prompt.is_empty()
    }

    /// O(1) for the oldest, as usual.
    fn take_prompt(&mut self, serial: u32) -> Option<PromptCall> {
        let at = self.prompt.iter().position(|&(other, _)| other == serial)?;
        self.prompt.remove(at).map(|(_, call)| call)
    }
}

impl Session {
    /// Takes a request that was parsed: it is submitted next.
    #[cold]
    pub(super) fn begin_native(&mut self, args: Arc<Args>) {
        let calls = self.native.get_or_insert_default();
        calls.current = Some(Call::new(args, Style::Line));
        (calls.serial, calls.is_later) = (None, false);
        self.state = State::Parsed;
    }

    /// Notes a request of the native API that is answered at once, and is submitted now.
    #[cold]
    pub(super) fn expect_native(&mut self, serial: u32, call: PromptCall) {
        self.native.get_or_insert_default().prompt.push_back((serial, call));
    }

    /// Submits the request of the native API that was parsed.
    #[cold]
    pub(super) fn submit_native<'s>(
        &mut self,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        let Some(calls) = &mut self.native else { return SessionAction::Stalled };
        let Some(call) = &mut calls.current else { return SessionAction::Stalled };
        if std::mem::take(&mut calls.is_later) {
            return SessionAction::Yield;
        }
        let limits = ServerLimits::of(&shared.settings);
        let answer = match call.local(&mut shared.turn, limits) {
            Local::Command => None,
            Local::Caller => return SessionAction::FetchCaller,
            Local::Stats => return SessionAction::FetchStats(StatsKind::Server),
            Local::Admin(request) => return SessionAction::Administer(request),
            Local::Later => {
                // The connection owes an answer: it is not over when its client sends no more.
                calls.serial.get_or_insert_with(|| self.replies.open());
                self.state = State::Awaiting;
                return SessionAction::Stalled;
            }
            Local::Connections(request) => return SessionAction::Connections(request),
            Local::Stream(_) | Local::Browser(_) => {
                let detail = "this request has an answer over HTTP only";
                Some(Next::Problem(Problem::new(ProblemKind::InvalidRequest, detail)))
            }
            Local::Answered(next) => Some(next),
        };
        if let Some(next) = answer {
            let serial = calls.serial.take();
            calls.current = None;
            self.state = State::Open;
            self.drop_native_if_done();
            let serial = serial.unwrap_or_else(|| self.replies.open());
            self.replies.close(serial, out, |line| write_line(&next, line));
            return SessionAction::Continue;
        }
        let serial = *calls.serial.get_or_insert_with(|| self.replies.open());
        let args: &'s Args = shared.scratch.native.insert(call.args());
        let command = call.command(args);
        if let Some(prompt) = call.prompt() {
            calls.current = None;
            calls.prompt.push_back((serial, prompt));
            self.state = State::Open;
        } else {
            self.state = State::Waiting(serial);
        }
        SessionAction::Submit(serial, command)
    }

    /// Answers the request with this serial, if it is one of the native API. Whether it is.
    #[cold]
    pub(super) fn answer_native(
        &mut self,
        serial: u32,
        reply: &Reply<'_>,
        out: &mut OutBuf,
    ) -> bool {
        let Some(calls) = &mut self.native else { return false };
        let is_current = calls.current.is_some() && calls.serial == Some(serial);
        if is_current && let Some(mut call) = calls.current.take() {
            let next = call.handle_reply(reply);
            if let Next::Submit | Next::Later = next {
                calls.current = Some(call);
                calls.is_later = matches!(next, Next::Later);
                self.state = State::Parsed;
                return true;
            }
            self.drop_native_if_done();
            self.replies.close(serial, out, |line| {
                if *reply != Reply::Cancelled {
                    write_line(&next, line);
                }
            });
        } else if let Some(call) = calls.take_prompt(serial) {
            self.drop_native_if_done();
            self.replies.close(serial, out, |line| call.write(reply, line));
        } else {
            return false;
        }
        true
    }

    /// The request with this serial is answered otherwise, or that which is next.
    #[cold]
    pub(super) fn forget_native(&mut self, serial: Option<u32>) {
        let Some(calls) = &mut self.native else { return };
        let prompt = serial.and_then(|serial| calls.take_prompt(serial));
        if prompt.is_none() && self.state == State::Open {
            calls.current = None;
        }
        self.drop_native_if_done();
    }

    fn drop_native_if_done(&mut self) {
        if self.native.as_ref().is_some_and(|calls| calls.is_empty()) {
            self.native = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::buf::Input;
    use crate::model::command::Command;
    use crate::model::manage::{ManageCommand, ManageReply, PutOutcome};

    /// Takes the next request of the connection; returns its serial, if there is one.
    fn submit(session: &mut Session, line: &str, context: &mut SessionContext) -> Option<u32> {
        let (mut input, mut out) = (Input::new(line.as_bytes()), OutBuf::default());
        loop {
            match session.poll_command(&mut input, context, &mut out) {
                SessionAction::Continue => {}
                SessionAction::Submit(serial, command) => {
                    assert!(
                        matches!(command, Command::Manage(ManageCommand::PutMany { .. })),
                        "{command:?}"
                    );
                    return Some(serial);
                }
                _ => return None,
            }
        }
    }

    #[test]
    fn puts_with_native_fields_do_not_wait_for_each_other() {
        let (mut session, mut context) = (Session::default(), SessionContext::new(1_000));
        for number in 0..5 {
            let put = r#""request":"put","queue":"q","job":{},"pri":0"#;
            let line = format!("{{{put},\"key\":\"k{number}\"}}\n");
            assert_eq!(submit(&mut session, &line, &mut context), Some(number));
        }
        let mut out = OutBuf::default();
        for number in (0..5).rev() {
            let id = crate::model::id::JobId(u64::from(number) + 10);
            let reply = ManageReply::Puts(Box::new([PutOutcome::Duplicate(id)]));
            session.handle_reply(number, &Reply::Manage(&reply), &mut out);
        }
        let lines: Vec<String> = (10..15)
            .map(|id| format!("{{\"status\":\"ok\",\"id\":{id},\"duplicate\":true}}\n"))
            .collect();
        assert_eq!(String::from_utf8_lossy(out.unsent()), lines.concat());
        assert!(session.native.is_none() && session.is_settled(), "nothing is kept in the end");
    }
}
