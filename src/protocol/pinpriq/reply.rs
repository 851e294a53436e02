//! From replies to bytes: only pops have a reply on the wire.

use super::answers::write_packets;
use crate::model::reply::Reply;
use crate::wire::packets::push_count;

/// Writes the reply to a pop; a push has none.
pub(super) fn write(reply: &Reply<'_>, out: &mut Vec<u8>) {
    match reply {
        Reply::Put(_) | Reply::Rejected(_) => {}
        Reply::Packets(packets) => write_packets(packets, out),
        Reply::NoJob | Reply::TooLarge(_) => push_count(out, 0),
        other => other.unexpected(),
    }
}
