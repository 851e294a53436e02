//! From a reply to bytes: only a pop is answered.

use crate::model::job::Packet;
use crate::model::reply::Reply;
use crate::wire::packets::{push_count, push_packet};

/// What stands before the bytes of a packet.
const PACKET_HEAD: usize = 4;

/// Writes the answer to a push, which is nothing, or to a pop.
pub(super) fn write(reply: &Reply<'_>, out: &mut Vec<u8>) {
    match reply {
        Reply::Put(_) | Reply::Rejected(_) => {}
        Reply::Packets(packets) => write_packets(packets, out),
        Reply::NoJob | Reply::TooLarge(_) => push_count(out, 0),
        _ => unreachable!("nobody asks for this here"),
    }
}

/// Writes a delivery or the answer to a pop that found something. O(bytes).
pub(super) fn write_packets(packets: &[Packet], out: &mut Vec<u8>) {
    let count = u16::try_from(packets.len()).expect("a pop takes no more than can be counted");
    out.reserve(packets.iter().map(|packet| PACKET_HEAD + packet.bytes.len()).sum::<usize>() + 2);
    push_count(out, count);
    for packet in packets {
        push_packet(out, packet.key_len, &packet.bytes);
    }
}
