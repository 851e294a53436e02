//! The part of a session that writes an event stream.

use super::Session;
use super::phase::{Phase, Submitted};
use crate::base::api_limits::FRAMES_PER_TURN;
use crate::base::buf::OutBuf;
use crate::base::limits::HTTP_READER_TIMEOUT;
use crate::model::command::Command;
use crate::model::manage::ManageCommand;
use crate::model::reply::Reply;
use crate::protocol::http::live::{
    Due, EVENT_STREAM, FRAME_AWAITED, Found, LiveStream, RETRY, begin_of, second_of,
};
use crate::protocol::http::response::BodyLength;
use crate::protocol::operations::{Call, Next, ServerLimits, Topic, overview_frame, queue_frame};
use crate::protocol::{SessionAction, SessionContext, StatsKind};
use crate::wire::http::{Version, push_chunk, push_last_chunk};

/// What a stream does next to collect its frames.
enum Collected {
    All,
    /// A frame that another stream has asked for is not there yet.
    Not,
    /// It has asked for as many as a turn may.
    Later,
    FetchStats,
    /// The queue of the next topic has to be asked for.
    AskForQueue,
}

impl Session {
    /// The phase of a session that begins an event stream, if there is a place for one.
    pub(super) fn live_phase(
        call: Box<Call>,
        topics: Box<[Topic]>,
        shared: &SessionContext,
    ) -> Phase {
        match shared.scratch.http.frames.take_place() {
            Ok(place) => {
                Phase::Live(Box::new(LiveStream::new(topics, place, shared.turn.now.mono)))
            }
            Err(problem) => Phase::Replied(call, Next::Problem(problem)),
        }
    }

    /// Writes the head of an event stream.
    fn begin_live(
        &mut self,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        self.format.media_type = EVENT_STREAM;
        let is_http10 = self.format.version == Version::Http10;
        self.format.close |= is_http10;
        let length = if is_http10 { BodyLength::Close } else { BodyLength::Chunks };
        self.write_head(200, length, None, shared, out);
        if self.format.head_only {
            return self.finish(shared);
        }
        if let Phase::Live(live) = &mut self.phase {
            live.has_head = true;
        }
        SessionAction::Continue
    }

    /// Writes the frames of this second, if they are due and the client has read the last ones.
    /// O(topics, bytes).
    pub(super) fn write_live<'s>(
        &mut self,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        let Phase::Live(live) = &mut self.phase else { return SessionAction::Stalled };
        if !live.has_head {
            return self.begin_live(shared, out);
        }
        let (now, is_http10) = (shared.turn.now.mono, self.format.version == Version::Http10);
        if live.due == Due::End {
            if !is_http10 {
                push_last_chunk(out.tail());
            }
            return self.finish(shared);
        }
        if live.due == Due::Nothing {
            return SessionAction::Stalled;
        }
        let second = second_of(now);
        if live.second != second {
            live.begin(second);
        }
        // The head alone is no reason to wait.
        if self.head_written && !out.is_empty() {
            return self.skip_frames(out);
        }
        match collect(live, shared) {
            Collected::All => {}
            Collected::Not => {
                live.due = Due::Nothing;
                self.deadline = Some(now.after(FRAME_AWAITED));
                return SessionAction::Stalled;
            }
            Collected::Later => return SessionAction::Yield,
            Collected::FetchStats => return SessionAction::FetchStats(StatsKind::Metrics),
            Collected::AskForQueue => return self.ask_for_queue(shared),
        }
        if !std::mem::replace(&mut self.head_written, true) {
            live.text.splice(..0, RETRY.iter().copied());
        }
        if is_http10 {
            out.tail().extend_from_slice(&live.text);
        } else {
            push_chunk(out.tail(), &live.text);
        }
        live.due = Due::Nothing;
        live.unsent = (out.len(), now);
        self.deadline = Some(begin_of(second + 1));
        SessionAction::Stalled
    }

    /// The client has not read its last frames: it misses these. A client that reads nothing for
    /// long is disconnected.
    fn skip_frames(&mut self, out: &OutBuf) -> SessionAction<'static> {
        let Phase::Live(live) = &mut self.phase else { return SessionAction::Stalled };
        let now = begin_of(live.second);
        if out.len() != live.unsent.0 {
            live.unsent = (out.len(), now);
        }
        if live.unsent.1.after(HTTP_READER_TIMEOUT) < now {
            self.end();
            return SessionAction::Close;
        }
        live.due = Due::Nothing;
        self.deadline = Some(begin_of(live.second + 1));
        SessionAction::Stalled
    }

    /// Asks for the queue of the next topic.
    fn ask_for_queue<'s>(&mut self, shared: &'s mut SessionContext) -> SessionAction<'s> {
        let phase = std::mem::replace(&mut self.phase, Phase::Over);
        let Phase::Live(live) = phase else { return SessionAction::Stalled };
        let name = &mut shared.scratch.http.queue;
        name.clear();
        if let Some(Topic::Queue(queue)) = live.topics.get(live.collected) {
            name.extend_from_slice(queue);
        }
        let command = Command::Manage(ManageCommand::Queue { queue: &shared.scratch.http.queue });
        SessionAction::Submit(self.begin_command(Submitted::Live(live)), command)
    }

    /// The client has left, or the server stops: a stream ends. Returns whether there is one that
    /// can be ended now.
    pub(in crate::protocol) fn end_stream(&mut self) -> bool {
        match &mut self.phase {
            Phase::Live(live) => std::mem::replace(&mut live.due, Due::End) != Due::End,
            _ => false,
        }
    }
}

/// Collects frames of the present second.
fn collect(live: &mut LiveStream, shared: &mut SessionContext) -> Collected {
    while let Some(topic) = live.topics.get(live.collected) {
        if live.own.is_none() && !live.asks && live.asked >= FRAMES_PER_TURN {
            live.asked = 0;
            return Collected::Later;
        }
        let found = match live.own.take() {
            Some(frame) => {
                shared.scratch.http.frames.insert(topic, live.second, frame.clone());
                Found::Frame(frame)
            }
            None if live.asks => Found::Nothing,
            None => shared.scratch.http.frames.find(topic, live.second),
        };
        match (found, topic) {
            (Found::Frame(frame), _) => {
                live.text.extend_from_slice(&frame);
                live.collected += 1;
                live.asks = false;
            }
            (Found::Awaited, _) => return Collected::Not,
            (Found::Nothing, Topic::Overview) => {
                live.asks = true;
                let Some(stats) = shared.turn.stats.take() else { return Collected::FetchStats };
                let limits = ServerLimits::of(&shared.settings);
                live.own = Some(overview_frame(&stats, limits, shared.turn.now));
            }
            (Found::Nothing, Topic::Queue(_)) => {
                live.asks = true;
                live.asked += 1;
                return Collected::AskForQueue;
            }
        }
    }
    Collected::All
}

/// Takes in the answer about the queue of the next topic.
pub(super) fn add_queue(live: &mut LiveStream, reply: &Reply<'_>) {
    if let Some(Topic::Queue(name)) = live.topics.get(live.collected) {
        live.own = Some(queue_frame(name, reply));
    }
}
