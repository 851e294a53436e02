//! One request from its first command to its answer.

use super::answer::{Answer, Cookie, Next, Style, bad_query, problem_of};
use super::args::Args;
use super::backup::BackupStream;
use super::connection_json::closed;
use super::constraints;
use super::export_json::{NDJSON, push_exported};
use super::frames::Topic;
use super::problem::{Problem, ProblemKind};
use super::prompt_call::PromptCall;
use super::replies::{answer, cancelled, connections, constraint, jobs, line_job};
use super::server_json::{self, ServerLimits};
use super::show_args::ShowArgs;
use crate::model::command::{Command, Wait};
use crate::model::id::JobId;
use crate::model::indexed_queue::{IndexedPage, IndexedReply};
use crate::model::manage::{JobCursor, ManageCommand, ManageReply, NewJob, RunReport};
use crate::model::reply::Reply;
use crate::model::show::{CloseOutcome, ConnectionRequest, numbered_connection};
use crate::model::transfer::ExportPage;
use crate::model::worker::TrackedReply;
use crate::protocol::{AdminRequest, BrowserRequest, Reloading, SessionTurn};
use std::sync::Arc;

/// What a request takes that the engine does not execute.
#[derive(Debug)]
pub(in crate::protocol) enum Local {
    /// Nothing: it has a command.
    Command,
    /// Who asks.
    Caller,
    /// The session of a browser begins or ends.
    Browser(BrowserRequest),
    /// The statistics of the server.
    Stats,
    /// The server does what only administrators may ask for.
    Admin(AdminRequest),
    /// Nothing, until the session is called in a later turn.
    Later,
    /// Connections are listed, or one is closed.
    Connections(ConnectionRequest),
    /// It is answered by an event stream.
    Stream(Box<[Topic]>),
    /// It is answered.
    Answered(Next),
}

/// A request in progress.
#[derive(Debug)]
pub(in crate::protocol) struct Call {
    args: Arc<Args>,
    style: Style,
    step: Step,
    backup: Option<Box<BackupStream>>,
}

/// Which command is next, or was submitted last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    First,
    /// A reserve has answered with this job.
    Reserved(JobId),
    /// The wait for the end of a job is over: the job itself is shown. Or what the server was asked
    /// for is under way or done.
    Show,
    /// A part of an export is next, from this id on.
    From(JobId),
}

impl Call {
    pub(in crate::protocol) fn new(args: Arc<Args>, style: Style) -> Self {
        let backup = matches!(*args, Args::Backup).then(Box::default);
        Self { args, style, step: Step::First, backup }
    }

    /// The arguments, from which [`Call::command`] borrows.
    pub(in crate::protocol) fn args(&self) -> Arc<Args> {
        Arc::clone(&self.args)
    }

    /// What is needed to answer it, if its only command is answered at once in any case.
    pub(in crate::protocol) fn prompt(&self) -> Option<PromptCall> {
        PromptCall::of(&self.args)
    }

    /// Whether the command that was submitted last waits, so that it has to be cancelled when its
    /// client leaves.
    pub(in crate::protocol) fn waits(&self) -> bool {
        match *self.args {
            Args::Reserve { ref terms, .. } => terms.wait != Wait::No && self.step == Step::First,
            Args::Result { wait_ms, .. } => wait_ms > 0 && self.step == Step::First,
            _ => false,
        }
    }

    /// What is next, if it is no command; `turn` has what was fetched for the step before.
    pub(in crate::protocol) fn local(
        &mut self,
        turn: &mut SessionTurn,
        limits: ServerLimits<'_>,
    ) -> Local {
        let now = turn.now;
        if let Some(backup) = &mut self.backup {
            backup.note_time(now);
        }
        let answer = match (&*self.args, turn.stats.take()) {
            (Args::Me, _) => match turn.caller.take() {
                Some(caller) => server_json::me(caller.as_ref()),
                None => return Local::Caller,
            },
            (&Args::Browser(request), _) => match (turn.browser.take(), request) {
                (None, _) => return Local::Browser(request),
                (Some(id), BrowserRequest::Open) => {
                    Answer { cookie: id.map(Cookie::Set), ..Answer::empty() }
                }
                (Some(_), BrowserRequest::Close) => {
                    Answer { cookie: Some(Cookie::Remove), ..Answer::empty() }
                }
            },
            (Args::ShowServer, Some(stats)) => server_json::server(&stats, limits, now),
            (Args::ShowServer, None) => return Local::Stats,
            (Args::Show(args), _) => return local(args, turn),
            (&Args::Drain { on }, _) if self.step == Step::Show => server_json::draining(on),
            (&Args::Drain { on }, _) => {
                self.step = Step::Show;
                return Local::Admin(AdminRequest::Drain(on));
            }
            (Args::Reload, _) => match (turn.reload.take(), self.step) {
                (Some(Reloading::Done(report)), _) => {
                    return Local::Answered(server_json::reloaded(&report));
                }
                (Some(Reloading::UnderWay), _) => {
                    self.step = Step::Show;
                    return Local::Later;
                }
                (None, Step::Show) => return Local::Admin(AdminRequest::ReloadOutcome),
                (None, _) => return Local::Admin(AdminRequest::Reload),
            },
            _ => return Local::Command,
        };
        Local::Answered(Next::Answer(answer))
    }

    /// The next command.
    ///
    /// # Panics
    /// If it has none: see [`Call::local`].
    pub(in crate::protocol) fn command<'a>(&self, args: &'a Args) -> Command<'a> {
        let manage = match args {
            &Args::ShowJob { id } => ManageCommand::Show { id },
            &Args::Result { id, wait_ms } => match self.step {
                Step::Show => ManageCommand::Show { id },
                _ => ManageCommand::AwaitEnd { id, wait_ms },
            },
            Args::Report { id, token, report } => {
                ManageCommand::Report { id: *id, token: *token, report }
            }
            Args::ListQueues { glob, behind, limit } => ManageCommand::Queues {
                behind: behind.as_deref(),
                glob: glob.as_deref(),
                limit: *limit,
            },
            Args::RankQueues { glob, order, limit } => {
                ManageCommand::Ranked { order: *order, glob: glob.as_deref(), limit: *limit }
            }
            Args::Show(args) => return args.command(),
            Args::ListJobs { queue, state, from, limit } => {
                ManageCommand::Jobs { queue, state: *state, from, limit: *limit }
            }
            &Args::Verb { id, verb } => verb.command(id),
            Args::Change { id, change } => ManageCommand::Change { id: *id, change },
            Args::DropQueue { queue, force } => ManageCommand::DropQueue { queue, force: *force },
            Args::Act { spec, .. } => ManageCommand::Act(spec),
            &Args::ListActions { below, limit } => ManageCommand::ListActions { below, limit },
            &Args::ShowAction { id } => ManageCommand::ShowAction { id },
            &Args::CancelAction { id } => ManageCommand::CancelAction { id },
            Args::SetIndex { queue, on } => ManageCommand::SetIndex { queue, on: *on },
            Args::Search { queue, query, behind, limit, .. } => {
                ManageCommand::Search { queue, query, behind: *behind, limit: *limit }
            }
            Args::PeekQueue { queue, state, from } => {
                ManageCommand::Jobs { queue, state: *state, from, limit: 1 }
            }
            Args::Export { queue, state } => {
                let from = if let Step::From(from) = self.step { from } else { JobId(1) };
                ManageCommand::Export { queue: queue.as_deref(), state: *state, from }
            }
            Args::Backup => {
                let stream = self.backup.as_ref().expect("a backup has its stream");
                ManageCommand::Backup(stream.step())
            }
            Args::ShowServer
            | Args::Me
            | Args::Browser(_)
            | Args::Drain { .. }
            | Args::Reload
            | Args::Import => {
                unreachable!("the request has no command")
            }
            Args::Pause { queue, for_ms } => ManageCommand::Pause { queue, for_ms: *for_ms },
            Args::Resume { queue } => ManageCommand::Resume { queue },
            Args::ShowQueue { queue } => ManageCommand::Queue { queue },
            Args::Schedule(args) => ManageCommand::Schedule(args.command()),
            Args::Put { queue, job } => self.put(queue, job),
            Args::PutMany { queue, jobs, .. } => ManageCommand::PutMany { queue, jobs },
            Args::Reserve { queues, terms, .. } => {
                let first = match self.step {
                    Step::Reserved(first) => Some(first),
                    Step::First | Step::Show | Step::From(_) => None,
                };
                ManageCommand::ReserveMore { first, queues: queues.from(0), terms }
            }
        };
        Command::Manage(manage)
    }

    /// A put, answered by what its answer shows: of a line only the id.
    fn put<'a>(&self, queue: &'a [u8], job: &'a NewJob) -> ManageCommand<'a> {
        match self.style {
            Style::Line => ManageCommand::PutMany { queue, jobs: std::slice::from_ref(job) },
            Style::Http => ManageCommand::Put { queue, job },
        }
    }

    /// The name of the field with the query.
    fn query_field(&self) -> &'static str {
        if matches!(*self.args, Args::Act { .. }) { "where.query" } else { "query" }
    }

    /// Takes the reply to the last command.
    pub(in crate::protocol) fn handle_reply(&mut self, reply: &Reply<'_>) -> Next {
        match reply {
            Reply::Manage(ManageReply::Exported(page)) => self.part_of_export(page),
            Reply::Manage(ManageReply::Missing(_)) if matches!(self.step, Step::From(_)) => {
                // The queue was deleted meanwhile.
                self.part_of_export(&ExportPage::default())
            }
            Reply::Manage(ManageReply::Backup(reply)) => {
                let stream = self.backup.as_mut().expect("a backup has its stream");
                stream.handle(reply)
            }
            Reply::Manage(reply) => self.handle_managed(reply),
            Reply::IndexedPage(IndexedPage::NotYet) => Next::Later,
            Reply::Indexed(IndexedReply::BadQuery(why)) => {
                Next::Problem(bad_query(self.query_field(), why))
            }
            Reply::Job(job) if !matches!(*self.args, Args::Reserve { shows_run: true, .. }) => {
                Next::Answer(line_job(job))
            }
            Reply::Job(job) => {
                self.step = Step::Reserved(job.id);
                Next::Submit
            }
            Reply::NoJob | Reply::Cancelled => Next::Answer(jobs(&[], self.style, false)),
            Reply::Done => Next::Answer(Answer::empty()),
            Reply::Rejected(rejection) => Next::Problem(super::answer::rejected(*rejection)),
            Reply::Tracked(TrackedReply::Deleted) => {
                let detail = format!("job {} is gone: done, deleted or expired", self.job().0);
                Next::Problem(Problem::new(ProblemKind::Gone, detail))
            }
            Reply::Tracked(TrackedReply::NotYet | TrackedReply::Cancelled)
                if self.style == Style::Line =>
            {
                Next::Problem(Problem::new(ProblemKind::NotFound, "the result is not there yet"))
            }
            Reply::Tracked(TrackedReply::NotYet | TrackedReply::Cancelled) => {
                self.step = Step::Show;
                Next::Submit
            }
            Reply::ConstraintFound(found) => Next::Answer(constraint(found)),
            Reply::Constraint(reply) => {
                let set = match &*self.args {
                    Args::Show(ShowArgs::SetConstraint { constraint }) => Some(&**constraint),
                    _ => None,
                };
                constraints::answer(*reply, set)
            }
            other => other.unexpected(),
        }
    }

    fn handle_managed(&mut self, reply: &ManageReply) -> Next {
        if let (Args::ShowAction { .. } | Args::CancelAction { .. }, ManageReply::Missing(_)) =
            (&*self.args, reply)
        {
            let detail = "there is no action of this number: the last 1,000 since the \
                          start of the server are known";
            return Next::Problem(Problem::new(ProblemKind::NotFound, detail));
        }
        if *reply == ManageReply::Cancelled
            && let Args::Report { id, report, .. } = &*self.args
            && matches!(report, RunReport::Touch { .. } | RunReport::Progress { .. })
        {
            return Next::Answer(cancelled(*id, self.style));
        }
        if let Some(problem) = problem_of(reply, self.job()) {
            return Next::Problem(problem);
        }
        if let ManageReply::JobPage(page) = reply
            && let (true, Some(next)) = (page.jobs.is_empty(), &page.next)
            && self.scans_from(next)
        {
            return Next::Later;
        }
        answer(reply, &self.args, self.style)
    }

    /// Lists from a place on, if this is a list: a step has met jobs of other queues and states
    /// only.
    fn scans_from(&mut self, next: &JobCursor) -> bool {
        let args = match &*self.args {
            Args::PeekQueue { queue, state, .. } => {
                Args::PeekQueue { queue: queue.clone(), state: *state, from: next.clone() }
            }
            Args::ListJobs { queue, state, limit, .. } => {
                let (queue, state, limit) = (queue.clone(), *state, *limit);
                Args::ListJobs { queue, state, from: next.clone(), limit }
            }
            _ => return false,
        };
        self.args = Arc::new(args);
        true
    }

    /// A part of an export: its lines.
    fn part_of_export(&mut self, page: &ExportPage) -> Next {
        let mut body = Vec::new();
        for job in &page.jobs {
            push_exported(&mut body, job);
        }
        if let Some(next) = page.next {
            self.step = Step::From(next);
        }
        Next::Part { body, media_type: NDJSON, is_last: page.next.is_none() }
    }

    /// The job in the path.
    fn job(&self) -> JobId {
        match *self.args {
            Args::ShowJob { id }
            | Args::Result { id, .. }
            | Args::Report { id, .. }
            | Args::Verb { id, .. }
            | Args::Change { id, .. } => id,
            _ => JobId::NEVER,
        }
    }
}

/// What is next for a request about the server.
fn local(args: &ShowArgs, turn: &mut SessionTurn) -> Local {
    match args {
        ShowArgs::Stream { topics } => Local::Stream(topics.clone()),
        &ShowArgs::Connections { from, limit } => match turn.connections.take() {
            Some(page) => Local::Answered(Next::Answer(connections(&page))),
            None => Local::Connections(ConnectionRequest::List(from, limit)),
        },
        &ShowArgs::Close { number } => {
            let client = numbered_connection(number);
            match (turn.closed.take(), client) {
                (Some(outcome), _) => Local::Answered(closed(outcome, number)),
                (None, Some(client)) => Local::Connections(ConnectionRequest::Close(client)),
                (None, None) => Local::Answered(closed(CloseOutcome::NeverAccepted, number)),
            }
        }
        _ => Local::Command,
    }
}
