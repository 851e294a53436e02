//! What the reply to a command means.

/// What a command is, for its reply: it is a part of its ticket's serial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Put,
    Reserve,
    ReserveJob,
    Delete,
    Release,
    Bury,
    Touch,
    Kick,
    Peek,
    Pause,
    JobStats,
    QueueStats,
    Use,
    Watch,
    /// One of the commands of a [`Call`](super::call::Call).
    Call,
}

impl Asked {
    const ALL: [Self; 15] = [
        Self::Put,
        Self::Reserve,
        Self::ReserveJob,
        Self::Delete,
        Self::Release,
        Self::Bury,
        Self::Touch,
        Self::Kick,
        Self::Peek,
        Self::Pause,
        Self::JobStats,
        Self::QueueStats,
        Self::Use,
        Self::Watch,
        Self::Call,
    ];

    /// Where it begins in a serial. The bits below count the requests: more than are under way.
    const SHIFT: u32 = 24;
    const COUNT: u32 = (1 << Self::SHIFT) - 1;

    #[inline]
    pub(super) fn serial(self, number: u32) -> u32 {
        (self as u32) << Self::SHIFT | number & Self::COUNT
    }

    /// What it was, and the number of the request, of which `oldest` is the oldest one under way.
    #[inline]
    pub(super) fn of(serial: u32, oldest: u32) -> (Self, u32) {
        let ahead = serial.wrapping_sub(oldest) & Self::COUNT;
        (Self::ALL[(serial >> Self::SHIFT) as usize], oldest.wrapping_add(ahead))
    }
}
