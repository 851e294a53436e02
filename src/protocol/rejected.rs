//! The session of a client that there is no place for: it has been told why, and whatever it sends
//! is passed over until it goes, so that the farewell reaches it before the connection is torn
//! down.

use super::SessionAction;
use crate::base::buf::Input;

/// Passes over everything that comes in.
pub(super) fn poll_command(input: &mut Input<'_>) -> SessionAction<'static> {
    input.consume(input.unread().len());
    SessionAction::NeedInput
}
