//! The pattern of `alloc_mimalloc` with the allocator of the system: what mimalloc is there for.

mod pattern;

fn main() {
    divan::main();
}
