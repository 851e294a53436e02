//! Prefetching: asks the processor to load memory into its caches before it is needed.
//!
//! A hint without effect on what a program computes. It pays where the next thing that is needed is
//! known early and is rarely in a cache, as in tables of a million jobs; where things are in a
//! cache anyway, it costs instructions.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "the processor's instruction takes a pointer")
)]

/// Bytes that a cache loads at once, on the processors that servers have.
const LINE: usize = 64;

/// Loads the cache lines of the first of these values ahead of their use, up to `limit` bytes.
/// O(lines).
#[inline(always)]
pub fn prefetch<T>(values: &[T], limit: usize) {
    prefetch_at(values.as_ptr().cast(), size_of_val(values).min(limit));
}

/// As [`prefetch`], of this many bytes from an address on, whatever is there.
#[inline(always)]
pub fn prefetch_at(start: *const u8, bytes: usize) {
    let mut offset = 0;
    while offset < bytes {
        prefetch_line(start.wrapping_add(offset));
        offset += LINE;
    }
    if bytes > 0 {
        prefetch_line(start.wrapping_add(bytes - 1));
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn prefetch_line(byte: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction reads nothing that a program can see and does not fault, whatever the
    // address; every x86-64 processor has it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(byte.cast()) }
}

/// Nothing: there is no stable way on this processor.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
fn prefetch_line(_: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefetching_changes_nothing() {
        let values: Vec<u32> = (0..1_000).collect();
        for (first, limit) in [(0, 0), (0, usize::MAX), (999, 1), (1_000, 64), (17, 65)] {
            prefetch(&values[first..], limit);
        }
        prefetch::<u64>(&[], 100);
        assert!(values.into_iter().eq(0..1_000));
    }
}
