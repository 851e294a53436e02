//! Why a server does not run.

use super::descriptors;
use super::settings::listen_addr::explain_bind_error;
use crate::model::driver::Protocol;
use crate::reactor::CannotListen;
use std::io;

/// What has kept a server from running, or ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The data directory cannot be used.
    Data,
    /// An address cannot be listened on.
    Listen,
    /// Anything else.
    Other,
}

#[derive(Debug)]
pub(super) struct ServeError {
    pub(super) failure: Failure,
    pub(super) error: io::Error,
}

impl From<io::Error> for ServeError {
    fn from(error: io::Error) -> Self {
        Self { failure: Failure::Other, error }
    }
}

/// Adds to the error of a listener the flag that sets its address, and what to do.
pub(super) fn explain_reactor_error(error: &io::Error, as_beanstalkd: bool) -> ServeError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<CannotListen>());
    let failure = inner.map_or(Failure::Other, |_| Failure::Listen);
    let text = match inner {
        Some(CannotListen { error, .. }) if descriptors::is_of_limit(error) => {
            descriptors::explain(error)
        }
        Some(cannot) if as_beanstalkd => format!("{cannot} (-l and -p)"),
        Some(CannotListen { protocol, address, error }) => {
            explain_bind_error(address, flag_of(*protocol), true, error)
        }
        None => descriptors::explain(error),
    };
    ServeError { failure, error: io::Error::new(error.kind(), text) }
}

/// The flag with the address of a listener.
pub(super) fn flag_of(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::JobCentre => "--listen",
        Protocol::Pinpriq => "--pinpriq",
        Protocol::Http => "--http",
        Protocol::Processor => "--processor",
        Protocol::Beanstalkd => "--beanstalkd",
    }
}
