//! The states of jobs as the native API names them.

/// The states of a job in the native API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobState {
    /// Delayed, or waiting to be retried.
    Scheduled,
    /// May be reserved now.
    Ready,
    /// Held back by a constraint or a dependency.
    Blocked,
    /// Reserved by a connection, a worker or under a token.
    Reserved,
    /// Dead: failed for good, or put away.
    Buried,
    /// Done; its result is retained.
    Completed,
}

impl JobState {
    /// All states.
    pub const ALL: [Self; 6] = [
        Self::Scheduled,
        Self::Ready,
        Self::Blocked,
        Self::Reserved,
        Self::Buried,
        Self::Completed,
    ];

    /// The word of the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Ready => "ready",
            Self::Blocked => "blocked",
            Self::Reserved => "reserved",
            Self::Buried => "buried",
            Self::Completed => "completed",
        }
    }

    /// The state of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// A set of states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobStates(u8);

impl JobStates {
    /// All states.
    pub const ALL: Self = Self((1 << JobState::ALL.len()) - 1);

    /// The set with one more state.
    #[must_use]
    pub fn with(self, state: JobState) -> Self {
        Self(self.0 | 1 << state as u8)
    }

    /// Whether it has this state.
    #[must_use]
    pub fn contains(self, state: JobState) -> bool {
        self.0 & 1 << state as u8 != 0
    }
}

impl FromIterator<JobState> for JobStates {
    fn from_iter<I: IntoIterator<Item = JobState>>(states: I) -> Self {
        states.into_iter().fold(Self::default(), Self::with)
    }
}
