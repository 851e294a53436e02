//! `jobcentre serve --processor`, the real program, whatever stdin and stdout are.

mod driver;
mod life;
mod load;
mod sharing;
mod streams;
mod terminal;
