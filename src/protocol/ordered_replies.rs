//! Replies are sent in the order of the requests, whatever the order of their arrival.
//!
//! Invariant: nothing is stored while replies arrive in order, the usual case.

use crate::base::buf::OutBuf;
use std::collections::VecDeque;

/// The unanswered requests of one connection, oldest first.
#[derive(Debug, Default)]
pub(super) struct OrderedReplies {
    oldest: u32,
    next: u32,
    /// Replies that arrived early, by their distance from the oldest request. Boxed: few
    /// connections have any.
    #[expect(clippy::box_collection, reason = "8 bytes instead of 32 in every connection")]
    early: Option<Box<VecDeque<Option<Vec<u8>>>>>,
}

impl OrderedReplies {
    /// As after this many answered requests.
    #[cfg(test)]
    pub(super) fn from(serial: u32) -> Self {
        Self { oldest: serial, next: serial, early: None }
    }

    #[inline]
    pub(super) fn open(&mut self) -> u32 {
        let serial = self.next;
        self.next = self.next.wrapping_add(1);
        serial
    }

    /// The serial of the oldest unanswered request, or else of the next one.
    pub(super) fn oldest(&self) -> u32 {
        self.oldest
    }

    /// How many requests are unanswered.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.next.wrapping_sub(self.oldest)
    }

    /// Lets `write` write the reply to request `serial`: directly into the output if it is the
    /// oldest.
    #[inline]
    pub(super) fn close(
        &mut self,
        serial: u32,
        out: &mut OutBuf,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let ahead = serial.wrapping_sub(self.oldest);
        assert!(ahead < self.len(), "a reply to a request that is not under way");
        if ahead > 0 {
            let mut reply = Vec::new();
            write(&mut reply);
            return self.buffer(ahead as usize, reply);
        }
        write(out.tail());
        self.oldest = self.oldest.wrapping_add(1);
        if self.early.is_some() {
            self.flush_ready(out);
        }
    }

    fn buffer(&mut self, ahead: usize, reply: Vec<u8>) {
        let early = self.early.get_or_insert_default();
        if early.len() <= ahead {
            early.resize(ahead + 1, None);
        }
        assert!(early[ahead].is_none(), "a request was answered twice");
        early[ahead] = Some(reply);
    }

    /// The oldest request is answered: sends the early replies directly behind it.
    fn flush_ready(&mut self, out: &mut OutBuf) {
        let Some(early) = &mut self.early else { return };
        early.pop_front();
        while let Some(Some(reply)) = early.front_mut().map(Option::take) {
            out.tail().extend_from_slice(&reply);
            early.pop_front();
            self.oldest = self.oldest.wrapping_add(1);
        }
        if early.is_empty() {
            self.early = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers requests 0..n in the given order and returns the output.
    fn sent(order: &[u32]) -> String {
        let (mut line, mut out) = (OrderedReplies::default(), OutBuf::default());
        for _ in order {
            line.open();
        }
        for &serial in order {
            line.close(serial, &mut out, |reply| {
                reply.extend_from_slice(serial.to_string().as_bytes());
            });
        }
        assert_eq!(line.len(), 0);
        assert!(line.early.is_none(), "nothing is kept in the end");
        String::from_utf8(out.unsent().to_vec()).unwrap()
    }

    #[test]
    fn replies_in_any_order_are_sent_in_request_order() {
        let mut orders = vec![vec![]];
        for serial in 0..5 {
            orders = orders
                .iter()
                .flat_map(|order: &Vec<u32>| {
                    (0..=order.len()).map(move |place| {
                        let mut order = order.clone();
                        order.insert(place, serial);
                        order
                    })
                })
                .collect();
        }
        assert_eq!(orders.len(), 120);
        for order in orders {
            assert_eq!(sent(&order), "01234", "answered in the order {order:?}");
        }
    }
}
