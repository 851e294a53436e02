//! The real process as operators and clients meet it.

mod binlog;
mod crash;
mod dashboard;
mod data;
mod descriptors;
mod disconnects;
mod drop_in;
pub(crate) mod engine;
mod files;
mod load;
mod logs;
mod pinpriq;
mod processor;
mod scale;
mod screens;
mod service_manager;
mod settings;
mod signals;
mod slow_readers;
mod socket_activation;
mod system_calls;
mod tls;
mod unix_sockets;
mod users;
mod worker_net;
mod workers;
