//! The requests: calls of the library's functions, as RESP.

use crate::engine::shared::Settings;
use crate::engine::shared::batch::Batch;
use crate::engine::shared::limits::REPLICAS_TIMEOUT;
use crate::wire::resp::{push_array, push_bulk, push_bulk_of, push_bulk_unsigned, tag_of_slot};
use std::time::Duration;

/// The text of the library.
#[must_use]
pub fn library() -> &'static str {
    include_str!("../lua/jobcentre.lua")
}

/// Writes requests about one partition.
#[derive(Clone, Debug)]
pub struct Requests {
    /// The keys: meta, jobs, more, servers, log.
    keys: [Box<[u8]>; 5],
    pub(super) server: [u8; 8],
    name: Box<[u8]>,
    addresses: Box<[u8]>,
    pub(super) lease_ms: u64,
    /// What connections begin with, and how many answers that has.
    login: (Vec<u8>, usize),
    sentinel_login: (Vec<u8>, usize),
}

/// Who leads: what each write is written under.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::engine::shared) struct Term {
    pub(in crate::engine::shared) birth: Vec<u8>,
    pub(in crate::engine::shared) epoch: u64,
}

impl Requests {
    /// For these settings.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let tag = tag_of_slot(settings.slot());
        let key = |name: &str| -> Box<[u8]> {
            [settings.prefix.as_bytes(), b":{", &tag, b"}:", name.as_bytes()].concat().into()
        };
        let (mut login, mut sentinel_login) = (Vec::new(), Vec::new());
        let mut logins = settings.login.push(&mut login);
        let sentinel_logins = settings.sentinel_login.push(&mut sentinel_login);
        if settings.database > 0 {
            push_array(&mut login, 2);
            push_bulk(&mut login, b"SELECT");
            push_bulk_unsigned(&mut login, u64::from(settings.database));
            logins += 1;
        }
        Self {
            keys: ["meta", "jobs", "more", "servers", "log"].map(key),
            server: settings.server,
            name: settings.name.as_bytes().into(),
            addresses: settings.addresses.as_bytes().into(),
            lease_ms: u64::try_from(settings.lease.as_millis()).unwrap_or(u64::MAX),
            login: (login, logins),
            sentinel_login: (sentinel_login, sentinel_logins),
        }
    }

    /// What a connection to a node begins with, and how many answers it has.
    #[must_use]
    pub fn login(&self) -> (&[u8], usize) {
        (&self.login.0, self.login.1)
    }

    /// The same of a connection to a Sentinel.
    #[must_use]
    pub fn sentinel_login(&self) -> (&[u8], usize) {
        (&self.sentinel_login.0, self.sentinel_login.1)
    }

    fn call(&self, out: &mut Vec<u8>, function: &[u8], args: usize) {
        push_array(out, 3 + self.keys.len() + args);
        push_bulk(out, b"FCALL");
        push_bulk(out, function);
        push_bulk_unsigned(out, self.keys.len() as u64);
        for key in &self.keys {
            push_bulk(out, key);
        }
    }

    pub(super) fn call_with(&self, function: &[u8], args: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        self.call(&mut out, function, args.len());
        for arg in args {
            push_bulk(&mut out, arg);
        }
        out
    }

    /// Gives the keys the names of those of `to`.
    pub(super) fn adopt(&self, term: &Term, to: &Self) -> Vec<u8> {
        let (mut out, epoch) = (Vec::new(), term.epoch.to_string());
        // The log is of no use without a leader.
        let (own, others) = (&self.keys[..4], &to.keys[..4]);
        push_array(&mut out, 3 + own.len() + others.len() + 2);
        push_bulk(&mut out, b"FCALL");
        push_bulk(&mut out, b"jl_adopt");
        push_bulk_unsigned(&mut out, (own.len() + others.len()) as u64);
        for key in own.iter().chain(others) {
            push_bulk(&mut out, key);
        }
        push_bulk(&mut out, &term.birth);
        push_bulk(&mut out, epoch.as_bytes());
        out
    }

    /// Reads a part of the records, without a word about who leads.
    pub(super) fn scan(&self, bases: bool, cursor: &[u8], count: usize) -> Vec<u8> {
        let (mut out, count) = (Vec::new(), count.to_string());
        let key = &self.keys[if bases { 1 } else { 2 }];
        push_array(&mut out, 5);
        for word in [&b"HSCAN"[..], key, cursor, b"COUNT", count.as_bytes()] {
            push_bulk(&mut out, word);
        }
        out
    }

    /// Asks for figures about the node.
    #[must_use]
    pub fn info() -> Vec<u8> {
        b"*1\r\n$4\r\nINFO\r\n".to_vec()
    }

    /// Asks for the version of the library.
    #[must_use]
    pub fn version() -> Vec<u8> {
        b"*3\r\n$5\r\nFCALL\r\n$10\r\njl_version\r\n$1\r\n0\r\n".to_vec()
    }

    /// Loads the library.
    #[must_use]
    pub fn load_library() -> Vec<u8> {
        let mut out = b"*4\r\n$8\r\nFUNCTION\r\n$4\r\nLOAD\r\n$7\r\nREPLACE\r\n".to_vec();
        push_bulk(&mut out, library().as_bytes());
        out
    }

    /// Asks for the first key: a node of a cluster that has not its slot says which one has.
    #[must_use]
    pub fn probe(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_array(&mut out, 2);
        push_bulk(&mut out, b"EXISTS");
        push_bulk(&mut out, &self.keys[0]);
        out
    }

    pub(super) fn init(&self, schema: u64, birth: u64) -> Vec<u8> {
        let birth = format!("{birth:016x}");
        self.call_with(b"jl_init", &[schema.to_string().as_bytes(), b"1", b"0", birth.as_bytes()])
    }

    pub(super) fn hello(&self) -> Vec<u8> {
        let lease = self.lease_ms.to_string();
        self.call_with(b"jl_hello", &[&self.server, &self.name, lease.as_bytes()])
    }

    /// Takes the lead under a new epoch, which is at least this one.
    pub(in crate::engine::shared) fn lead(&self, birth: &[u8], epoch: u64) -> Vec<u8> {
        let (lease, epoch) = (self.lease_ms.to_string(), epoch.to_string());
        let (lease, epoch) = (lease.as_bytes(), epoch.as_bytes());
        let args = [birth, &self.server, &self.name, lease, epoch, &self.addresses];
        self.call_with(b"jl_lead", &args)
    }

    pub(super) fn status(&self) -> Vec<u8> {
        self.call_with(b"jl_status", &[])
    }

    pub(super) fn read(&self, term: &Term, bases: bool, cursor: &[u8], count: usize) -> Vec<u8> {
        let (epoch, lease) = (term.epoch.to_string(), self.lease_ms.to_string());
        let (which, count) = (if bases { "jobs" } else { "more" }, count.to_string());
        let args = [&term.birth[..], &self.server, epoch.as_bytes(), lease.as_bytes()];
        let args = [&args[..], &[which.as_bytes(), cursor]].concat();
        self.call_with(b"jl_read", &[&args[..], &[count.as_bytes()]].concat())
    }

    /// Gives the lead back, after the write with this number, if there was one.
    pub(in crate::engine::shared) fn resign(&self, term: &Term, seq: Option<u64>) -> Vec<u8> {
        let (epoch, seq) = (term.epoch.to_string(), seq.map(|seq| seq.to_string()));
        let args = [&term.birth[..], &self.server, epoch.as_bytes()];
        let seq = seq.as_ref().map(String::as_bytes);
        self.call_with(b"jl_resign", &[&args[..], seq.as_slice()].concat())
    }

    /// This server waits no more. It is a plain command.
    pub(super) fn leave(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_array(&mut out, 3);
        for word in [&b"HDEL"[..], &self.keys[3], &self.server] {
            push_bulk(&mut out, word);
        }
        out
    }

    /// Writes a batch. O(bytes).
    pub(in crate::engine::shared) fn write(
        &self,
        term: &Term,
        (seq, mark): (u64, u64),
        batch: &Batch,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(batch.bytes() + 512);
        let sets = [true, false].map(|bases| batch.sets(bases).count() * 2);
        let deletes = [true, false].map(|bases| batch.deletes(bases).count());
        let changes = sets[0] + sets[1] + deletes[0] + deletes[1];
        let ordered = batch.ordered();
        self.call(&mut out, b"jl_write", 10 + changes + usize::from(ordered.is_some()));
        push_bulk(&mut out, &term.birth);
        push_bulk(&mut out, &self.server);
        for number in [term.epoch, seq, self.lease_ms, mark] {
            push_bulk_unsigned(&mut out, number);
        }
        for count in sets.into_iter().chain(deletes) {
            push_bulk_unsigned(&mut out, count as u64);
        }
        for bases in [true, false] {
            for (field, value) in batch.sets(bases) {
                push_bulk_of(&mut out, |out| field.write(out));
                push_bulk(&mut out, value);
            }
        }
        for bases in [true, false] {
            for field in batch.deletes(bases) {
                push_bulk_of(&mut out, |out| field.write(out));
            }
        }
        if let Some(ordered) = ordered {
            push_bulk(&mut out, ordered);
        }
        out
    }

    /// Waits until this many replicas have what was written before on this connection.
    pub(in crate::engine::shared) fn wait(&self, replicas: u32) -> Vec<u8> {
        let third = Duration::from_millis(self.lease_ms / 3);
        let timeout = REPLICAS_TIMEOUT.min(third).as_millis();
        let mut out = Vec::new();
        push_array(&mut out, 3);
        push_bulk(&mut out, b"WAIT");
        push_bulk_unsigned(&mut out, u64::from(replicas));
        push_bulk_unsigned(&mut out, timeout.try_into().unwrap_or(u64::MAX));
        out
    }

    /// Makes of a written batch one that is taken while memory is full, or the other way round.
    pub(in crate::engine::shared) fn set_tight(write: &mut [u8], tight: bool) {
        let (from, to): (&[u8], &[u8; 8]) =
            if tight { (b"jl_write", b"jl_tight") } else { (b"jl_tight", b"jl_write") };
        // The name stands near the begin, before the keys.
        let end = HEAD_BYTES.min(write.len());
        let head = &mut write[..end];
        if let Some(at) = memchr::memmem::find(head, from) {
            head[at..at + to.len()].copy_from_slice(to);
        }
    }
}

/// The name of the function ends before: an array head of at most 12 bytes, and two bulk strings.
const HEAD_BYTES: usize = 40;
