//! The fields of all requests of the protocol, and of frequent ones of the native API.

use crate::protocol::operations::NATIVE_PUT_FIELDS;
use crate::wire::json::{Fields, Value};

pub(super) const REQUEST: usize = 0;
pub(super) const QUEUE: usize = 1;
pub(super) const JOB: usize = 2;
pub(super) const PRI: usize = 3;
pub(super) const QUEUES: usize = 4;
pub(super) const WAIT: usize = 5;
pub(super) const ID: usize = 6;
pub(super) const DELAY: usize = 7;
pub(super) const TTL: usize = 8;
pub(super) const TTR: usize = 9;
pub(super) const TIMEOUT: usize = 10;
/// Any other field of a put of the native API.
pub(super) const NATIVE: usize = 11;
/// Of requests that are lines of the native API if they have it.
pub(super) const TOKEN: usize = 12;
pub(super) const LIMIT: usize = 13;
pub(super) const MAX_ATTEMPTS: usize = 14;
pub(super) const KEY: usize = 15;
pub(super) const KEY_TTL: usize = 16;
/// Of reports.
pub(super) const RESULT: usize = 17;
pub(super) const ERROR: usize = 18;
pub(super) const MESSAGE: usize = 19;
pub(super) const RETRY: usize = 20;
pub(super) const COUNT: usize = 21;

/// The fields of all requests.
pub(super) struct RequestFields;

impl Fields<COUNT> for RequestFields {
    #[inline]
    fn number(name: &[u8]) -> Option<usize> {
        Some(match name {
            b"request" => REQUEST,
            b"queue" => QUEUE,
            b"job" => JOB,
            b"pri" => PRI,
            b"queues" => QUEUES,
            b"wait" => WAIT,
            b"id" => ID,
            b"delay" => DELAY,
            b"ttl" => TTL,
            b"ttr" => TTR,
            b"timeout" => TIMEOUT,
            b"limit" => LIMIT,
            b"token" => TOKEN,
            b"max_attempts" => MAX_ATTEMPTS,
            b"key" => KEY,
            b"key_ttl" => KEY_TTL,
            b"result" => RESULT,
            b"error" => ERROR,
            b"message" => MESSAGE,
            b"retry" => RETRY,
            _ if NATIVE_PUT_FIELDS.iter().any(|known| known.as_bytes() == name) => NATIVE,
            _ => return None,
        })
    }
}

pub(super) type Values<'a> = [Value<'a>; COUNT];

/// Whether a line has none of these fields.
#[inline]
pub(super) fn all_absent(values: &Values<'_>, fields: &[usize]) -> bool {
    fields.iter().all(|&field| values[field] == Value::Absent)
}
