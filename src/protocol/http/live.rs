//! Event streams: frames of the server and of queues, once a second.
//!
//! A frame is made once for each second and topic, by the first stream that is due, and shared by
//! all. Nothing is kept for a reader that is slow: while it has not read its last frames, it gets
//! none.

use crate::base::api_limits::STREAMS_MAX;
use crate::base::time::Mono;
use crate::protocol::operations::{Problem, ProblemKind, Topic};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The media type of an event stream.
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// What a stream begins with: a client that has lost it comes back after this many milliseconds.
pub(super) const RETRY: &[u8] = b"retry: 2000\n\n";

/// After which time a stream looks once more for a frame that another one has asked for.
pub(super) const FRAME_AWAITED: Duration = Duration::from_millis(20);

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// The second of a moment.
pub(super) fn second_of(at: Mono) -> u64 {
    at.0 / SECOND
}

/// The begin of a second.
pub(super) fn begin_of(second: u64) -> Mono {
    Mono(second.saturating_mul(SECOND))
}

/// The frames of the present second, and the number of streams.
#[derive(Debug, Default)]
pub(super) struct Frames {
    by_topic: BTreeMap<Topic, Frame>,
    /// Each stream holds it once more.
    place: Arc<()>,
}

#[derive(Debug)]
struct Frame {
    /// The second for which it was asked for.
    second: u64,
    /// `None` until it is made.
    text: Option<Arc<[u8]>>,
}

/// What there is of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Frame(Arc<[u8]>),
    /// Another stream has asked for it.
    Awaited,
    /// Nothing: the caller has to make it.
    Nothing,
}

impl Frames {
    /// A place for one more stream.
    pub(super) fn take_place(&self) -> Result<Arc<()>, Problem> {
        if Arc::strong_count(&self.place) > STREAMS_MAX {
            let detail = format!(
                "there are {STREAMS_MAX} event streams already: close one, or ask for what it \
                 shows every few seconds"
            );
            return Err(Problem::new(ProblemKind::TooManyStreams, detail));
        }
        Ok(Arc::clone(&self.place))
    }

    /// The frame of a topic for a second; if there is none, it counts as asked for by the caller.
    /// O(log topics), amortised.
    pub(super) fn find(&mut self, topic: &Topic, second: u64) -> Found {
        match self.by_topic.get(topic) {
            Some(frame) if frame.second == second => match &frame.text {
                Some(text) => Found::Frame(Arc::clone(text)),
                None => Found::Awaited,
            },
            _ => {
                self.by_topic.retain(|_, frame| frame.second == second);
                self.by_topic.insert(topic.clone(), Frame { second, text: None });
                Found::Nothing
            }
        }
    }

    /// The frame that the caller has made.
    pub(super) fn insert(&mut self, topic: &Topic, second: u64, text: Arc<[u8]>) {
        self.by_topic.insert(topic.clone(), Frame { second, text: Some(text) });
    }
}

/// What a stream is to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Frames,
    /// Its end: the client has left, or the server stops.
    End,
}

/// One stream.
#[derive(Debug)]
pub(super) struct LiveStream {
    pub(super) topics: Box<[Topic]>,
    /// The second whose frames are being collected.
    pub(super) second: u64,
    /// Topics of which there is the frame.
    pub(super) collected: usize,
    /// The head of the response is written.
    pub(super) has_head: bool,
    /// The frames so far.
    pub(super) text: Vec<u8>,
    /// Frames that it has asked for in this turn.
    pub(super) asked: u32,
    /// The frame that it has asked for and got.
    pub(super) own: Option<Arc<[u8]>>,
    /// It has asked for the frame of the next topic itself.
    pub(super) asks: bool,
    pub(super) due: Due,
    /// Unsent bytes of a reader that is slow, and since when they are that many.
    pub(super) unsent: (usize, Mono),
    _place: Arc<()>,
}

impl LiveStream {
    pub(super) fn new(topics: Box<[Topic]>, place: Arc<()>, now: Mono) -> Self {
        Self {
            topics,
            second: second_of(now),
            collected: 0,
            text: Vec::new(),
            has_head: false,
            asked: 0,
            own: None,
            asks: false,
            due: Due::Frames,
            unsent: (0, now),
            _place: place,
        }
    }

    /// The moment of the next frames has come.
    pub(super) fn handle_timeout(&mut self) {
        if self.due == Due::Nothing {
            self.due = Due::Frames;
        }
    }

    /// Begins to collect the frames of a second.
    pub(super) fn begin(&mut self, second: u64) {
        (self.second, self.collected, self.asked, self.asks) = (second, 0, 0, false);
        self.own = None;
        self.text.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_is_made_once_a_second() {
        let mut frames = Frames::default();
        assert_eq!(frames.find(&Topic::Overview, 7), Found::Nothing);
        assert_eq!(frames.find(&Topic::Overview, 7), Found::Awaited);
        frames.insert(&Topic::Overview, 7, Arc::from(&b"x"[..]));
        assert_eq!(frames.find(&Topic::Overview, 7), Found::Frame(Arc::from(&b"x"[..])));
        assert_eq!(frames.find(&Topic::Queue(b"q"[..].into()), 8), Found::Nothing);
        assert_eq!(frames.by_topic.len(), 1);
        assert_eq!(frames.find(&Topic::Overview, 8), Found::Nothing);
    }

    #[test]
    fn places_are_bounded_and_freed() {
        let frames = Frames::default();
        let mut places: Vec<_> = (0..STREAMS_MAX).map(|_| frames.take_place().unwrap()).collect();
        assert_eq!(frames.take_place().unwrap_err().kind, ProblemKind::TooManyStreams);
        places.pop();
        assert!(frames.take_place().is_ok());
    }
}
