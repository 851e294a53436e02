//! The session of a connection beyond `--max-clients`, or of one that the server closes. Its input
//! is discarded until it closes, so that the error reply reaches it before the connection is reset.

use super::{Closing, SessionAction, beanstalkd, http, job_centre};
use crate::base::buf::Input;
use crate::model::driver::Protocol;

/// Discards the input.
pub(super) fn poll_command(input: &mut Input<'_>) -> SessionAction<'static> {
    input.consume(input.unread().len());
    SessionAction::NeedInput
}

/// Writes the error that a client is closed with, if the protocol has one.
pub(super) fn write_closing(protocol: Protocol, why: Closing<'_>, out: &mut Vec<u8>) {
    match protocol {
        Protocol::JobCentre => job_centre::write_closing(why, out),
        Protocol::Pinpriq | Protocol::Processor => {}
        Protocol::Http => http::write_closing(why, out),
        Protocol::Beanstalkd => beanstalkd::write_closing(why, out),
    }
}
