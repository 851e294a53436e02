//! HTTP beyond the transcripts: long answers to slow readers, and plain clients of the real
//! process.

mod held;
mod lightjq;
mod lists;
mod long;
mod native;
mod real;
mod schedules;
mod stream;
mod transfer;
