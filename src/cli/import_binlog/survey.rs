//! What a binlog holds: its records in the order of writing, and the jobs that they leave.
//!
//! A record with a body begins the life of a job, or is the copy of a job that was moved into a
//! newer file; one without changes it. When a file is removed, its jobs are gone or were moved; so
//! a change of a job that is not known yet is kept until its record comes, if it comes.
//!
//! Order of burying: that of the first records that call a job buried with this count of burials.
//! A job whose copy alone says so was buried in a file that is gone, before all others; the order
//! of these is that of their last reservations, the nearest that is known.

use super::files::{BinlogDirectory, BinlogFile};
use crate::wire::binlog::{
    BODY_END, BinlogFields, BinlogHead, BinlogPart, BinlogState, FILE_HEAD_BYTES,
    RECORD_HEAD_MAX_BYTES, VERSION, file_version, read_head,
};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Damaged places that are kept; further ones are counted.
const DAMAGES_MAX: usize = 20;

/// What the system writes to the disk as a whole.
const PAGE_BYTES: u64 = 4096;

/// A place in a binlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BinlogPlace {
    /// Index in [`BinlogDirectory::files`].
    pub(super) file: usize,
    /// In bytes.
    pub(super) offset: u64,
}

/// A job that the binlog leaves.
#[derive(Clone, Debug)]
pub(super) struct BinlogJob {
    /// Index in [`Survey::tubes`].
    pub(super) tube: usize,
    /// As of its last record.
    pub(super) fields: BinlogFields,
    /// Where its body is.
    pub(super) body: BinlogPlace,
    /// Its place in the order of burying.
    pub(super) buried: (u64, u64),
}

/// A place that cannot be read, or a job that is not whole.
#[derive(Clone, Debug)]
pub(super) struct Damage {
    pub(super) path: PathBuf,
    pub(super) offset: u64,
    /// Bytes that are skipped.
    pub(super) bytes: u64,
    pub(super) what: String,
}

/// A record without a body, of a job that is not known yet.
#[derive(Debug)]
struct EarlyChange {
    fields: BinlogFields,
    at: BinlogPlace,
    buried: (u64, u64),
}

/// What a binlog holds.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// By id.
    pub(super) jobs: BTreeMap<u64, BinlogJob>,
    /// The names of tubes.
    pub(super) tubes: Vec<Box<[u8]>>,
    tube_numbers: HashMap<Box<[u8]>, usize>,
    early: HashMap<u64, EarlyChange>,
    /// Greater than all ids.
    pub(super) next_id: u64,
    pub(super) records: u64,
    /// The last record, if it is not whole, as after a crash during a write.
    pub(super) torn: Option<Damage>,
    /// The first ones.
    pub(super) damages: Vec<Damage>,
    pub(super) damage_count: usize,
}

/// What stands at a place.
enum Found {
    /// A record that ends here.
    Record { end: u64 },
    /// Zeros.
    Zeros,
    /// No whole record: why, and where it would end at most.
    Broken { what: String, end: u64 },
}

impl Survey {
    /// Reads all files. Damage is noted, and reading goes on behind it. O(bytes).
    ///
    /// # Errors
    /// A sentence for the operator: a file cannot be read, or has another version.
    pub(super) fn read(directory: &BinlogDirectory) -> Result<Self, String> {
        let mut survey = Self { next_id: 1, ..Self::default() };
        let mut previous: Option<u64> = None;
        for (index, (number, path)) in directory.files.iter().enumerate() {
            if let Some(previous) = previous.filter(|previous| previous + 1 < *number) {
                let what = format!("files are missing between {previous} and {number}");
                survey.note(Damage { path: path.clone(), offset: 0, bytes: 0, what });
            }
            previous = Some(*number);
            survey.read_file(index, path)?;
        }
        let mut early: Vec<_> = survey.early.drain().collect();
        early.sort_unstable_by_key(|(id, _)| *id);
        for (id, change) in early {
            let path = directory.files[change.at.file].1.clone();
            let what = format!("this changes job {id}, whose body is in no file");
            survey.note(Damage { path, offset: change.at.offset, bytes: 0, what });
        }
        Ok(survey)
    }

    fn note(&mut self, damage: Damage) {
        self.damage_count += 1;
        if self.damages.len() < DAMAGES_MAX {
            self.damages.push(damage);
        }
    }

    fn read_file(&mut self, index: usize, path: &Path) -> Result<(), String> {
        let mut file = BinlogFile::open(path)?;
        let head = file.bytes(0, FILE_HEAD_BYTES)?;
        let version = file_version(head);
        if version != Some(VERSION) {
            if file.data_end(0)? == 0 {
                // It was made just before a crash, and nothing was written to it.
                return Ok(());
            }
            return Err(explain_version(path, version));
        }
        let mut at = FILE_HEAD_BYTES as u64;
        loop {
            let (what, end) = match self.read_record(index, &mut file, at, path)? {
                Found::Record { end } => {
                    at = end;
                    continue;
                }
                Found::Zeros => {
                    ("zeros stand before a record".to_owned(), at + RECORD_HEAD_MAX_BYTES as u64)
                }
                Found::Broken { what, end } => (what, end),
            };
            let data_end = file.data_end(at)?;
            if data_end == at {
                return Ok(());
            }
            let path = path.to_owned();
            let next = find_record(&mut file, at + 1, data_end)?;
            let damage = Damage { path, offset: at, bytes: next - at, what };
            if next == data_end && end >= data_end {
                // It is damage if a later file has records.
                self.torn = Some(damage);
                return Ok(());
            }
            self.note(damage);
            at = next;
        }
    }

    /// Reads the record at `at`, if there is one.
    fn read_record(
        &mut self,
        index: usize,
        file: &mut BinlogFile,
        at: u64,
        path: &Path,
    ) -> Result<Found, String> {
        let head = match read_head(file.bytes(at, RECORD_HEAD_MAX_BYTES)?) {
            BinlogPart::Record(head) => head,
            BinlogPart::Zeros => return Ok(Found::Zeros),
            wrong @ (BinlogPart::Cut | BinlogPart::Malformed(_)) => {
                let what = match wrong {
                    BinlogPart::Malformed(what) => what,
                    _ => "the file ends in a record",
                };
                let end = at + RECORD_HEAD_MAX_BYTES as u64;
                return Ok(Found::Broken { what: what.to_owned(), end });
            }
        };
        let (fields, length) = (head.fields, head.length as u64);
        let tube = head.tube.map(|name| self.tube(name));
        let body = BinlogPlace { file: index, offset: at + length };
        let end = body.offset + u64::from(head.body_bytes());
        if tube.is_some() && !ends_like_a_body(file, end)? {
            let what = format!("the body of job {} does not end with CRLF", fields.id);
            return Ok(Found::Broken { what, end });
        }
        if tube.is_none() && !self.fits(&fields) {
            let what = format!("this changes job {}, but is not like it", fields.id);
            return Ok(Found::Broken { what, end });
        }
        if fields.state == BinlogState::Deleted && may_be_torn(file, at, end)? {
            let what = format!("this deletes job {}, or its end is missing", fields.id);
            return Ok(Found::Broken { what, end: u64::MAX });
        }
        if let Some(torn) = self.torn.take() {
            self.note(torn);
        }
        self.records += 1;
        self.next_id = self.next_id.max(fields.id.saturating_add(1));
        let Some(tube) = tube else {
            self.change(fields, BinlogPlace { file: index, offset: at });
            return Ok(Found::Record { end });
        };
        if let Some(what) = self.add(fields, tube, body) {
            self.note(Damage { path: path.to_owned(), offset: at, bytes: 0, what });
        }
        Ok(Found::Record { end })
    }

    fn tube(&mut self, name: &[u8]) -> usize {
        if let Some(&number) = self.tube_numbers.get(name) {
            return number;
        }
        let number = self.tubes.len();
        self.tubes.push(name.into());
        self.tube_numbers.insert(name.into(), number);
        number
    }

    /// A whole record: a job was put, or moved. Returns what is wrong with it.
    fn add(&mut self, fields: BinlogFields, tube: usize, body: BinlogPlace) -> Option<String> {
        let id = fields.id;
        if fields.state == BinlogState::Deleted {
            self.jobs.remove(&id);
            return None;
        }
        let early = self.early.remove(&id).filter(|early| is_same_job(&early.fields, &fields));
        let known = self.jobs.get(&id);
        let other = known.is_some_and(|known| !is_same_job(&known.fields, &fields));
        let known = known.filter(|_| !other).map(|known| (known.fields, known.buried));
        let known = known.or_else(|| early.map(|early| (early.fields, early.buried)));
        let buried = match known {
            Some((known, buried)) if is_same_burial(&known, &fields) => buried,
            _ => (0, reserved_ns(&fields)),
        };
        self.jobs.insert(id, BinlogJob { tube, fields, body, buried });
        other.then(|| format!("job {id} was there already, with another body; this one is kept"))
    }

    /// Whether a record without a body is of the job that has its id, if that is known.
    fn fits(&self, fields: &BinlogFields) -> bool {
        self.jobs.get(&fields.id).is_none_or(|job| is_same_job(&job.fields, fields))
    }

    /// A record without a body, which fits.
    fn change(&mut self, fields: BinlogFields, at: BinlogPlace) {
        let id = fields.id;
        let buried = (self.records, 0);
        if let Some(job) = self.jobs.get_mut(&id) {
            if fields.state == BinlogState::Deleted {
                self.jobs.remove(&id);
                return;
            }
            if !is_same_burial(&job.fields, &fields) {
                job.buried = buried;
            }
            job.fields = fields;
        } else if fields.state == BinlogState::Deleted {
            self.early.remove(&id);
        } else {
            let earlier = self.early.get(&id);
            let same = earlier.filter(|earlier| is_same_burial(&earlier.fields, &fields));
            let buried = same.map_or(buried, |earlier| earlier.buried);
            self.early.insert(id, EarlyChange { fields, at, buried });
        }
    }
}

/// Whether two records are of one job: what never changes is equal.
fn is_same_job(one: &BinlogFields, other: &BinlogFields) -> bool {
    one.created_ns == other.created_ns && one.body_bytes == other.body_bytes
}

/// When a buried job was reserved: its deadline has not changed since.
fn reserved_ns(fields: &BinlogFields) -> u64 {
    fields.deadline_ns.saturating_sub(fields.ttr_ms * 1_000_000)
}

/// Whether the job was buried at the first record, and not again until the second.
fn is_same_burial(one: &BinlogFields, other: &BinlogFields) -> bool {
    one.state == BinlogState::Buried && one.state == other.state && one.buries == other.buries
}

fn ends_like_a_body(file: &mut BinlogFile, end: u64) -> Result<bool, String> {
    let length = BODY_END.len();
    Ok(file.bytes(end - length as u64, length)? == BODY_END)
}

/// Whether the record at `at` is the last one, and its bytes from the begin of a page on are zero:
/// if a crash of the machine has kept that page from the disk, it is another record, and the state
/// that it would name, deleted, is wrong. Zeros follow it then: beanstalkd cuts a file to its
/// records when it begins the next one, and writes no more to it.
fn may_be_torn(file: &mut BinlogFile, at: u64, end: u64) -> Result<bool, String> {
    let page = (end - 1) / PAGE_BYTES * PAGE_BYTES;
    if page <= at || file.bytes(page, RECORD_HEAD_MAX_BYTES)?.iter().any(|&byte| byte != 0) {
        return Ok(false);
    }
    Ok(!file.bytes(end, 1)?.is_empty() && file.data_end(page)? == page)
}

/// The place of the first record from `from` on; `end` if there is none before it.
/// O(end - from).
fn find_record(file: &mut BinlogFile, from: u64, end: u64) -> Result<u64, String> {
    for at in from..end {
        let head = match read_head(file.bytes(at, RECORD_HEAD_MAX_BYTES)?) {
            BinlogPart::Record(head) => head,
            BinlogPart::Zeros | BinlogPart::Cut | BinlogPart::Malformed(_) => continue,
        };
        let BinlogHead { tube, length, .. } = head;
        let body_end = at + length as u64 + u64::from(head.body_bytes());
        if tube.is_none() || ends_like_a_body(file, body_end)? {
            return Ok(at);
        }
    }
    Ok(end)
}

/// The message about a file of another version.
fn explain_version(path: &Path, version: Option<u32>) -> String {
    let path = path.display();
    match version {
        Some(5) => format!(
            "{path}, byte 0: the binlog has version 5, that of a beanstalkd before 1.5, and only \
             {VERSION} can be read. Start beanstalkd 1.12 with this directory, and let a client \
             move the jobs. Nothing was changed"
        ),
        Some(version) if version.swap_bytes() == VERSION => format!(
            "{path}, byte 0: this binlog was written on a big-endian machine, and cannot be read. \
             Nothing was changed"
        ),
        Some(version) => format!(
            "{path}, byte 0: the version of the binlog is {version}, and only {VERSION} can be \
             read. If the file is damaged, take it out of a copy of the directory, and import that \
             with --skip-damaged. Nothing was changed"
        ),
        None => format!(
            "{path}, byte 0: the file ends before its version. Take it out of a copy of the \
             directory, and import that with --skip-damaged. Nothing was changed"
        ),
    }
}
