//! HTTP beyond the transcripts: long answers to slow readers, and plain clients of the real
//! process.

mod lightjq;
mod long;
mod real;
