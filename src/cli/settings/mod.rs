//! Settings from flags, environment variables and the settings file: the types of their values, and
//! the messages about wrong ones. [`config`] combines the sources.

pub(super) mod config;
pub(super) mod constraint_tables;
pub(super) mod duration;
pub(super) mod engine;
pub(super) mod engine_url;
pub(super) mod errors;
mod from_text;
mod fsync;
mod http_name;
pub(super) mod listen_addr;
mod listeners;
pub(super) mod processor;
pub(super) mod size;
mod tick;
pub(super) mod tls;
mod ui;
mod user_tables;
pub(super) mod whole_number;
mod worker_net;

pub(super) use user_tables::check_user_name;
