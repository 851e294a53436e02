//! Commands and replies between servers: what a server that does not lead sends to the one that
//! does, and gets back.
//!
//! ```text
//! batch = version u8, items
//! item  = length, kind u8, client index, client generation, then for kind
//!   0 command: serial, command    1 cancel: serial    2 the client has ended
//!   3 completion: serial, reply
//! ```
//!
//! The tables are in `command`, `reply` and `parts`: macros make writing and reading of one list,
//! and a variant or a field that is not in it does not compile. Tags are never used twice.
//!
//! Invariants: reading never panics and takes memory in proportion to the bytes; an unknown
//! version or tag is an error value, and an item that cannot be read does not hide the next one.

mod command;
mod error;
mod kept;
mod parts;
mod reply;
mod scratch;
#[cfg(test)]
mod tests;
mod value;

use crate::base::time::Mono;
use crate::model::command::Command;
use crate::model::id::{ClientId, Ticket};
use crate::model::reply::Reply;
pub use error::{VERSION, WordsError};
pub use scratch::Scratch;
use value::{Read, Reader, Word, Writer};

const COMMAND: u8 = 0;
const CANCEL: u8 = 1;
const END: u8 = 2;
const COMPLETION: u8 = 3;

/// An item of a batch. What it carries is read by [`Body`].
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// A command of a client.
    Command(Ticket, Body<'a>),
    /// A command is to be cancelled.
    Cancel(Ticket),
    /// A client has ended.
    End(ClientId),
    /// The reply to a command.
    Completion(Ticket, Body<'a>),
}

/// A command or a reply that is not read yet.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    /// Reads a command. O(bytes); payloads and names are borrowed.
    ///
    /// # Errors
    /// If this server does not know it.
    pub fn command(self, scratch: &'a Scratch, now: Mono) -> Result<Command<'a>, WordsError> {
        self.read(scratch, now)
    }

    /// Reads a reply. O(bytes).
    ///
    /// # Errors
    /// If this server does not know it.
    pub fn reply(self, scratch: &'a Scratch, now: Mono) -> Result<Reply<'a>, WordsError> {
        self.read(scratch, now)
    }

    fn read<T: Word<'a>>(self, scratch: &'a Scratch, now: Mono) -> Read<T> {
        let mut reader = Reader { rest: self.0, scratch, now };
        let value = T::get(&mut reader)?;
        if reader.rest.is_empty() { Ok(value) } else { Err(WordsError::Malformed) }
    }
}

/// The items of a batch, in their order.
#[derive(Clone, Debug)]
pub struct Batch<'a>(&'a [u8]);

impl<'a> Batch<'a> {
    /// Begins to read a batch.
    ///
    /// # Errors
    /// If it is of another version.
    pub fn new(bytes: &'a [u8]) -> Result<Self, WordsError> {
        match bytes.split_first() {
            Some((&VERSION, items)) => Ok(Self(items)),
            Some((&version, _)) => Err(WordsError::Version(version)),
            None => Err(WordsError::Malformed),
        }
    }
}

impl<'a> Iterator for Batch<'a> {
    type Item = Result<Item<'a>, WordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let (none, now) = (Scratch::default(), Mono(0));
        let item = take_item(&mut self.0);
        Some(item.and_then(|item| head(item, &none, now)))
    }
}

/// Takes the bytes of an item; nothing is left if they are not there.
fn take_item<'a>(rest: &mut &'a [u8]) -> Read<&'a [u8]> {
    let bytes = std::mem::take(rest);
    let Some((length, items)) = bytes.split_first_chunk() else {
        return Err(WordsError::Malformed);
    };
    let length = u32::from_le_bytes(*length) as usize;
    let (item, behind) = items.split_at_checked(length).ok_or(WordsError::Malformed)?;
    *rest = behind;
    Ok(item)
}

fn head<'a>(bytes: &'a [u8], none: &Scratch, now: Mono) -> Read<Item<'a>> {
    let (kind, client, serial, at) = {
        let mut reader = Reader { rest: bytes, scratch: none, now };
        let kind = reader.byte()?;
        let client = ClientId::get(&mut reader)?;
        let serial = if kind == END { 0 } else { u32::get(&mut reader)? };
        (kind, client, serial, bytes.len() - reader.rest.len())
    };
    let (ticket, body) = (Ticket { client, serial }, &bytes[at..]);
    match kind {
        COMMAND => Ok(Item::Command(ticket, Body(body))),
        COMPLETION => Ok(Item::Completion(ticket, Body(body))),
        CANCEL if body.is_empty() => Ok(Item::Cancel(ticket)),
        END if body.is_empty() => Ok(Item::End(client)),
        CANCEL | END => Err(WordsError::Malformed),
        tag => Err(WordsError::UnknownTag(tag)),
    }
}

/// Begins a batch.
pub fn begin_batch(out: &mut Vec<u8>) {
    out.push(VERSION);
}

/// Adds a command. O(bytes).
pub fn push_command(out: &mut Vec<u8>, ticket: Ticket, command: &Command<'_>, now: Mono) {
    push_item(out, COMMAND, now, |w| {
        ticket.put(w);
        command.put(w);
    });
}

/// Adds that a command is to be cancelled.
pub fn push_cancel(out: &mut Vec<u8>, ticket: Ticket) {
    push_item(out, CANCEL, Mono(0), |w| ticket.put(w));
}

/// Adds that a client has ended.
pub fn push_end(out: &mut Vec<u8>, client: ClientId) {
    push_item(out, END, Mono(0), |w| client.put(w));
}

/// Adds the reply to a command. O(bytes).
pub fn push_completion(out: &mut Vec<u8>, ticket: Ticket, reply: &Reply<'_>, now: Mono) {
    push_item(out, COMPLETION, now, |w| {
        ticket.put(w);
        reply.put(w);
    });
}

fn push_item(out: &mut Vec<u8>, kind: u8, now: Mono, write: impl FnOnce(&mut Writer<'_>)) {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, kind]);
    write(&mut Writer { out, now });
    let length = u32::try_from(out.len() - start - 4).expect("an item is shorter than 4 GiB");
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}
