//! Bytes behind a pointer of eight bytes, which know their length themselves; and such a pointer
//! that may lead to a boxed value instead.
//!
//! A `Box<[u8]>` takes 16 bytes, and an enum of it and a `Box` another 8 where no niche is left.
//! Where there are millions of them, most of that can be saved.

#![expect(unsafe_code, reason = "the standard library has no thin pointer to a slice")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, forget};
use std::ops::Deref;
use std::ptr::{NonNull, copy_nonoverlapping, from_ref};
use std::slice::from_raw_parts;

/// Alignment that is asked for. Allocators align blocks of this size to 8 bytes at least, which
/// [`ThinOrBox::bytes`] checks; but mimalloc takes the next size class where more than 1 is asked
/// for. Miri's allocator gives odd addresses.
const ALIGN: usize = if cfg!(miri) { 2 } else { 1 };
const LEN: usize = size_of::<u32>();

/// Bytes that never change, with a prefix of fixed size, in one block of memory.
///
/// Invariant: the pointer leads to a block of `ThinBytes::layout` that this value owns; it begins
/// with the length of the bytes, without that of the prefix; prefix and bytes follow.
#[repr(transparent)]
pub struct ThinBytes<const PREFIX: usize> {
    block: NonNull<u8>,
}

// SAFETY: it owns its block, which is not changed after it was made.
unsafe impl<const PREFIX: usize> Send for ThinBytes<PREFIX> {}
// SAFETY: as above.
unsafe impl<const PREFIX: usize> Sync for ThinBytes<PREFIX> {}

impl<const PREFIX: usize> ThinBytes<PREFIX> {
    /// What a value takes beside its bytes and its pointer.
    pub const OVERHEAD: usize = LEN + PREFIX;

    /// A copy of both. O(bytes).
    ///
    /// # Panics
    /// If there are 4 GiB of bytes or more.
    #[must_use]
    #[inline]
    pub fn new(prefix: [u8; PREFIX], bytes: &[u8]) -> Self {
        let len = u32::try_from(bytes.len()).expect("fewer than 4 GiB of bytes");
        let layout = Self::layout(len);
        // SAFETY: the layout's size is not zero: it holds the length.
        let Some(block) = NonNull::new(unsafe { alloc(layout) }) else {
            handle_alloc_error(layout)
        };
        // SAFETY: the block has room for the length, the prefix and the bytes, one after the other;
        // it is new, so nothing overlaps.
        unsafe {
            block.cast::<u32>().write_unaligned(len);
            copy_nonoverlapping(prefix.as_ptr(), block.as_ptr().add(LEN), PREFIX);
            let to = block.as_ptr().add(Self::OVERHEAD);
            copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        Self { block }
    }

    #[inline]
    fn layout(len: u32) -> Layout {
        let size = Self::OVERHEAD + len as usize;
        Layout::from_size_align(size, ALIGN).expect("a size of little more than 4 GiB")
    }

    #[inline]
    fn length(&self) -> u32 {
        // SAFETY: the block begins with the length.
        unsafe { self.block.cast::<u32>().read_unaligned() }
    }

    /// The prefix.
    #[must_use]
    #[inline]
    pub fn prefix(&self) -> [u8; PREFIX] {
        // SAFETY: behind the length is the prefix. Bytes are aligned anywhere.
        unsafe { self.block.add(LEN).cast::<[u8; PREFIX]>().read() }
    }

    /// The bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: behind the prefix are as many bytes as the length says, initialised; they do not
        // change while this value lives.
        unsafe { from_raw_parts(self.block.as_ptr().add(Self::OVERHEAD), self.length() as usize) }
    }
}

impl<const PREFIX: usize> Deref for ThinBytes<PREFIX> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes()
    }
}

impl<const PREFIX: usize> Drop for ThinBytes<PREFIX> {
    #[inline]
    fn drop(&mut self) {
        let layout = Self::layout(self.length());
        // SAFETY: the block was allocated with this layout, and nothing refers to it any more.
        unsafe { dealloc(self.block.as_ptr(), layout) }
    }
}

/// No bytes, behind a prefix of zeros. Takes a block of memory, too.
impl<const PREFIX: usize> Default for ThinBytes<PREFIX> {
    fn default() -> Self {
        Self::new([0; PREFIX], &[])
    }
}

impl<const PREFIX: usize> Clone for ThinBytes<PREFIX> {
    fn clone(&self) -> Self {
        Self::new(self.prefix(), self.bytes())
    }
}

impl<const PREFIX: usize> PartialEq for ThinBytes<PREFIX> {
    fn eq(&self, other: &Self) -> bool {
        self.prefix() == other.prefix() && self.bytes() == other.bytes()
    }
}

impl<const PREFIX: usize> Eq for ThinBytes<PREFIX> {}

impl<const PREFIX: usize> fmt::Debug for ThinBytes<PREFIX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ThinBytes").field(&self.prefix()).field(&self.bytes()).finish()
    }
}

/// One of two.
#[derive(Debug)]
pub enum Either<A, B> {
    /// The bytes.
    Bytes(A),
    /// The boxed value.
    Boxed(B),
}

/// Bytes or a boxed value, in eight bytes.
///
/// Invariant: `marked` is the pointer of a [`ThinBytes`], or that of a `Box<T>` with `MARK` added
/// to its address; this value owns what it leads to.
pub struct ThinOrBox<T, const PREFIX: usize> {
    marked: NonNull<u8>,
    owned: PhantomData<(ThinBytes<PREFIX>, Box<T>)>,
}

/// Marks the pointer of a box.
const MARK: usize = 1;

// SAFETY: it owns bytes, which may be sent, or a box, which may be if its value may.
unsafe impl<T: Send, const PREFIX: usize> Send for ThinOrBox<T, PREFIX> {}
// SAFETY: as above.
unsafe impl<T: Sync, const PREFIX: usize> Sync for ThinOrBox<T, PREFIX> {}

impl<T, const PREFIX: usize> ThinOrBox<T, PREFIX> {
    const ALIGNED: () = assert!(align_of::<T>() > MARK, "the mark has no room");

    /// Bytes.
    ///
    /// # Panics
    /// If the allocator gave them an odd address.
    #[must_use]
    #[inline]
    pub fn bytes(bytes: ThinBytes<PREFIX>) -> Self {
        assert!(bytes.block.addr().get() & MARK == 0, "the mark has no room");
        Self { marked: ManuallyDrop::new(bytes).block, owned: PhantomData }
    }

    /// A boxed value.
    #[must_use]
    pub fn boxed(value: Box<T>) -> Self {
        let () = Self::ALIGNED;
        let pointer = NonNull::from(Box::leak(value)).cast::<u8>();
        Self { marked: pointer.map_addr(|address| address | MARK), owned: PhantomData }
    }

    #[inline]
    fn is_boxed(&self) -> bool {
        self.marked.addr().get() & MARK != 0
    }

    /// The pointer of the box.
    #[inline]
    fn pointer(&self) -> *mut T {
        debug_assert!(self.is_boxed(), "bytes are no box");
        self.marked.as_ptr().map_addr(|address| address & !MARK).cast()
    }

    /// Where its memory begins, for a prefetch: reads none of it.
    #[must_use]
    #[inline]
    pub fn address(&self) -> *const u8 {
        self.marked.as_ptr()
    }

    /// What it is.
    #[must_use]
    #[inline]
    pub fn get(&self) -> Either<&ThinBytes<PREFIX>, &T> {
        if self.is_boxed() {
            // SAFETY: it owns the box, and is borrowed as long as the result.
            Either::Boxed(unsafe { &*self.pointer() })
        } else {
            // SAFETY: not marked, it is the pointer of a `ThinBytes`, which is transparent.
            Either::Bytes(unsafe { &*from_ref(&self.marked).cast::<ThinBytes<PREFIX>>() })
        }
    }

    /// The boxed value, if it is one.
    #[must_use]
    #[inline]
    pub fn get_boxed(&self) -> Option<&T> {
        // SAFETY: it owns the box, and is borrowed as long as the result.
        self.is_boxed().then(|| unsafe { &*self.pointer() })
    }

    /// The boxed value, if it is one.
    #[must_use]
    #[inline]
    pub fn get_boxed_mut(&mut self) -> Option<&mut T> {
        // SAFETY: it owns the box, and is borrowed alone as long as the result.
        self.is_boxed().then(|| unsafe { &mut *self.pointer() })
    }

    /// The boxed value; if it is bytes, they become one first. A panic of `make` ends the process.
    pub fn boxed_with(&mut self, make: impl FnOnce(ThinBytes<PREFIX>) -> T) -> &mut T {
        if !self.is_boxed() {
            // Between the moves below nothing may unwind: the bytes would be freed twice.
            let guard = AbortOnDrop;
            // SAFETY: not marked, it is the pointer of a `ThinBytes` that it owns; it is
            // overwritten without a drop before anything else can read it.
            let bytes = ThinBytes { block: self.marked };
            let boxed = ManuallyDrop::new(Self::boxed(Box::new(make(bytes))));
            self.marked = boxed.marked;
            forget(guard);
        }
        // SAFETY: it owns the box, and is borrowed alone as long as the result.
        unsafe { &mut *self.pointer() }
    }

    /// What it is, by value.
    #[must_use]
    #[inline]
    pub fn into_either(self) -> Either<ThinBytes<PREFIX>, Box<T>> {
        let this = ManuallyDrop::new(self);
        if this.is_boxed() {
            // SAFETY: the pointer is that of a box which it owned; it is not dropped.
            Either::Boxed(unsafe { Box::from_raw(this.pointer()) })
        } else {
            Either::Bytes(ThinBytes { block: this.marked })
        }
    }
}

impl<T, const PREFIX: usize> Drop for ThinOrBox<T, PREFIX> {
    #[inline]
    fn drop(&mut self) {
        if self.is_boxed() {
            // SAFETY: the pointer is that of a box which it owns, and is not used any more.
            drop(unsafe { Box::from_raw(self.pointer()) });
        } else {
            drop(ThinBytes::<PREFIX> { block: self.marked });
        }
    }
}

impl<T: fmt::Debug, const PREFIX: usize> fmt::Debug for ThinOrBox<T, PREFIX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// Dropped while a panic unwinds, it ends the process: a panic in a destructor does then.
struct AbortOnDrop;

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        panic!("a value was left half made by a panic");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    type Body = ThinOrBox<Rc<str>, 3>;

    #[test]
    fn thin_bytes_are_what_they_were_made_of() {
        for len in [0_usize, 1, 7, 8, 100, 70_000] {
            let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(len).collect();
            let thin = ThinBytes::new([1, 2, 3], &bytes);
            assert_eq!((thin.prefix(), thin.bytes()), ([1, 2, 3], &*bytes));
            let copy = thin.clone();
            drop(thin);
            assert_eq!(copy, ThinBytes::new([1, 2, 3], &bytes));
            assert_ne!(copy, ThinBytes::new([1, 2, 4], &bytes));
        }
        assert_eq!(ThinBytes::<0>::new([], b"x").prefix(), [0; 0]);
        assert_eq!(size_of::<Option<Body>>(), 8);
    }

    #[test]
    fn either_is_kept_and_dropped_once() {
        let value: Rc<str> = "value".into();
        let thin = ThinBytes::new([7; 3], b"bytes");
        let mut body = Body::bytes(thin.clone());
        assert!(matches!(body.get(), Either::Bytes(bytes) if *bytes == thin));
        assert!(body.get_boxed().is_none() && body.get_boxed_mut().is_none());
        let made = body.boxed_with(|bytes| {
            assert_eq!(bytes, thin);
            value.clone()
        });
        assert_eq!(&**made, "value");
        assert_eq!(&**body.boxed_with(|_| unreachable!("it is boxed")), "value");
        assert!(matches!(body.get(), Either::Boxed(boxed) if **boxed == *"value"));
        *body.get_boxed_mut().unwrap() = "other".into();
        assert_eq!((Rc::strong_count(&value), body.get_boxed()), (1, Some(&"other".into())));
        assert!(matches!(body.into_either(), Either::Boxed(boxed) if **boxed == *"other"));
        let bodies = [Body::boxed(Box::new(value.clone())), Body::bytes(thin.clone())];
        assert_eq!(Rc::strong_count(&value), 2);
        let [boxed, bytes] = bodies;
        assert!(matches!(bytes.into_either(), Either::Bytes(bytes) if bytes == thin));
        drop(boxed);
        assert_eq!(Rc::strong_count(&value), 1);
    }
}
