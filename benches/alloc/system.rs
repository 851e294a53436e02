//! The pattern of `alloc_mimalloc` with the system's allocator.

mod pattern;

fn main() {
    divan::main();
}
