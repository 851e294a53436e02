//! What heads and bodies have in common.

/// Which HTTP a message speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: no chunks, and a connection carries one request unless it says otherwise.
    Http10,
    /// HTTP/1.1
    Http11,
}

/// What a client waits for before it sends its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    #[default]
    Nothing,
    /// An interim answer that says so.
    Continue,
    /// Something that is not known.
    Unknown,
}

/// How a body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// It has this many bytes.
    Length(u64),
    /// It comes in chunks.
    Chunked,
    /// It ends with the connection: responses only.
    UntilEnd,
}

/// Whether a method or a field name may contain this byte.
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
