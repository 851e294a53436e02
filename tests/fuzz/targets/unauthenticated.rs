//! Any bytes, in any pieces, of a client that has not said who it is: no command of it reaches the
//! engine, and nothing of the store reaches it.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../it/unauthenticated.rs"]
mod unauthenticated;

// The first byte says which protocol it is and how long the pieces are, the rest is the stream.
fuzz_target!(|data: &[u8]| {
    let Some((&head, stream)) = data.split_first() else { return };
    let stream = &stream[..stream.len().min(16 * 1024)];
    let protocol = unauthenticated::PROTOCOLS[usize::from(head) % 4];
    let piece = if head < 64 { stream.len() } else { usize::from(head) };
    unauthenticated::play(protocol, stream, piece);
});
