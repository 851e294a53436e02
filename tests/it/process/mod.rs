//! The real process as operators and clients meet it.

mod crash;
mod data;
mod descriptors;
mod endings;
mod files;
mod huge;
mod load;
mod logs;
mod pinpriq;
mod processor;
mod readers;
mod screens;
mod settings;
mod signals;
mod workers;
