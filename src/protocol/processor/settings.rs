//! Settings of the processor's messages.

use std::time::Duration;

/// Names in messages, and the tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The namespace of topics that are read (`NAMESPACE_LISTENER`).
    pub listener: String,
    /// The namespace of topics that are written (`NAMESPACE_PUBLISHER`).
    pub publisher: String,
    /// `service_name` of written messages (`SERVICE_NAME`).
    pub name: String,
    /// `service_uuid` of written messages (`SERVICE_UUID`).
    pub uuid: String,
    /// `service_host` of written messages (`SERVICE_HOST`).
    pub host: String,
    /// The interval of ticks (`--tick`); not zero. Leases, and rows of workers, last three ticks.
    pub tick: Duration,
    /// Seeds the hash of worker names, so that a sender cannot choose names that collide.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listener: "default".to_owned(),
            publisher: "default".to_owned(),
            name: "job_queue".to_owned(),
            uuid: String::new(),
            host: String::new(),
            tick: Duration::from_secs(3),
            seed: 0,
        }
    }
}
