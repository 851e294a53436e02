//! The encoding of constraints.

use super::read::{Read, RecordReader};
use super::{push_byte_string, push_number};
use crate::model::worker::{Compare, Condition, Constraint, Path, Rate, Scalar};

const MAX_RUNNING: u8 = 1;
const RATE: u8 = 2;
const PER: u8 = 4;

const OPERATORS: [Compare; 7] = [
    Compare::Equal,
    Compare::NotEqual,
    Compare::Less,
    Compare::LessOrEqual,
    Compare::Greater,
    Compare::GreaterOrEqual,
    Compare::In,
];

pub(super) fn push(out: &mut Vec<u8>, constraint: &Constraint) {
    let Constraint { name, matcher, max_running, rate, per } = constraint;
    push_byte_string(out, name.as_bytes());
    let flag = |there: bool, bit: u8| if there { bit } else { 0 };
    out.push(
        flag(max_running.is_some(), MAX_RUNNING)
            | flag(rate.is_some(), RATE)
            | flag(per.is_some(), PER),
    );
    if let Some(most) = *max_running {
        push_number(out, most.into());
    }
    if let Some(Rate { count, period_ms, burst }) = *rate {
        push_number(out, count.into());
        push_number(out, period_ms);
        push_number(out, burst.into());
    }
    if let Some(path) = per {
        push_path(out, path);
    }
    push_number(out, matcher.len() as u64);
    for Condition { path, op, values } in matcher {
        push_path(out, path);
        let code = (0..).zip(OPERATORS).find(|(_, known)| known == op).map(|(code, _)| code);
        out.push(code.expect("every operator has its code"));
        push_number(out, values.len() as u64);
        for value in values {
            push_scalar(out, value);
        }
    }
}

/// 0 is the name; otherwise the count of keys plus one, then the keys.
fn push_path(out: &mut Vec<u8>, path: &Path) {
    match path {
        Path::Name => out.push(0),
        Path::Argument(keys) => {
            push_number(out, keys.len() as u64 + 1);
            for key in keys {
                push_byte_string(out, key.as_bytes());
            }
        }
    }
}

fn push_scalar(out: &mut Vec<u8>, value: &Scalar) {
    match value {
        Scalar::Nil => out.push(0),
        Scalar::Bool(value) => out.push(1 + u8::from(*value)),
        Scalar::Integer(number) => {
            out.push(3);
            out.extend_from_slice(&number.to_le_bytes());
        }
        Scalar::Float(bits) => {
            out.push(4);
            out.extend_from_slice(&bits.to_le_bytes());
        }
        Scalar::Text(text) => {
            out.push(5);
            push_byte_string(out, text.as_bytes());
        }
    }
}

impl RecordReader<'_> {
    pub(super) fn constraint(&mut self) -> Read<Constraint> {
        let name = self.utf8()?.into();
        let flags = self.byte()?;
        if flags > MAX_RUNNING | RATE | PER {
            return self.malformed();
        }
        let max_running = if flags & MAX_RUNNING == 0 { None } else { Some(self.narrow_number()?) };
        let rate = if flags & RATE == 0 {
            None
        } else {
            let (count, period_ms) = (self.narrow_number()?, self.number()?);
            Some(Rate { count, period_ms, burst: self.narrow_number()? })
        };
        let per = if flags & PER == 0 { None } else { Some(self.path()?) };
        let mut matcher = Vec::new();
        for _ in 0..self.number()? {
            let path = self.path()?;
            let Some(&op) = OPERATORS.get(usize::from(self.byte()?)) else {
                return self.malformed();
            };
            let mut values = Vec::new();
            for _ in 0..self.number()? {
                values.push(self.scalar()?);
            }
            matcher.push(Condition { path, op, values });
        }
        Ok(Constraint { name, matcher, max_running, rate, per })
    }

    fn path(&mut self) -> Read<Path> {
        let Some(count) = self.number()?.checked_sub(1) else { return Ok(Path::Name) };
        let mut keys = Vec::new();
        for _ in 0..count {
            keys.push(self.utf8()?.into());
        }
        Ok(Path::Argument(keys))
    }

    fn scalar(&mut self) -> Read<Scalar> {
        Ok(match self.byte()? {
            0 => Scalar::Nil,
            1 => Scalar::Bool(false),
            2 => Scalar::Bool(true),
            3 => Scalar::Integer(i128::from_le_bytes(self.array()?)),
            4 => Scalar::Float(u64::from_le_bytes(self.array()?)),
            5 => Scalar::Text(self.utf8()?.into()),
            _ => return self.malformed(),
        })
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.byte()?;
        }
        Ok(bytes)
    }
}
