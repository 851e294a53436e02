//! Arguments to [`jobcentre::cli`], and the allocator; nothing else.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    jobcentre::cli::main()
}
