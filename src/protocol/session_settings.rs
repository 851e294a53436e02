//! Settings of the sessions.

use super::{beanstalkd, http, processor};
use crate::base::address_set::AddressSet;
use crate::base::limits::{BODY_BYTES_DEFAULT, RESULT_TTL_DEFAULT};
use crate::model::driver::Protocol;

/// Settings of the sessions.
#[derive(Debug)]
pub struct SessionSettings {
    /// The longest request, in bytes (`--max-request`).
    pub max_request: usize,
    /// Clients served at a time (`--max-clients`).
    pub max_clients: usize,
    /// The longest body of a job of a beanstalkd client, in bytes (`--beanstalkd-max-job-size`).
    pub max_body: usize,
    /// What `stats` of a beanstalkd client says of the process and its machine.
    pub identity: beanstalkd::Identity,
    /// Where the server listens.
    pub listeners: Vec<(Protocol, Box<str>)>,
    /// Host names under which the HTTP listener is known, besides `localhost` and addresses.
    pub http_names: Vec<Box<str>>,
    /// The dashboard (`--ui`, `--ui-label`).
    pub ui: http::UiSettings,
    /// The name of the cookie of browsers that have signed in: that of this run.
    pub cookie: Box<str>,
    /// Addresses that workers may have (`--worker-net`).
    pub worker_net: AddressSet,
    /// How long results and errors of tracked jobs are retained, in milliseconds.
    pub result_ttl_ms: u64,
    /// Settings of the processor (environment and `--tick`).
    pub processor: processor::Settings,
}

impl SessionSettings {
    /// The defaults; `max_request` in bytes.
    pub(super) fn new(max_request: usize) -> Self {
        Self {
            max_request,
            max_clients: 0,
            max_body: BODY_BYTES_DEFAULT,
            identity: beanstalkd::Identity::default(),
            listeners: Vec::new(),
            http_names: Vec::new(),
            ui: http::UiSettings::default(),
            cookie: "jobcentre".into(),
            worker_net: AddressSet::any(),
            result_ttl_ms: RESULT_TTL_DEFAULT.as_secs() * 1000,
            processor: processor::Settings::default(),
        }
    }
}
