//! The processor (`protocols/processor.md`): messages as JSON lines, jobs assigned to workers that
//! say where they are.

mod settings;

pub use settings::Settings;

use super::{Shared, Step};
use crate::base::buf::{Input, OutBuf};
use crate::base::time::{Mono, Now};
use crate::model::core::Trouble;
use crate::model::reply::Reply;

/// The other side's messages, and the workers that they tell of.
#[derive(Debug, Default)]
pub struct Session {}

impl Session {
    #[must_use]
    pub(super) fn new(_settings: &Settings, _now: Now) -> Self {
        Self {}
    }

    pub(super) fn poll_command<'s, 'i: 's>(
        &mut self,
        input: &mut Input<'i>,
        _shared: &'s mut Shared,
        _out: &mut OutBuf,
    ) -> Step<'s> {
        input.consume(input.unread().len());
        Step::Hungry
    }

    pub(super) fn handle_reply(
        &mut self,
        _serial: u32,
        _reply: &Reply<'_>,
        _now: Now,
        _out: &mut OutBuf,
    ) -> Option<Trouble> {
        None
    }

    /// Nothing more will come in: what is there without a line end is the last line.
    pub(super) fn handle_eof(&mut self) {}

    pub(super) fn handle_broken_output(&mut self) {}

    pub(super) fn deadline(&self) -> Option<Mono> {
        None
    }

    pub(super) fn handle_timeout(&mut self) {}

    pub(super) fn wants_turn(&self) -> bool {
        false
    }

    pub(super) fn wants_input(&self) -> bool {
        true
    }

    pub(super) fn is_settled(&self) -> bool {
        true
    }
}
