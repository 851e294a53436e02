//! An engine that several servers share: one of them leads, and what it changes is written to a
//! sink that they share before it is answered. The others wait to lead.

mod batch;
mod change;
mod field;
mod leader;
pub mod limits;
pub mod redis;
mod settings;

pub(super) use change::Change;
pub(super) use field::{Field, Place};
pub use leader::{Begin, Leader};
pub use settings::{Login, PREFIX_DEFAULT, STAGING_SUFFIX, Settings};
