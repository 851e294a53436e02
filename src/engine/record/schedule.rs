//! The encoding of schedules.

use super::read::{Read, RecordReader};
use super::{
    ENCODING_SHIFT, dependencies, encoding_code, priority_code, push_byte_string, push_number,
    push_options, push_payload, push_priority,
};
use crate::base::time::Wall;
use crate::model::job::Payload;
use crate::model::manage::{NewJob, NewKey, OnDuplicate};
use crate::model::schedule::{Schedule, ScheduleState, Timing};

const INTERVAL: u8 = 1;
const SKIPS_OVERLAP: u8 = 1 << 1;
const SKIPS_MISSED: u8 = 1 << 2;
const PAUSED: u8 = 1 << 3;
const HAS_NEXT: u8 = 1 << 4;
const HAS_RUN: u8 = 1 << 5;

/// Of the job.
const HAS_KEY: u8 = 1 << 5;
const HAS_DEPENDENCIES: u8 = 1 << 6;

pub(super) fn push(out: &mut Vec<u8>, schedule: &Schedule, state: &ScheduleState) {
    let Schedule { name, timing, timezone, queue, job, job_text, .. } = schedule;
    push_byte_string(out, name);
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let definition = flag(matches!(timing, Timing::EveryMs(_)), INTERVAL)
        | flag(schedule.skips_overlap, SKIPS_OVERLAP)
        | flag(schedule.skips_missed, SKIPS_MISSED)
        | flag(schedule.paused, PAUSED);
    let moments = flag(state.next.is_some(), HAS_NEXT) | flag(state.last_run.is_some(), HAS_RUN);
    out.push(definition | moments);
    match timing {
        Timing::Cron(text) => push_byte_string(out, text.as_bytes()),
        Timing::EveryMs(ms) => push_number(out, *ms),
    }
    push_byte_string(out, timezone.as_bytes());
    push_byte_string(out, queue);
    push_byte_string(out, job_text.as_bytes());
    let priority = job.priority.view();
    let has_key = flag(job.key.is_some(), HAS_KEY);
    let bound = flag(job.dependencies.is_some(), HAS_DEPENDENCIES);
    let encoding = encoding_code(job.encoding) << ENCODING_SHIFT;
    out.push(priority_code(priority) | encoding | has_key | bound);
    push_priority(out, priority);
    push_payload(out, Payload { encoding: job.encoding, bytes: &job.payload });
    push_options(out, &job.options);
    push_number(out, job.options.delay_ms);
    push_number(out, job.options.ttl_ms);
    if let Some(key) = &job.key {
        push_byte_string(out, &key.bytes);
        push_number(out, key.ttl_ms);
        out.push(key.on_duplicate as u8);
    }
    if let Some(new) = &job.dependencies {
        dependencies::push_new(out, new);
    }
    push_number(out, state.anchor.0);
    if let Some(next) = state.next {
        push_number(out, next.0);
    }
    if let Some((at, id)) = state.last_run {
        push_number(out, at.0);
        push_number(out, id.0);
    }
}

impl RecordReader<'_> {
    pub(super) fn schedule(&mut self) -> Read<(Schedule, ScheduleState)> {
        let name = self.byte_string()?.into();
        let flags = self.byte()?;
        if flags >= HAS_RUN << 1 {
            return self.malformed();
        }
        let timing = match flags & INTERVAL {
            0 => Timing::Cron(self.utf8()?.into()),
            _ => match self.number()? {
                0 => return self.malformed(),
                ms => Timing::EveryMs(ms),
            },
        };
        let (timezone, queue) = (self.utf8()?.into(), self.byte_string()?.into());
        let job_text = self.utf8()?.into();
        let job = self.scheduled_job()?;
        let anchor = Wall(self.number()?);
        let next = if flags & HAS_NEXT == 0 { None } else { Some(Wall(self.number()?)) };
        let last_run =
            if flags & HAS_RUN == 0 { None } else { Some((Wall(self.number()?), self.id()?)) };
        let schedule = Schedule {
            name,
            timing,
            timezone,
            queue,
            job,
            job_text,
            skips_overlap: flags & SKIPS_OVERLAP != 0,
            skips_missed: flags & SKIPS_MISSED != 0,
            paused: flags & PAUSED != 0,
        };
        Ok((schedule, ScheduleState { next, anchor, last_run }))
    }

    fn scheduled_job(&mut self) -> Read<NewJob> {
        let flags = self.byte()?;
        if flags & !(3 | 3 << ENCODING_SHIFT | HAS_KEY | HAS_DEPENDENCIES) != 0 {
            return self.malformed();
        }
        let priority = self.priority(flags & 3)?.into();
        let Payload { encoding, bytes } = self.payload(flags >> ENCODING_SHIFT & 3)?;
        let mut options = self.options()?;
        options.delay_ms = self.number()?;
        options.ttl_ms = self.number()?;
        let key = if flags & HAS_KEY == 0 { None } else { Some(Box::new(self.new_key()?)) };
        let dependencies = match flags & HAS_DEPENDENCIES {
            0 => None,
            _ => Some(Box::new(self.new_dependencies()?)),
        };
        Ok(NewJob { priority, encoding, payload: bytes.into(), options, key, dependencies })
    }

    fn new_key(&mut self) -> Read<NewKey> {
        let (bytes, ttl_ms) = (self.byte_string()?.into(), self.number()?);
        let on_duplicate = match self.byte()? {
            0 => OnDuplicate::Keep,
            1 => OnDuplicate::Replace,
            2 => OnDuplicate::Reject,
            _ => return self.malformed(),
        };
        Ok(NewKey { bytes, ttl_ms, on_duplicate })
    }
}
