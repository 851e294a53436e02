//! The pattern of `alloc_system` with the allocator that the server uses.

mod pattern;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}
