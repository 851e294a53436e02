//! Priorities of threads that may share a processor with the event loop.

pub(super) use thread_priority::Error;
use thread_priority::{ThreadPriority, set_current_thread_priority};

/// Priority of 100: nice 10 on Linux, about a tenth of the processor share of the loop.
const SMALL_SHARE: u8 = 25;

/// Gives this thread a share of the processor that is small beside the loop's.
pub(super) fn lower_priority() -> Result<(), Error> {
    let share = ThreadPriority::try_from(SMALL_SHARE).unwrap_or(ThreadPriority::Min);
    set_current_thread_priority(share)
}

/// Runs this thread only on an idle processor (`SCHED_IDLE`), or at the lowest priority.
#[cfg(target_os = "linux")]
pub(super) fn set_idle_class() -> Result<(), Error> {
    use thread_priority::{
        NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
        thread_native_id,
    };
    // When the loop wakes up, a thread with a high nice value keeps the processor for a millisecond
    // or more; a thread of this class is preempted at once.
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle)
        .or_else(|_| set_current_thread_priority(ThreadPriority::Min))
}

/// Runs this thread at the lowest priority.
#[cfg(not(target_os = "linux"))]
pub(super) fn set_idle_class() -> Result<(), Error> {
    set_current_thread_priority(ThreadPriority::Min)
}
