//! Index types for [`PagedSlab`](super::paged::PagedSlab): one for each kind of value, so that the
//! index of a value of one kind does not compile where one of another kind is meant.

use std::marker::PhantomData;

/// An index of values of one kind: the number of a slot, below `u32::MAX`.
pub trait SlabIndex: Copy {
    /// The index of a slot.
    fn from_slot(slot: u32) -> Self;

    /// The number of the slot.
    fn slot(self) -> u32;
}

/// An index of values whose kind has no index type.
impl SlabIndex for u32 {
    #[inline]
    fn from_slot(slot: u32) -> Self {
        slot
    }

    #[inline]
    fn slot(self) -> u32 {
        self
    }
}

/// Defines index types, each as large as a `u32`.
macro_rules! slab_index {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident;)+) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        $vis struct $name(u32);

        impl $crate::base::slab_index::SlabIndex for $name {
            #[inline]
            fn from_slot(slot: u32) -> Self {
                Self(slot)
            }

            #[inline]
            fn slot(self) -> u32 {
                self.0
            }
        }
    )+};
}
pub(crate) use slab_index;

/// An optional index, as large as the index: for fields. `Option` is twice as large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct PackedOption<I> {
    /// `u32::MAX` if there is none.
    slot: u32,
    index: PhantomData<I>,
}

impl<I: SlabIndex> PackedOption<I> {
    /// No index.
    pub const NONE: Self = Self { slot: u32::MAX, index: PhantomData };

    /// The optional index that [`PackedOption::bits`] has returned these bits for.
    #[must_use]
    #[inline]
    pub fn from_bits(bits: u32) -> Self {
        Self { slot: bits, index: PhantomData }
    }

    /// The optional index as a number: for a field that holds other numbers at other times.
    #[must_use]
    #[inline]
    pub fn bits(self) -> u32 {
        self.slot
    }

    /// Whether there is no index.
    #[must_use]
    #[inline]
    pub fn is_none(self) -> bool {
        self.slot == u32::MAX
    }

    /// Whether there is an index.
    #[must_use]
    #[inline]
    pub fn is_some(self) -> bool {
        !self.is_none()
    }

    /// The index, if there is one.
    #[must_use]
    #[inline]
    pub fn expand(self) -> Option<I> {
        if self.is_none() { None } else { Some(I::from_slot(self.slot)) }
    }

    /// Takes the index out.
    #[inline]
    pub fn take(&mut self) -> Option<I> {
        std::mem::take(self).expand()
    }
}

impl<I: SlabIndex> Default for PackedOption<I> {
    #[inline]
    fn default() -> Self {
        Self::NONE
    }
}

impl<I: SlabIndex> From<I> for PackedOption<I> {
    #[inline]
    fn from(index: I) -> Self {
        debug_assert!(index.slot() != u32::MAX, "the slot that means none has no value");
        Self { slot: index.slot(), index: PhantomData }
    }
}

impl<I: SlabIndex> From<Option<I>> for PackedOption<I> {
    #[inline]
    fn from(index: Option<I>) -> Self {
        index.map_or(Self::NONE, Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    slab_index! {
        /// A test's index.
        struct TestIdx;
    }

    #[test]
    fn packed_option_round_trips_in_four_bytes() {
        assert_eq!(size_of::<PackedOption<TestIdx>>(), 4);
        let mut packed = PackedOption::<TestIdx>::default();
        assert!(packed.is_none() && packed.expand().is_none());
        for slot in [0, 7, u32::MAX - 1] {
            packed = TestIdx::from_slot(slot).into();
            assert!(packed.is_some());
            assert_eq!(packed.expand().map(TestIdx::slot), Some(slot));
        }
        assert!(packed.take().is_some() && packed.is_none());
        assert_eq!(PackedOption::<TestIdx>::from(None), PackedOption::NONE);
    }
}
