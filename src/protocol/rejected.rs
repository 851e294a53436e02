//! The session of a connection beyond `--max-clients`. Its input is discarded until it closes, so
//! that the error reply reaches it before the connection is reset.

use super::SessionAction;
use crate::base::buf::Input;

/// Discards the input.
pub(super) fn poll_command(input: &mut Input<'_>) -> SessionAction<'static> {
    input.consume(input.unread().len());
    SessionAction::NeedInput
}
