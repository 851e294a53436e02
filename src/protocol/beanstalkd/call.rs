//! What takes several commands of the store: lists of tubes and kicks come in parts, so that no
//! pass does all of it, and statistics come from the store and from the server.

use super::counters::Counters;
use super::line::is_tube_name;
use super::stats::server_reply;
use super::text::text_reply;
use super::{DEFAULT, SessionContext};
use crate::base::limits::KICKED_PER_STEP;
use crate::model::command::Command;
use crate::model::consumer::{ConsumerCommand, ConsumerReply, PeekedState, QueueTotals};
use crate::model::reply::Reply;

/// A call that is under way.
#[derive(Debug)]
pub(super) enum Call {
    /// The names of all tubes.
    List {
        text: Vec<u8>,
        /// Where to go on; `None`: that is all.
        next: Option<u32>,
        /// A part came in this turn.
        had_part: bool,
    },
    /// A kick of this number of jobs.
    Kick {
        left: u32,
        kicked: u32,
        /// There were no buried ones.
        delayed: bool,
        had_part: bool,
    },
    /// The statistics of the server.
    Stats { totals: Option<Box<QueueTotals>> },
}

/// What is next in a call.
pub(super) enum Next<'a> {
    Submit(Command<'a>),
    FetchStats,
    Yield,
    /// The reply.
    End(Vec<u8>),
}

impl Call {
    pub(super) fn list() -> Self {
        let text = [b"---\n- ", DEFAULT, b"\n"].concat();
        Self::List { text, next: Some(0), had_part: false }
    }

    pub(super) fn kick(bound: u32) -> Self {
        Self::Kick { left: bound, kicked: 0, delayed: false, had_part: false }
    }

    pub(super) fn text_bytes(&self) -> usize {
        if let Self::List { text, .. } = self { text.len() } else { 0 }
    }

    /// Whether a part came in this turn, and there are more.
    fn take_part(&mut self) -> bool {
        match self {
            Self::List { next: Some(_), had_part, .. } | Self::Kick { left: 1.., had_part, .. } => {
                std::mem::take(had_part)
            }
            _ => false,
        }
    }

    pub(super) fn next<'s>(
        &mut self,
        used: &[u8],
        counters: &Counters,
        shared: &'s mut SessionContext,
    ) -> Next<'s> {
        if self.take_part() {
            return Next::Yield;
        }
        match self {
            Self::List { next: Some(from), .. } => {
                Next::Submit(Command::Consumer(ConsumerCommand::QueueNames { from: *from }))
            }
            Self::List { text, next: None, .. } => Next::End(text_reply(text)),
            Self::Kick { left: 0, kicked, .. } => {
                Next::End(format!("KICKED {kicked}\r\n").into_bytes())
            }
            Self::Kick { left, delayed, .. } => {
                let limit = (*left).min(KICKED_PER_STEP);
                let queue = shared.scratch.beanstalkd.set_tube(used);
                let among = if *delayed { PeekedState::Delayed } else { PeekedState::Buried };
                let command = ConsumerCommand::KickFirst { queue, among, limit };
                Next::Submit(Command::Consumer(command))
            }
            Self::Stats { totals: None } => {
                shared.turn.stats = None;
                Next::Submit(Command::Consumer(ConsumerCommand::Totals))
            }
            Self::Stats { totals } => match shared.turn.stats.take() {
                None => Next::FetchStats,
                Some(server) => {
                    let totals = totals.take().unwrap_or_default();
                    Next::End(server_reply(&totals, &server, counters, shared))
                }
            },
        }
    }

    pub(super) fn handle_reply(&mut self, reply: &Reply<'_>) {
        match (self, reply) {
            (Self::List { text, next, had_part }, Reply::Consumer(ConsumerReply::Names(page))) => {
                let fits = |name: &&[u8]| *name != DEFAULT && is_tube_name(name);
                for name in page.names.iter().filter(fits) {
                    text.extend_from_slice(b"- ");
                    text.extend_from_slice(name);
                    text.push(b'\n');
                }
                (*next, *had_part) = (page.next, true);
            }
            (Self::Kick { left, kicked, delayed, had_part }, Reply::Kicked(count)) => {
                *kicked += count;
                let is_whole = *count == (*left).min(KICKED_PER_STEP);
                let goes_on = is_whole || *kicked == 0 && !*delayed;
                *delayed |= *kicked == 0;
                *left = if goes_on { *left - count } else { 0 };
                *had_part = *count > 0;
            }
            (Self::Stats { totals }, Reply::Consumer(ConsumerReply::Totals(found))) => {
                *totals = Some(found.clone());
            }
            (_, other) => other.unexpected(),
        }
    }
}
