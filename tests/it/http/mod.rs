//! HTTP beyond the transcripts: long answers to slow readers, and a plain client of the real
//! process.

mod long;
mod real;
