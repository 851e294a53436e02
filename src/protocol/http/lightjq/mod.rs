//! LightJQ (`protocols/lightjq.md`): pushers and workers over HTTP.

pub mod messages;
