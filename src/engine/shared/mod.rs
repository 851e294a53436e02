//! An engine that several servers share: one of them leads, the others send it their commands.

pub mod words;
