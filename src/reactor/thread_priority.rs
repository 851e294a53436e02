//! How far threads beside the loop stand back for it: they may share its processor.

pub(super) use thread_priority::Error;
use thread_priority::{ThreadPriority, set_current_thread_priority};

/// Of 100: nice 10 on Linux, about a tenth of the share of the loop.
const SMALL_SHARE: u8 = 25;

/// Takes a share of the processor that is small beside the loop's.
pub(super) fn lower_priority() -> Result<(), Error> {
    let share = ThreadPriority::try_from(SMALL_SHARE).unwrap_or(ThreadPriority::Min);
    set_current_thread_priority(share)
}

/// Lets everybody else go first, as far as the system has a word for that.
#[cfg(target_os = "linux")]
pub(super) fn set_idle_class() -> Result<(), Error> {
    use thread_priority::{
        NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
        thread_native_id,
    };
    // A thread that is merely nice keeps the processor for a millisecond or more when the loop
    // wakes up; one of this class leaves it at once.
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle)
        .or_else(|_| set_current_thread_priority(ThreadPriority::Min))
}

/// Lets everybody else go first, as far as the system has a word for that.
#[cfg(not(target_os = "linux"))]
pub(super) fn set_idle_class() -> Result<(), Error> {
    set_current_thread_priority(ThreadPriority::Min)
}
