//! The fields of a request, typed: members of a JSON object, or parameters of a query string.
//!
//! A field twice, an unknown one and one of a wrong type are problems that name the field; `null`
//! is as good as leaving it out. Integers are written as integers.

use super::problem::{Problem, ProblemKind};
use crate::base::names;
use crate::model::id::JobId;
use crate::model::job::{OwnedPriority, Priority};
use crate::model::job_state::JobState;
use crate::wire::json::{elements, object_members};
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::ops::RangeInclusive;

/// The longest duration: ten years, in milliseconds.
pub(in crate::protocol) const DURATION_MAX_MS: u64 = 10 * 366 * 24 * 3_600 * 1_000;

const A_DURATION: &str = "a whole number of milliseconds from 0 to 316224000000 (ten years)";

/// The fields of one request, or of an object in it.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    members: Vec<Member<'a>>,
    known: Cow<'static, [&'static str]>,
    /// The path of the object, with a dot at its end.
    prefix: String,
    /// Fields are named as in lines.
    is_line: bool,
}

/// A member of an object: its name, and its value as JSON text.
type Member<'a> = (Cow<'a, str>, &'a str);

fn members_of<'a>(text: &'a [u8], what: &str) -> Result<Vec<Member<'a>>, Problem> {
    object_members(text)
        .map_err(|error| Problem::new(ProblemKind::InvalidJson, format!("the {what} {error}")))
}

/// Whether a member of a line names no part of a path: it says by `null` that there is none.
pub(super) fn is_no_part(name: &str, text: &str) -> bool {
    text == "null" && matches!(name, "id" | "queue" | "action")
}

/// The name of a field in a line.
fn line_name(field: &str) -> &str {
    match field {
        "payload" => "job",
        "any_payload" => "payload",
        "wait_ms" => "timeout",
        _ => field.strip_suffix("_ms").unwrap_or(field),
    }
}

impl<'a> Fields<'a> {
    /// The members of a JSON object; of nothing, none. `known` are all that it may have.
    pub(super) fn of_object(
        text: &'a [u8],
        known: impl Into<Cow<'static, [&'static str]>>,
    ) -> Result<Self, Problem> {
        if text.is_empty() {
            return Ok(Self::of_members(Vec::new(), known, ""));
        }
        let fields = Self::of_members(members_of(text, "body")?, known, "");
        fields.check()?;
        Ok(fields)
    }

    fn of_members(
        members: Vec<Member<'a>>,
        known: impl Into<Cow<'static, [&'static str]>>,
        prefix: &str,
    ) -> Self {
        Self { members, known: known.into(), prefix: prefix.to_owned(), is_line: false }
    }

    /// The members of a line, but for `request`. `known` are all that it may have, named as over
    /// HTTP.
    pub(super) fn of_line(
        line: &'a [u8],
        known: impl Into<Cow<'static, [&'static str]>>,
    ) -> Result<Self, Problem> {
        let members = members_of(line, "line")?;
        let is_field = |(name, text): &Member<'_>| name != "request" && !is_no_part(name, text);
        let members = members.into_iter().filter(is_field).collect();
        let fields = Self { is_line: true, ..Self::of_members(members, known, "") };
        fields.check()?;
        Ok(fields)
    }

    /// The same, and unknown members are passed over; of members with one name the last counts.
    pub(super) fn of_known_line(
        line: &'a [u8],
        known: impl Into<Cow<'static, [&'static str]>>,
    ) -> Result<Self, Problem> {
        let members = members_of(line, "line")?;
        let members = members.into_iter().rev().collect();
        Ok(Self { is_line: true, ..Self::of_members(members, known, "") })
    }

    /// Whether a field may be there.
    pub(super) fn knows(&self, field: &str) -> bool {
        self.known.contains(&field)
    }

    /// Whether fields are named as in lines.
    pub(super) fn is_line(&self) -> bool {
        self.is_line
    }

    /// The name of a field as the request has it.
    fn own_name<'n>(&self, field: &'n str) -> &'n str {
        if self.is_line { line_name(field) } else { field }
    }

    /// No field is there twice, and none is unknown.
    fn check(&self) -> Result<(), Problem> {
        for (number, (name, _)) in self.members.iter().enumerate() {
            if !self.known.iter().any(|&known| self.own_name(known) == name) {
                let known: Vec<&'static str> =
                    self.known.iter().map(|&known| self.own_name(known)).collect();
                return Err(unknown(&self.prefix, name, &known));
            }
            if self.members[..number].iter().any(|(other, _)| other == name) {
                let field = format!("{}{name}", self.prefix);
                let detail = format!("field '{field}' is there twice: say it once");
                let problem = Problem::new(ProblemKind::InvalidField, detail);
                return Err(Problem { field: Some(field), ..problem });
            }
        }
        Ok(())
    }

    /// The full name of a field.
    pub(super) fn name(&self, field: &str) -> String {
        format!("{}{}", self.prefix, self.own_name(field))
    }

    pub(super) fn wrong(&self, field: &str, wanted: &str) -> Problem {
        Problem::wrong(&self.name(field), wanted)
    }

    /// The JSON text of a field, `null` too.
    pub(super) fn raw(&self, field: &'static str) -> Option<&'a str> {
        debug_assert!(self.known.contains(&field), "field {field} is read and not known");
        let field = self.own_name(field);
        self.members.iter().find(|(name, _)| name == field).map(|&(_, text)| text)
    }

    /// The JSON text of a field that is there and not `null`.
    pub(super) fn text(&self, field: &'static str) -> Option<&'a str> {
        self.raw(field).filter(|&text| text != "null")
    }

    pub(super) fn string(&self, field: &'static str) -> Result<Option<String>, Problem> {
        let Some(text) = self.text(field) else { return Ok(None) };
        let found = if text.starts_with('"') { serde_json::from_str(text).ok() } else { None };
        found.map(Some).ok_or_else(|| self.wrong(field, "a string"))
    }

    /// A string of some bytes.
    pub(super) fn short_string(
        &self,
        field: &'static str,
        max: usize,
    ) -> Result<Option<String>, Problem> {
        let found = self.string(field)?;
        let fits = found.as_ref().is_none_or(|text| (1..=max).contains(&text.len()));
        if fits {
            Ok(found)
        } else {
            Err(self.wrong(field, &format!("a string of 1 to {max} bytes")))
        }
    }

    /// One of these words.
    pub(super) fn word<T: Copy>(
        &self,
        field: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.string(field)? else { return Ok(None) };
        let found = words.iter().find(|(word, _)| *word == text);
        let list = || {
            let words: Vec<String> = words.iter().map(|(word, _)| format!("'{word}'")).collect();
            format!("one of {}", words.join(", "))
        };
        found.map(|&(_, value)| Some(value)).ok_or_else(|| self.wrong(field, &list()))
    }

    /// A state of jobs.
    pub(super) fn state(&self, field: &'static str) -> Result<Option<JobState>, Problem> {
        self.word(field, &JobState::ALL.map(|state| (state.name(), state)))
    }

    pub(super) fn bool(&self, field: &'static str) -> Result<Option<bool>, Problem> {
        match self.text(field) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(self.wrong(field, "true or false")),
        }
    }

    /// An integer in a range.
    pub(super) fn integer<T: TryFrom<i128> + Into<i128> + Copy>(
        &self,
        field: &'static str,
        min: T,
        max: T,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(field) else { return Ok(None) };
        let (least, most) = (min.into(), max.into());
        let number = whole(text).filter(|number| (least..=most).contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        let wanted = || format!("an integer from {least} to {most}, without fraction or exponent");
        number.map(Some).ok_or_else(|| self.wrong(field, &wanted()))
    }

    /// Most items of a page.
    pub(super) fn limit(&self) -> Result<usize, Problem> {
        Ok(self.integer("limit", 1_u32, 1_000)?.unwrap_or(100) as usize)
    }

    /// A duration in milliseconds.
    pub(super) fn duration(&self, field: &'static str) -> Result<Option<u64>, Problem> {
        self.duration_between(field, 0, DURATION_MAX_MS)
    }

    /// The same, in a range.
    pub(super) fn duration_between(
        &self,
        field: &'static str,
        min: u64,
        max: u64,
    ) -> Result<Option<u64>, Problem> {
        let Some(text) = self.text(field) else { return Ok(None) };
        let number = whole(text).and_then(|number| u64::try_from(number).ok());
        let number = number.filter(|number| (min..=max).contains(number));
        let wanted = if (min, max) == (0, DURATION_MAX_MS) {
            A_DURATION.to_owned()
        } else {
            format!("a whole number of milliseconds from {min} to {max}")
        };
        number.map(Some).ok_or_else(|| self.wrong(field, &wanted))
    }

    /// A number from 0 to 1.
    pub(super) fn fraction(&self, field: &'static str) -> Result<Option<f64>, Problem> {
        let Some(text) = self.text(field) else { return Ok(None) };
        let is_number = text.starts_with(|first: char| first.is_ascii_digit() || first == '-');
        let number =
            text.parse::<f64>().ok().filter(|number| is_number && (0.0..=1.0).contains(number));
        number.map(Some).ok_or_else(|| self.wrong(field, "a number from 0 to 1"))
    }

    /// A moment, in milliseconds since 1970; 0 for those before.
    pub(super) fn moment(&self, field: &'static str) -> Result<Option<u64>, Problem> {
        let Some(text) = self.text(field) else { return Ok(None) };
        let text: Option<String> = serde_json::from_str(text).ok();
        let moment = text.and_then(|text| text.parse::<Timestamp>().ok());
        let moment = moment.map(Timestamp::as_millisecond);
        let wanted = "a time with its zone, as 2026-11-22T09:30:00Z (RFC 3339), with at most nine \
                      digits behind a second, before 9999-12-30";
        moment
            .map(|ms| Some(u64::try_from(ms).unwrap_or(0)))
            .ok_or_else(|| self.wrong(field, wanted))
    }

    /// An array of strings.
    pub(super) fn strings(
        &self,
        field: &'static str,
        lengths: RangeInclusive<usize>,
    ) -> Result<Option<Vec<String>>, Problem> {
        let Some(text) = self.text(field) else { return Ok(None) };
        let wanted = || format!("an array of {} to {} strings", lengths.start(), lengths.end());
        let found: Option<Vec<String>> = serde_json::from_str(text).ok();
        let found = found.filter(|list| lengths.contains(&list.len()));
        found.map(Some).ok_or_else(|| self.wrong(field, &wanted()))
    }

    /// A job id; what no job can have is [`JobId::NEVER`].
    pub(super) fn job_id(&self, field: &'static str) -> Result<Option<JobId>, Problem> {
        let Some(text) = self.text(field) else { return Ok(None) };
        let wanted = "an integer, written without fraction or exponent";
        let id = is_whole(text).then(|| text.parse().map_or(JobId::NEVER, JobId));
        id.map(Some).ok_or_else(|| self.wrong(field, wanted))
    }

    /// An array of job ids; those that no job can have are [`JobId::NEVER`].
    pub(super) fn ids(
        &self,
        field: &'static str,
        max: usize,
    ) -> Result<Option<Vec<JobId>>, Problem> {
        let Some(text) = self.text(field) else { return Ok(None) };
        let wanted = || format!("an array of at most {max} job ids, which are integers");
        let list = elements(text).filter(|list| list.len() <= max);
        let id = |text: &str| is_whole(text).then(|| text.parse().map_or(JobId::NEVER, JobId));
        let ids = list.and_then(|list| list.into_iter().map(id).collect::<Option<Vec<_>>>());
        ids.map(Some).ok_or_else(|| self.wrong(field, &wanted()))
    }

    /// Whether a field is there; `null` too.
    pub(super) fn is_there(&self, field: &str) -> bool {
        let field = self.own_name(field);
        self.members.iter().any(|(name, _)| name == field)
    }

    /// A non-negative priority of any number of digits, as lines have it.
    pub(super) fn line_priority(&self, field: &'static str) -> Result<OwnedPriority, Problem> {
        let wanted = "a non-negative integer, written without fraction or exponent";
        let Some(text) = self.text(field) else { return Err(Problem::missing(field, wanted)) };
        if !is_whole(text) || text.starts_with('-') {
            return Err(self.wrong(field, wanted));
        }
        Ok(Priority::from_digits(text).into())
    }

    /// The fields of an object in this one.
    pub(super) fn object(
        &self,
        field: &'static str,
        known: impl Into<Cow<'static, [&'static str]>>,
    ) -> Result<Option<Self>, Problem> {
        let Some(text) = self.text(field) else { return Ok(None) };
        let Ok(members) = object_members(text.as_bytes()) else {
            return Err(self.wrong(field, "an object"));
        };
        let fields = Self::of_members(members, known, &format!("{}.", self.name(field)));
        fields.check()?;
        Ok(Some(fields))
    }
}

/// The integer that a JSON text is, written without fraction and exponent.
fn whole(text: &str) -> Option<i128> {
    is_whole(text).then(|| text.parse().ok()).flatten()
}

/// Whether a JSON text is an integer, written without fraction and exponent.
fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn unknown(prefix: &str, name: &str, known: &[&'static str]) -> Problem {
    let shown: String = name.chars().take(40).collect();
    let field = format!("{prefix}{shown}");
    let detail = format!("field '{field}' {}", names::unknown(&shown, known));
    Problem {
        field: Some(field),
        suggestion: names::nearest(&shown, known),
        ..Problem::new(ProblemKind::UnknownField, detail)
    }
}

/// Whether each percent sign begins an encoded byte.
fn is_percent_encoded(text: &str) -> bool {
    text.split('%').skip(1).all(|behind| {
        behind.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// The parameters of a query string as JSON texts, so that they are read like fields: numbers and
/// booleans of the names in `plain` as they are, all else as strings.
pub(super) fn query_object(query: &str, plain: &[&str]) -> Result<String, Problem> {
    let mut out = Vec::from(*b"{");
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let decode = |text: &str| {
            if !is_percent_encoded(text) {
                let detail = "a '%' in the query string begins no encoded byte: write it as %25";
                return Err(Problem::new(ProblemKind::InvalidField, detail));
            }
            let text = text.replace('+', " ");
            String::from_utf8(percent_decode_str(&text).collect()).map_err(|_| {
                let detail = "the query string is not UTF-8 after percent-decoding";
                Problem::new(ProblemKind::InvalidField, detail)
            })
        };
        let (name, value) = (decode(name)?, decode(value)?);
        if out.len() > 1 {
            out.push(b',');
        }
        crate::wire::json::push_string(&mut out, name.as_bytes());
        out.push(b':');
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&value).is_ok();
        let is_json = is_json && value != "null" && !value.starts_with(['"', '{', '[']);
        if plain.contains(&&*name) && is_json {
            out.extend_from_slice(value.as_bytes());
        } else {
            crate::wire::json::push_string(&mut out, value.as_bytes());
        }
    }
    out.push(b'}');
    // Proof: strings are written as UTF-8, and JSON texts were `str`s.
    Ok(String::from_utf8(out).expect("a query string is text"))
}
