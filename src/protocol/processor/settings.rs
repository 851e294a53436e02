//! What the operator decides about the messages of the processor.

use std::time::Duration;

/// Names in messages, and how fast time passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The namespace of topics that are listened to (`NAMESPACE_LISTENER`).
    pub listener: String,
    /// The namespace of topics that are sent (`NAMESPACE_PUBLISHER`).
    pub publisher: String,
    /// `service_name` of what is sent (`SERVICE_NAME`).
    pub name: String,
    /// `service_uuid` of what is sent (`SERVICE_UUID`).
    pub uuid: String,
    /// `service_host` of what is sent (`SERVICE_HOST`).
    pub host: String,
    /// The interval of ticks (`--tick`); not zero. Leases and workers last three of them.
    pub tick: Duration,
    /// Keys the hash of the workers' names, so that nobody can choose names that collide.
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
