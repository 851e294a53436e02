//! Answers and deliveries, in the order in which they are sent.
//!
//! A *long* answer, one of more than [`POP_COPIED_MAX_BYTES`], keeps its packets. Turns of the
//! session write and free them while the output is not above the high-water mark, and what comes
//! after them waits. So a long answer needs no second copy of its packets.
//!
//! Invariant: nothing is stored while answers are short and come in order, the usual case.

use crate::base::buf::OutBuf;
use crate::base::limits::{OUTPUT_HIGH_WATER_BYTES, POP_COPIED_MAX_BYTES};
use crate::model::job::Packet;
use crate::protocol::ordered_replies::OrderedReplies;
use crate::wire::packets::{push_count, push_packet};
use std::collections::VecDeque;
use std::vec::IntoIter;

/// Bytes before each packet.
const PACKET_HEAD: usize = 4;

/// What is written when all before it is.
#[derive(Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Packets(IntoIter<Packet>),
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) replies: OrderedReplies,
    /// Long answers to requests that follow unanswered ones, by serial.
    early: Vec<(u32, Vec<Packet>)>,
    unwritten: VecDeque<Piece>,
    /// The bytes of both.
    bytes: usize,
}

/// The bytes of packets on the wire.
fn size(packets: &[Packet]) -> usize {
    packets.iter().map(|packet| PACKET_HEAD + packet.byte_len()).sum()
}

fn push_packets_count(packets: &[Packet], out: &mut Vec<u8>) {
    let count = u16::try_from(packets.len()).expect("a pop takes no more than can be counted");
    push_count(out, count);
}

/// Writes a delivery, or the reply to a pop with packets. O(bytes).
pub(super) fn write_packets(packets: &[Packet], out: &mut Vec<u8>) {
    out.reserve(size(packets) + 2);
    push_packets_count(packets, out);
    for packet in packets {
        push_packet(out, packet.key_len, &packet.bytes);
    }
}

impl Answers {
    /// Answers the request with this serial by what `write` writes.
    pub(super) fn close(
        &mut self,
        serial: u32,
        out: &mut OutBuf,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if self.unwritten.is_empty() {
            self.replies.close(serial, out, write);
        } else {
            let mut behind = OutBuf::default();
            self.replies.close(serial, &mut behind, write);
            self.push_behind(&behind);
        }
        if !self.early.is_empty() {
            self.release_early(out);
        }
    }

    /// Answers the request with this serial by these packets. O(packets), and O(bytes) if they are
    /// few.
    pub(super) fn close_with(&mut self, serial: u32, packets: Vec<Packet>, out: &mut OutBuf) {
        if size(&packets) <= POP_COPIED_MAX_BYTES {
            self.close(serial, out, |out| write_packets(&packets, out));
        } else if self.replies.oldest() == serial {
            self.close_long(serial, packets, out);
            self.release_early(out);
        } else {
            self.bytes += size(&packets);
            self.early.push((serial, packets));
        }
    }

    /// Sends a delivery, which is not ordered among the replies.
    pub(super) fn deliver(&mut self, packets: &[Packet], out: &mut OutBuf) {
        if self.unwritten.is_empty() {
            return write_packets(packets, out.tail());
        }
        let mut behind = OutBuf::default();
        write_packets(packets, behind.tail());
        self.push_behind(&behind);
    }

    /// The same, of packets that are the session's.
    pub(super) fn deliver_all(&mut self, packets: Vec<Packet>, out: &mut OutBuf) {
        if size(&packets) <= POP_COPIED_MAX_BYTES {
            self.deliver(&packets, out);
        } else {
            self.push_long(packets, out);
        }
    }

    /// Whether turns of the session have something to write. O(1).
    #[inline]
    pub(super) fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// The bytes that are stored here. O(1).
    pub(super) fn stored_bytes(&self) -> usize {
        self.bytes
    }

    /// Writes and frees packets until the output is above the high-water mark. Returns the number
    /// of bytes.
    pub(super) fn write_some(&mut self, out: &mut OutBuf) -> usize {
        let before = out.len();
        while out.len() <= OUTPUT_HIGH_WATER_BYTES
            && let Some(piece) = self.unwritten.front_mut()
        {
            match piece {
                Piece::Bytes(bytes) => {
                    self.bytes -= bytes.len();
                    out.tail().append(bytes);
                }
                Piece::Packets(packets) => {
                    if let Some(packet) = packets.next() {
                        self.bytes -= PACKET_HEAD + packet.byte_len();
                        push_packet(out.tail(), packet.key_len, &packet.bytes);
                    }
                    // Nothing is left to a further turn behind the last packet.
                    if packets.len() > 0 {
                        continue;
                    }
                }
            }
            self.unwritten.pop_front();
        }
        out.len() - before
    }

    /// Frees what is not written, because it cannot be sent. O(packets).
    pub(super) fn drop_unwritten(&mut self) {
        self.unwritten.clear();
        self.bytes = self.early.iter().map(|(_, packets)| size(packets)).sum();
    }

    /// Takes out all packets that are not written. O(long answers).
    pub(super) fn take_packets(&mut self) -> Vec<IntoIter<Packet>> {
        self.bytes = 0;
        let early = std::mem::take(&mut self.early).into_iter();
        let early = early.map(|(_, packets)| packets.into_iter());
        let unwritten = std::mem::take(&mut self.unwritten).into_iter();
        let unwritten = unwritten.filter_map(|piece| match piece {
            Piece::Packets(packets) => Some(packets),
            Piece::Bytes(_) => None,
        });
        early.chain(unwritten).collect()
    }

    /// Answers the oldest request by a long answer, and those behind it that were answered early.
    fn close_long(&mut self, serial: u32, packets: Vec<Packet>, out: &mut OutBuf) {
        self.push_long(packets, out);
        let mut behind = OutBuf::default();
        self.replies.close(serial, &mut behind, |_| {});
        self.push_behind(&behind);
    }

    /// Long answers whose turn has come.
    fn release_early(&mut self, out: &mut OutBuf) {
        while let Some(place) =
            self.early.iter().position(|&(serial, _)| serial == self.replies.oldest())
        {
            let (serial, packets) = self.early.swap_remove(place);
            self.bytes -= size(&packets);
            self.close_long(serial, packets, out);
        }
    }

    fn push_long(&mut self, packets: Vec<Packet>, out: &mut OutBuf) {
        let mut count = OutBuf::default();
        push_packets_count(&packets, count.tail());
        if self.unwritten.is_empty() {
            out.tail().extend_from_slice(count.unsent());
        } else {
            self.push_behind(&count);
        }
        self.bytes += size(&packets);
        self.unwritten.push_back(Piece::Packets(packets.into_iter()));
    }

    fn push_behind(&mut self, behind: &OutBuf) {
        if !behind.is_empty() {
            self.bytes += behind.len();
            self.unwritten.push_back(Piece::Bytes(behind.unsent().to_vec()));
        }
    }
}
