//! Input and output buffers of a connection. Plain memory: the owner of the socket moves the bytes.
//!
//! Invariants: an empty buffer holds no memory of its own, so an idle connection costs nothing but
//! its slot; consuming is O(1) amortised; a byte is searched for a line end once.

use crate::base::limits::{POOLED_BUFFER_MAX_BYTES, POOLED_BUFFER_MIN_BYTES, POOLED_BUFFERS_MAX};

/// Bytes offered to a session; what it does not consume is offered again, with later bytes
/// appended.
#[derive(Debug)]
pub struct Input<'a> {
    unread: &'a [u8],
    used: usize,
    scanned: usize,
}

impl<'a> Input<'a> {
    /// Offers `bytes`, none of them searched yet.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { unread: bytes, used: 0, scanned: 0 }
    }

    /// What is not consumed yet.
    #[must_use]
    #[inline]
    pub fn unread(&self) -> &'a [u8] {
        self.unread
    }

    /// How many of the unread bytes an earlier search has passed over.
    #[must_use]
    #[inline]
    pub fn scanned(&self) -> usize {
        self.scanned
    }

    /// Remembers that the first `count` unread bytes hold nothing that ends a request.
    pub fn set_scanned(&mut self, count: usize) {
        assert!(count <= self.unread.len(), "more was searched than there is");
        self.scanned = count;
    }

    /// Takes the first `count` unread bytes.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.unread = &self.unread[count..];
        self.used += count;
        self.scanned = 0;
    }
}

/// Received bytes that are not consumed: an incomplete request, or requests after one that waits.
#[derive(Debug, Default)]
pub struct InBuf {
    data: Vec<u8>,
    start: u32,
    scanned: u32,
}

impl InBuf {
    /// How many bytes wait.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.data.len() - self.start as usize
    }

    /// Whether no byte waits.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds `bytes` behind what waits. O(bytes), amortised.
    pub fn append(&mut self, bytes: &[u8]) {
        let start = self.start as usize;
        debug_assert!(
            start + self.scanned as usize <= self.data.len(),
            "more bytes were consumed or searched than were received"
        );
        if start > 0 && start >= self.data.len() - start {
            self.data.copy_within(start.., 0);
            self.data.truncate(self.data.len() - start);
            self.start = 0;
        }
        self.data.extend_from_slice(bytes);
    }

    /// The waiting bytes, with what is known of them.
    #[must_use]
    pub fn peek(&self) -> Input<'_> {
        let unread = &self.data[self.start as usize..];
        Input { unread, used: 0, scanned: self.scanned as usize }
    }

    /// Drops the first `used` bytes and remembers that `scanned` of the rest were searched.
    pub fn commit(&mut self, used: usize, scanned: usize) {
        assert!(used + scanned <= self.len(), "more was consumed than waits");
        if used == self.len() {
            self.clear();
        } else {
            // Proof: limits::MAX_REQUEST_MAX keeps buffers far below 4 GiB.
            self.start += u32::try_from(used).expect("buffers are smaller than 4 GiB");
            self.scanned = u32::try_from(scanned).expect("buffers are smaller than 4 GiB");
        }
    }

    /// Drops everything, memory included.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// What an [`Input`] consumed of `offered`, and how far it was searched: `(used, scanned)`, in
/// bytes.
#[must_use]
pub fn progress(input: &Input<'_>) -> (usize, usize) {
    (input.used, input.scanned)
}

/// Unsent bytes, oldest first.
#[derive(Debug, Default)]
pub struct OutBuf {
    data: Vec<u8>,
    start: usize,
}

impl OutBuf {
    /// What is not sent yet.
    #[must_use]
    #[inline]
    pub fn unsent(&self) -> &[u8] {
        &self.data[self.start..]
    }

    /// How many bytes are not sent yet.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.data.len() - self.start
    }

    /// Whether everything is sent.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where to append.
    #[inline]
    pub fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.data
    }

    /// Makes sure that there is memory to write into.
    #[inline]
    pub fn prepare(&mut self, pool: &mut BufferPool) {
        if self.data.capacity() == 0 {
            self.data = pool.take();
        }
    }

    /// Gives the memory back if nothing was written.
    #[inline]
    pub fn release_memory(&mut self, pool: &mut BufferPool) {
        if self.is_empty() && self.data.capacity() > 0 {
            self.start = 0;
            pool.put(std::mem::take(&mut self.data));
        }
    }

    /// Drops the first `count` unsent bytes: they are sent. Once nothing is left, the memory goes
    /// back to `pool`.
    pub fn sent(&mut self, count: usize, pool: &mut BufferPool) {
        assert!(count <= self.len(), "more was sent than there is");
        self.start += count;
        if self.start == self.data.len() {
            self.start = 0;
            pool.put(std::mem::take(&mut self.data));
        } else if self.start > self.data.len() / 2 && self.start > POOLED_BUFFER_MAX_BYTES {
            self.data.drain(..self.start);
            self.start = 0;
        }
    }
}

/// Output memory between two uses, so that a reply costs no allocation.
#[derive(Debug, Default)]
pub struct BufferPool {
    free: Vec<Vec<u8>>,
}

impl BufferPool {
    /// An empty buffer with some memory.
    #[inline]
    pub fn take(&mut self) -> Vec<u8> {
        let buffer = self.free.pop();
        debug_assert!(
            buffer.as_ref().is_none_or(Vec::is_empty),
            "a pooled buffer holds bytes of another connection"
        );
        buffer.unwrap_or_else(|| Vec::with_capacity(POOLED_BUFFER_MIN_BYTES))
    }

    /// Keeps the memory of `buffer` unless there is enough of it or it is a large one.
    #[inline]
    pub fn put(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= POOLED_BUFFER_MAX_BYTES && self.free.len() < POOLED_BUFFERS_MAX {
            buffer.clear();
            self.free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_consumed_in_order_and_an_empty_buffer_holds_no_memory() {
        let mut buffer = InBuf::default();
        buffer.append(b"abcdef");
        buffer.commit(4, 1);
        assert_eq!(buffer.peek().unread(), b"ef");
        assert_eq!(buffer.peek().scanned(), 1);
        buffer.append(b"gh");
        assert_eq!(buffer.peek().unread(), b"efgh");
        buffer.commit(4, 0);
        assert!(buffer.is_empty());
        assert_eq!(buffer.data.capacity(), 0);
    }

    #[test]
    fn output_goes_out_once_and_its_memory_comes_back() {
        let mut pool = BufferPool::default();
        let mut out = OutBuf::default();
        out.prepare(&mut pool);
        out.tail().extend_from_slice(b"hello");
        out.sent(2, &mut pool);
        assert_eq!(out.unsent(), b"llo");
        out.tail().extend_from_slice(b"!");
        out.sent(4, &mut pool);
        assert!(out.is_empty() && out.data.capacity() == 0);
        assert_eq!(pool.free.len(), 1);
        out.prepare(&mut pool);
        assert_eq!(pool.free.len(), 0, "memory is used again");
        out.release_memory(&mut pool);
        assert_eq!(pool.free.len(), 1);
    }

    #[test]
    fn a_long_output_gives_its_sent_part_back() {
        let mut pool = BufferPool::default();
        let mut out = OutBuf::default();
        out.tail().resize(100_000, b'x');
        out.sent(60_000, &mut pool);
        assert_eq!(out.len(), 40_000);
        assert_eq!(out.data.len(), 40_000);
        out.sent(40_000, &mut pool);
        assert_eq!(pool.free.len(), 0, "large memory is not pooled");
    }
}
