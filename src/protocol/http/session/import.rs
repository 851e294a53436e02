//! The body of an import: it is read and executed line by line, whatever its length.

use super::Session;
use super::importing::Importing;
use super::phase::{Phase, Submitted};
use crate::base::buf::{Input, OutBuf};
use crate::model::command::Command;
use crate::model::manage::ManageCommand;
use crate::protocol::operations::Import;
use crate::protocol::{SessionAction, SessionContext};
use crate::wire::http::{Body, Expect, Framing, Piece};

impl Session {
    /// Begins an import: with a batch without jobs, which tells whether the server takes any.
    pub(super) fn begin_import<'s>(
        &mut self,
        expect: Expect,
        framing: Framing,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        let body = match Body::new(framing, u64::MAX) {
            Ok(body) => body,
            Err(parse_error) => return self.respond_parse_error(parse_error, shared, out),
        };
        if expect == Expect::Continue {
            out.tail().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        let import = Box::new(Importing {
            body,
            lines: Import::new(shared.settings.max_request),
            received: 0,
            since: shared.turn.now.mono,
            is_whole: false,
            is_due: false,
            refused: None,
        });
        self.submit_batch(import, shared)
    }

    fn submit_batch<'s>(
        &mut self,
        mut import: Box<Importing>,
        shared: &'s mut SessionContext,
    ) -> SessionAction<'s> {
        let jobs = &mut shared.scratch.http.imported;
        *jobs = import.lines.take_batch();
        let serial = self.begin_command(Submitted::Import(import));
        SessionAction::Submit(serial, Command::Manage(ManageCommand::Import(jobs)))
    }

    /// Reads lines of the body until a batch is full, or nothing more has arrived.
    pub(super) fn read_import<'s, 'i: 's>(
        &mut self,
        input: &mut Input<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        let phase = std::mem::replace(&mut self.phase, Phase::Over);
        let Phase::Importing(mut import) = phase else { return SessionAction::Stalled };
        import.is_due = false;
        if let Some(problem) = import.refused.take() {
            // The rest of the body is not read.
            self.format.close = true;
            return self.respond_problem(&problem, None, shared, out);
        }
        loop {
            if import.lines.fill(shared.turn.now) {
                return self.submit_batch(import, shared);
            }
            if import.is_whole {
                break;
            }
            match import.body.next(input) {
                Ok(Piece::Data(bytes)) => {
                    import.received += bytes.len() as u64;
                    import.lines.push(bytes);
                }
                Ok(Piece::Incomplete) if import.lines.has_batch() => {
                    return self.submit_batch(import, shared);
                }
                Ok(Piece::Incomplete) => {
                    self.deadline = Some(import.deadline());
                    self.phase = Phase::Importing(import);
                    return SessionAction::NeedInput;
                }
                Ok(Piece::End) => {
                    import.is_whole = true;
                    import.lines.end();
                }
                Err(parse_error) => return self.respond_parse_error(parse_error, shared, out),
            }
        }
        if import.lines.has_batch() {
            return self.submit_batch(import, shared);
        }
        if import.lines.keeps_groups() {
            let serial = self.begin_command(Submitted::Import(import));
            return SessionAction::Submit(serial, Command::Manage(ManageCommand::EndImport));
        }
        shared.scratch.http.answer = import.lines.answer().body;
        self.write_whole(200, None, shared, out)
    }
}
