//! The part of a run that is measured, between two snapshots of the clock and the processes.

use super::clock::Clock;
use super::latency::{Latencies, LatencyKind};
use super::process::{self, Sample};

/// A time, with what the processes had used until then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) at: u64,
    pub(super) server: Option<Sample>,
    pub(super) own: Option<Sample>,
    pub(super) machine: Option<(u64, u64)>,
    /// Replies since the start of the run.
    pub(super) replies: u64,
    /// Acknowledged puts since the start of the run.
    pub(super) put: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WindowState {
    Before,
    Open,
    /// No further request is measured; some that are measured are in flight.
    Closing,
    Done,
}

/// The measurements. A request is measured if it is sent while the window is open, whenever its
/// reply arrives, so that slow requests at the end are not missing.
#[derive(Debug)]
pub(super) struct MeasurementWindow {
    state: WindowState,
    server_pid: Option<u32>,
    in_flight: u64,
    pub(super) latencies: Latencies,
    pub(super) start: Snapshot,
    pub(super) end: Snapshot,
}

impl MeasurementWindow {
    pub(super) fn new(server_pid: Option<u32>) -> Self {
        Self {
            state: WindowState::Before,
            server_pid,
            in_flight: 0,
            latencies: Latencies::default(),
            start: Snapshot::default(),
            end: Snapshot::default(),
        }
    }

    pub(super) fn snapshot(&self, clock: Clock, replies: u64, put: u64) -> Snapshot {
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
        self.state == WindowState::Before
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.state == WindowState::Open
    }

    pub(super) fn open(&mut self, snapshot: Snapshot) {
        assert!(self.state == WindowState::Before, "a window opens once");
        self.start = snapshot;
        self.state = WindowState::Open;
    }

    /// Nothing that is sent from now on is measured.
    pub(super) fn close(&mut self) {
        if self.state == WindowState::Open {
            self.state = WindowState::Closing;
        }
    }

    /// Whether the last measured reply has arrived, and the window is not finished yet.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.state == WindowState::Closing && self.in_flight == 0
    }

    pub(super) fn finish(&mut self, snapshot: Snapshot) {
        assert!(self.is_over(), "a window is finished once");
        self.end = snapshot;
        self.state = WindowState::Done;
    }

    /// The run is aborted: requests in flight are not measured.
    pub(super) fn abort(&mut self, snapshot: Snapshot) {
        if matches!(self.state, WindowState::Open | WindowState::Closing) {
            self.end = snapshot;
            self.state = WindowState::Done;
        }
    }

    /// Whether there is a result: the window was open, and is finished.
    pub(super) fn is_done(&self) -> bool {
        self.state == WindowState::Done
    }

    /// A request is sent. Returns whether it is measured.
    #[inline]
    pub(super) fn on_sent(&mut self) -> bool {
        let open = self.is_open();
        self.in_flight += u64::from(open);
        open
    }

    /// The reply to a measured request has arrived.
    #[inline]
    pub(super) fn on_reply(&mut self, kind: LatencyKind, nanos: u64) {
        self.in_flight -= 1;
        self.latencies.record(kind, nanos);
    }
}
