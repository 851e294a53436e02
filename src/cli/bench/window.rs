//! The part of a run that counts: between two looks at the clock and at the processes.

use super::clock::Clock;
use super::latency::{Kind, Latencies};
use super::process::{self, Sample};

/// A moment, with everything that was looked at then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) at: u64,
    pub(super) server: Option<Sample>,
    pub(super) own: Option<Sample>,
    pub(super) machine: Option<(u64, u64)>,
    /// Replies of the whole run until then.
    pub(super) replies: u64,
    /// Jobs put, until then, and acknowledged.
    pub(super) put: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Before,
    Open,
    /// No further request counts; some that do are still in flight.
    Closing,
    Done,
}

/// What was measured. A request counts if it was sent while the window was open, whenever its reply
/// came; so the slow ones at the end count like all others.
#[derive(Debug)]
pub(super) struct MeasurementWindow {
    state: State,
    server_pid: Option<u32>,
    in_flight: u64,
    pub(super) latencies: Latencies,
    pub(super) start: Snapshot,
    pub(super) end: Snapshot,
}

impl MeasurementWindow {
    pub(super) fn new(server_pid: Option<u32>) -> Self {
        Self {
            state: State::Before,
            server_pid,
            in_flight: 0,
            latencies: Latencies::default(),
            start: Snapshot::default(),
            end: Snapshot::default(),
        }
    }

    pub(super) fn mark(&self, clock: Clock, replies: u64, put: u64) -> Snapshot {
        Snapshot {
            server: self.server_pid.and_then(|pid| process::sample(&pid.to_string())),
            own: process::sample("self"),
            machine: process::machine_ticks(),
            replies,
            put,
            at: clock.now(),
        }
    }

    pub(super) fn is_before(&self) -> bool {
        self.state == State::Before
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    pub(super) fn open(&mut self, mark: Snapshot) {
        assert!(self.state == State::Before, "a window opens once");
        self.start = mark;
        self.state = State::Open;
    }

    /// Nothing that is sent from now on counts.
    pub(super) fn close(&mut self) {
        if self.state == State::Open {
            self.state = State::Closing;
        }
    }

    /// Whether the last reply that counts has come, and the end was not marked yet.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.state == State::Closing && self.in_flight == 0
    }

    pub(super) fn finish(&mut self, mark: Snapshot) {
        assert!(self.is_over(), "the end is marked once, at the end");
        self.end = mark;
        self.state = State::Done;
    }

    /// The run is given up: what is still in flight does not count.
    pub(super) fn cut(&mut self, mark: Snapshot) {
        if matches!(self.state, State::Open | State::Closing) {
            self.end = mark;
            self.state = State::Done;
        }
    }

    /// Whether there is something to be told: the window was open, and is closed.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// A request is sent; whether it counts.
    #[inline]
    pub(super) fn admit(&mut self) -> bool {
        let open = self.is_open();
        self.in_flight += u64::from(open);
        open
    }

    /// Its reply has come.
    #[inline]
    pub(super) fn settle(&mut self, kind: Kind, nanos: u64) {
        self.in_flight -= 1;
        self.latencies.record(kind, nanos);
    }
}
