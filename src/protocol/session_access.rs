//! What sessions do for users: clients that have to authenticate, and requests that are denied.

use super::Session;
use crate::access::Denial;
use crate::base::buf::OutBuf;
use crate::model::driver::Incident;

impl Session {
    /// The client has to authenticate before anything else, if the protocol has a request for it.
    pub fn lock(&mut self) {
        match self {
            Self::JobCentre(session) => session.lock(),
            Self::Beanstalkd(session) => session.lock(),
            _ => {}
        }
    }

    /// The client need not authenticate any more.
    pub fn unlock(&mut self) {
        match self {
            Self::JobCentre(session) => session.unlock(),
            Self::Beanstalkd(session) => session.unlock(),
            _ => {}
        }
    }

    /// Whether the client has to authenticate before anything else.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        match self {
            Self::JobCentre(session) => session.is_locked(),
            Self::Beanstalkd(session) => session.is_locked(),
            _ => false,
        }
    }

    /// The command with this serial, or what the session has asked of the server, is not executed.
    /// Returns an incident for the log if the protocol cannot tell the client, and whether the
    /// connection is to be closed.
    #[cold]
    pub fn handle_denial(
        &mut self,
        serial: Option<u32>,
        denial: &Denial,
        out: &mut OutBuf,
    ) -> (Option<Incident>, bool) {
        match self {
            Self::JobCentre(session) => session.handle_denial(serial, denial, out),
            Self::Http(session) => session.handle_denial(denial),
            Self::Beanstalkd(session) => session.handle_denial(serial, denial, out),
            Self::Pinpriq(session) => return session.handle_denial(serial, denial, out),
            Self::Call(_) | Self::Processor(_) | Self::Rejected => {}
        }
        (None, false)
    }
}
