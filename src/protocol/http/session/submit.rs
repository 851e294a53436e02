//! The part of a session that submits commands.

use super::Session;
use super::phase::{Phase, Prepared, Submitted};
use crate::base::buf::OutBuf;
use crate::model::command::Command;
use crate::model::indexed_queue::IndexedCommand;
use crate::protocol::http::health::{HEALTHY, standby_text};
use crate::protocol::http::jobq::{self, PagedRequest};
use crate::protocol::http::metrics::StatsCollector;
use crate::protocol::http::processor_status::ProcessorStatus;
use crate::protocol::http::response::{HTML, PAGE_FIELDS};
use crate::protocol::http::route::{Operation, RouteMatch};
use crate::protocol::http::{Scratch, index, lightjq, native, openapi};
use crate::protocol::operations::{Args, Call, Local, Next, ServerLimits, Style, parse};
use crate::protocol::{SessionAction, SessionContext, StatsKind};
use std::sync::Arc;

impl Session {
    /// Reads the body, and answers what takes no command.
    pub(super) fn prepare(
        &mut self,
        call: &RouteMatch,
        body: &[u8],
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> Prepared {
        let text = match call.operation {
            Operation::Jobq(operation) => {
                let http = &mut shared.scratch.http;
                return match jobq::prepare(operation, call.whole_names, body, http) {
                    Ok(jobq::Prepared::Single(request)) => Prepared::Jobq(request),
                    Ok(jobq::Prepared::Paged(request)) => Prepared::Paged(request),
                    Err(error) => Prepared::Answered(self.respond_error(&error, shared, out)),
                };
            }
            Operation::LightJq(operation) => {
                return Prepared::LightJq(operation);
            }
            Operation::Native(route) => {
                let http = &shared.scratch.http;
                let path = native::path_args(call.job, &http.queue);
                let (query, now) = (&*http.query_text, shared.turn.now);
                return match parse(route.0, path, query, body, now) {
                    Ok(args) => Prepared::Native(Box::new(Call::new(Arc::new(args), Style::Http))),
                    Err(problem) => {
                        Prepared::Answered(self.respond_problem(&problem, None, shared, out))
                    }
                };
            }
            Operation::Metrics => {
                self.format.media_type = self.format.metrics.media_type();
                return Prepared::Stats;
            }
            Operation::Processor => {
                let status = ProcessorStatus::new(&shared.scratch.http.queue);
                return Prepared::Listing(Box::new(status));
            }
            Operation::Page(page) => {
                return Prepared::Answered(self.write_file(page, call, shared, out));
            }
            Operation::Index if self.format.media_type == HTML => {
                self.extra.extend(PAGE_FIELDS);
                index::PAGE
            }
            Operation::Index => index::LINKS,
            Operation::Health => match &shared.standby {
                None => HEALTHY,
                Some(leader) => {
                    let text = standby_text(leader);
                    return Prepared::Answered(self.respond_text(503, &text, shared, out));
                }
            },
            Operation::OpenApi => openapi::document(),
        };
        Prepared::Answered(self.respond_text(200, text, shared, out))
    }

    /// Submits the first command of a request, if there is one. `body`: if it is in the input.
    pub(super) fn submit<'s>(
        &mut self,
        request: Prepared,
        call: &RouteMatch,
        body: Option<&'s [u8]>,
        shared: &'s mut SessionContext,
    ) -> SessionAction<'s> {
        match request {
            Prepared::Answered(action) => action,
            Prepared::Jobq(single) => {
                let serial = self.begin_command(Submitted::Jobq(call.job));
                let scratch: &'s Scratch = &shared.scratch.http;
                let body = body.unwrap_or(&scratch.body);
                let command = jobq::command(single, call.job, body, scratch);
                SessionAction::Submit(serial, Command::Indexed(command))
            }
            Prepared::Paged(request) => self.submit_page(request, shared),
            Prepared::Native(call) => self.submit_native(call, shared),
            Prepared::LightJq(operation) => self.submit_lightjq(operation, call, body, shared),
            Prepared::Stats => self.submit_scan(Box::default()),
            Prepared::Listing(status) => {
                self.phase = Phase::Listing(status);
                SessionAction::Continue
            }
        }
    }

    fn submit_lightjq<'s>(
        &mut self,
        operation: lightjq::Operation,
        call: &RouteMatch,
        body: Option<&'s [u8]>,
        shared: &'s mut SessionContext,
    ) -> SessionAction<'s> {
        let serial = self.begin_command(Submitted::LightJq(operation, call.job));
        let Scratch { queue, body: collected, lightjq: scratch, .. } = &mut shared.scratch.http;
        scratch.result_ttl_ms = shared.settings.result_ttl_ms;
        let request = lightjq::Request {
            operation,
            job: call.job,
            details: call.details,
            name: queue,
            body: body.unwrap_or(collected),
        };
        let command = lightjq::parse(request, scratch)
            .and_then(|command| lightjq::permit(command, &shared.settings.worker_net));
        match command {
            Ok(command) => SessionAction::Submit(serial, command),
            Err(error) => {
                self.phase = Phase::Respond(Err(error));
                SessionAction::Continue
            }
        }
    }

    /// Submits the next command of a request of the native API.
    pub(super) fn submit_native<'s>(
        &mut self,
        mut call: Box<Call>,
        shared: &'s mut SessionContext,
    ) -> SessionAction<'s> {
        let limits = ServerLimits::of(&shared.settings);
        match call.local(&mut shared.turn, limits) {
            Local::Command => {}
            Local::Answered(next) => {
                self.phase = Phase::Replied(call, next);
                return SessionAction::Continue;
            }
            Local::Stream(topics) => {
                self.phase = Self::live_phase(call, topics, shared);
                return SessionAction::Observe;
            }
            Local::Caller => {
                self.phase = Phase::Replied(call, Next::Submit);
                return SessionAction::FetchCaller;
            }
            Local::Browser(request) => {
                self.phase = Phase::Replied(call, Next::Submit);
                return SessionAction::Browser(request);
            }
            Local::Stats => {
                self.phase = Phase::Replied(call, Next::Submit);
                return SessionAction::FetchStats(StatsKind::Server);
            }
            Local::Connections(request) => {
                self.phase = Phase::Replied(call, Next::Submit);
                return SessionAction::Connections(request);
            }
            Local::Admin(request) => {
                self.phase = Phase::Replied(call, Next::Submit);
                return SessionAction::Administer(request);
            }
            Local::Later => {
                self.phase = Phase::Replied(call, Next::Submit);
                return SessionAction::Stalled;
            }
        }
        let args: &'s Args = shared.scratch.native.insert(call.args());
        let command = call.command(args);
        SessionAction::Submit(self.begin_command(Submitted::Native(call)), command)
    }

    /// Submits the next command of a paged request.
    pub(super) fn submit_page<'s>(
        &mut self,
        request: Box<PagedRequest>,
        shared: &'s mut SessionContext,
    ) -> SessionAction<'s> {
        let command = Command::Indexed(request.next_command(&mut shared.scratch.http));
        SessionAction::Submit(self.begin_command(Submitted::Paged(request)), command)
    }

    /// Submits the next step of the statistics scan.
    pub(super) fn submit_scan(&mut self, collector: Box<StatsCollector>) -> SessionAction<'static> {
        let command = Command::Indexed(IndexedCommand::Stats(collector.next_scan()));
        SessionAction::Submit(self.begin_command(Submitted::Stats(collector)), command)
    }

    /// The serial of a command that is submitted next.
    pub(super) fn begin_command(&mut self, request: Submitted) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.phase = Phase::Submitted(request);
        self.deadline = None;
        self.serial
    }
}
