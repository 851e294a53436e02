//! The pattern of `alloc_system` with mimalloc, the server's allocator.

mod pattern;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}
