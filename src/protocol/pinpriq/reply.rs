//! From replies to bytes: only pops have a reply on the wire.

use crate::model::job::Packet;
use crate::model::reply::Reply;
use crate::wire::packets::{push_count, push_packet};

/// Bytes before each packet.
const PACKET_HEAD: usize = 4;

/// Writes the reply to a pop; a push has none.
pub(super) fn write(reply: &Reply<'_>, out: &mut Vec<u8>) {
    match reply {
        Reply::Put(_) | Reply::Rejected(_) => {}
        Reply::Packets(packets) => write_packets(packets, out),
        Reply::NoJob | Reply::TooLarge(_) => push_count(out, 0),
        other => other.unexpected(),
    }
}

/// Writes a delivery, or the reply to a pop with packets. O(bytes).
pub(super) fn write_packets(packets: &[Packet], out: &mut Vec<u8>) {
    let count = u16::try_from(packets.len()).expect("a pop takes no more than can be counted");
    out.reserve(packets.iter().map(|packet| PACKET_HEAD + packet.bytes.len()).sum::<usize>() + 2);
    push_count(out, count);
    for packet in packets {
        push_packet(out, packet.key_len, &packet.bytes);
    }
}
