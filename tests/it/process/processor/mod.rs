//! `jobcentre serve --processor`, the real program, with every kind of stdin and stdout.

mod driver;
mod life;
mod load;
mod sharing;
mod streams;
mod terminal;
