//! The hand-over of a leader that is to end: it offers its lead, a server that waits reads all
//! records meanwhile, and is told what changes. So that server leads at once when this one ends.
//!
//! Invariant: while the lead is offered, each write tells all of its changes in order.

use super::{Leader, Stage};
use crate::base::time::Mono;
use crate::engine::shared::limits::FOLLOW_PATIENCE;
use crate::engine::shared::redis::Offer;
use crate::model::driver::Severity;

/// A lead that is offered.
#[derive(Debug)]
pub(super) struct HandOver {
    /// A server has to follow by then.
    follow_by: Mono,
    /// It has to have all records by then.
    ready_by: Mono,
    /// What became of it, as the sink has said last.
    offer: Offer,
}

impl Leader {
    /// Offers the lead. False: it cannot be offered, or need not be.
    pub(super) fn begin_offer(&mut self, now: Mono) -> bool {
        let patience = self.settings.hand_over;
        if !self.can_offer(now) || self.away.is_some() || patience.is_zero() {
            return false;
        }
        if !self.open.is_empty() || self.forced {
            self.seal();
        }
        self.open.keep_order();
        let (follow_by, ready_by) = (now.after(FOLLOW_PATIENCE), now.after(patience));
        self.hand_over = Some(HandOver { follow_by, ready_by, offer: Offer::Open });
        true
    }

    /// Whether the sink takes writes, or is away for a short time.
    fn can_offer(&self, now: Mono) -> bool {
        let since = self.away.as_ref().map(|away| away.since);
        let since = since.or_else(|| Some(self.link.waits()?.1));
        self.stage == Stage::Running
            && self.failure.is_none()
            && since.is_none_or(|since| now < since.after(FOLLOW_PATIENCE))
    }

    /// What the sink has said of the offer.
    pub(super) fn note_offer(&mut self, offer: Option<Offer>, now: Mono) {
        let (Some(hand_over), Some(offer)) = (&mut self.hand_over, offer) else { return };
        let before = std::mem::replace(&mut hand_over.offer, offer);
        if before == Offer::Followed && offer == Offer::Open {
            // It has ended, or was too slow: another one may begin.
            hand_over.follow_by = now.after(FOLLOW_PATIENCE);
        }
        if before != Offer::Ready && offer == Offer::Ready {
            self.note(Severity::Info, "another server has read all jobs: it leads next".to_owned());
        }
    }

    /// Whether the end of this server waits for another one. If it does no more, and no server is
    /// ready, the log says why.
    pub(super) fn is_offer_open(&mut self, now: Mono) -> bool {
        let can = self.can_offer(now);
        let Some(hand_over) = &self.hand_over else { return false };
        let why = match hand_over.offer {
            Offer::Ready => return false,
            Offer::Alone => "no other server waits",
            _ if !can => "the engine does not answer",
            Offer::Open if now < hand_over.follow_by.min(hand_over.ready_by) => return true,
            Offer::Open => "no other server has begun to read the jobs",
            Offer::Followed if now < hand_over.ready_by => return true,
            Offer::Followed => "the other server has not read all jobs in time",
        };
        self.note(Severity::Info, format!("the lead is not handed over: {why}"));
        false
    }
}
