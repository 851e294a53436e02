//! HTTP.

pub mod lightjq;
