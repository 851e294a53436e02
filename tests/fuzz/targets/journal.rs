//! A manipulated journal directory: whatever the files hold, recovery restores records that were
//! written, or rejects the directory. Salvage accepts all of them.

#![no_main]

use jobcentre::base::time::Now;
use jobcentre::journal::disk::{
    Disk, DiskError, DiskOp, FileEntry, Files, IoCompletion, IoKind, PrefillTarget, SpaceOp,
};
use jobcentre::journal::{
    JournalOptions, RecordLocation, RecordRole, SyncMode, read, recover, salvage,
};
use libfuzzer_sys::fuzz_target;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// A disk that does at once what it is asked to.
#[derive(Clone, Default)]
struct Memory {
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    done: Arc<Mutex<VecDeque<IoCompletion>>>,
}

fn segment(epoch: u64) -> String {
    format!("{epoch:016x}.seg")
}

impl Memory {
    fn complete(&self, kind: IoKind, buffer: Vec<u8>) {
        let done = IoCompletion { kind, result: Ok(()), buffer, sync_ns: 0 };
        self.done.lock().expect("one thread").push_back(done);
    }
}

impl Disk for Memory {
    fn set_prefill_target(&mut self, _: u64, _: PrefillTarget) {}

    fn submit(&mut self, op: DiskOp) {
        let mut files = self.files.lock().expect("one thread");
        match op {
            DiskOp::Write { epoch, offset, bytes, .. } => {
                let file = files.get_mut(&segment(epoch)).expect("a segment that is there");
                file[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
                self.complete(IoKind::Written, bytes);
            }
            DiskOp::Sync { .. } => self.complete(IoKind::Synced, Vec::new()),
        }
    }

    fn submit_space(&mut self, op: SpaceOp) {
        let mut files = self.files.lock().expect("one thread");
        match op {
            SpaceOp::Prepare { epoch, size, head, reuse } => {
                let spare = reuse.and_then(|spare| files.remove(&format!("spare-{spare}.seg")));
                let mut file = spare.unwrap_or_else(|| vec![0; size as usize]);
                file[..head.len()].copy_from_slice(&head);
                files.insert(segment(epoch), file);
            }
            SpaceOp::Free { epoch, keep } => {
                let file = files.remove(&segment(epoch)).expect("a segment that is there");
                if let Some(spare) = keep {
                    files.insert(format!("spare-{spare}.seg"), file);
                }
            }
            SpaceOp::Discard { spare } => {
                files.remove(&format!("spare-{spare}.seg"));
            }
        }
        self.complete(IoKind::Space, Vec::new());
    }

    fn poll(&mut self) -> Option<IoCompletion> {
        self.done.lock().expect("one thread").pop_front()
    }
}

impl Files for Memory {
    fn list(&mut self) -> Result<Vec<FileEntry>, DiskError> {
        let files = self.files.lock().expect("one thread");
        let entry = |(name, file): (&String, &Vec<u8>)| FileEntry {
            name: name.clone(),
            size: file.len() as u64,
        };
        Ok(files.iter().map(entry).collect())
    }

    fn read(&mut self, name: &str, offset: u64, out: &mut [u8]) -> Result<usize, DiskError> {
        let files = self.files.lock().expect("one thread");
        let from = files[name].get(offset as usize..).unwrap_or_default();
        let count = from.len().min(out.len());
        out[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.files.lock().expect("one thread").remove(name).expect("a file that is there");
        Ok(())
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        assert!(
            self.files
                .lock()
                .expect("one thread")
                .insert(name.to_owned(), bytes.to_vec())
                .is_none()
        );
        Ok(())
    }
}

/// The records by batch.
type Log = BTreeMap<u64, Vec<Vec<u8>>>;

fn options() -> JournalOptions {
    JournalOptions { segment_bytes: 4096, sync: SyncMode::Always, salt: 7 }
}

/// Lets a journal write records as `script` has it: of each byte the upper half says how long, the
/// lower half whose.
fn write(memory: &Memory, script: &[u8]) -> Log {
    let mut log = Log::new();
    let start =
        recover(&mut memory.clone(), &options(), &mut |_, _| Ok(RecordRole::None), &mut |_| {});
    let (recovered, _) = start.expect("an empty directory");
    let mut journal = recovered.start(Box::new(memory.clone()), Now::default());
    let mut base_records: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for (number, &byte) in script.iter().enumerate() {
        let record_key = u32::from(byte & 15);
        if byte >> 4 == 0 {
            journal.mark_dead(record_key);
            base_records.remove(&record_key);
        } else {
            let record = vec![number as u8; usize::from(byte >> 4).pow(2)];
            let batch = journal.append(Some(record_key), &record);
            log.entry(batch).or_default().push(record.clone());
            base_records.insert(record_key, record);
        }
        while let Some(record_key) = journal.next_to_move() {
            let batch = journal.append(Some(record_key), &base_records[&record_key]);
            log.entry(batch).or_default().push(base_records[&record_key].clone());
        }
        if byte & 1 == 1 {
            journal.commit(Now::default());
            journal.poll(Now::default());
        }
    }
    for _ in 0..4 {
        journal.commit(Now::default());
        journal.poll(Now::default());
    }
    journal.check_invariants();
    log
}

/// Spoils files as `script` has it: four bytes each time, which file, where, and what.
fn meddle(memory: &Memory, script: &[u8]) {
    let mut files = memory.files.lock().expect("one thread");
    for step in script.chunks_exact(4) {
        let number = usize::from(step[0] & 15) % files.len().max(1);
        let Some(name) = files.keys().nth(number).cloned() else { return };
        let file = files.get_mut(&name).expect("it is there");
        let at = usize::from(u16::from_le_bytes([step[1], step[2]]));
        match step[0] >> 4 {
            0..10 => {
                if let Some(byte) = file.get_mut(at) {
                    *byte ^= step[3];
                }
            }
            10 => file.truncate(at),
            11 => file.iter_mut().skip(at).take(usize::from(step[3])).for_each(|byte| *byte = 0),
            12 => {
                let copy = file.clone();
                files.insert(segment(u64::from(step[3])), copy);
            }
            13 => {
                files.remove(&name);
            }
            14 => file.extend(std::iter::repeat_n(step[3], at % 512)),
            _ => {
                let from = usize::from(step[3]) * 8;
                if from < file.len() && at < file.len() {
                    let count = 256.min(file.len() - from.max(at));
                    file.copy_within(from..from + count, at);
                }
            }
        }
    }
}

fn read_all(memory: &Memory) -> Option<Log> {
    let mut found = Log::new();
    let mut each = |record: &[u8], origin: RecordLocation| {
        found.entry(origin.sequence).or_default().push(record.to_vec());
        Ok(())
    };
    read(&mut memory.clone(), &mut each, &mut |_| {}).is_ok().then_some(found)
}

// The first byte says what comes: files as they are, or a journal's work and then meddling.
fuzz_target!(|data: &[u8]| {
    let Some((&head, rest)) = data.split_first() else { return };
    let memory = Memory::default();
    let mut log = None;
    if head & 1 == 0 {
        let size = rest.len() / (usize::from(head >> 1) % 3 + 1) + 1;
        let files = rest.chunks(size).zip(1_u64..);
        let files = files.map(|(bytes, epoch)| (segment(epoch), bytes.to_vec()));
        *memory.files.lock().expect("one thread") = files.collect();
    } else {
        let count = rest.len().min(usize::from(head >> 1) * 2);
        log = Some(write(&memory, &rest[..count]));
        meddle(&memory, &rest[count..]);
    }
    let found = read_all(&memory);
    if let (Some(found), Some(log)) = (&found, &log) {
        for (sequence, records) in found {
            assert_eq!(Some(records), log.get(sequence), "batch {sequence} was not written so");
        }
        let (first, last) = (found.keys().next(), found.keys().next_back());
        if let (Some(first), Some(last)) = (first, last) {
            assert!(log.range(first..=last).all(|(sequence, _)| found.contains_key(sequence)));
        }
    }
    let mut copy = Memory::default();
    if salvage(&mut memory.clone(), &mut copy, 4096).is_ok() {
        assert!(read_all(&copy).is_some(), "what was salvaged cannot be read");
    }
    let recovered =
        recover(&mut memory.clone(), &options(), &mut |_, _| Ok(RecordRole::None), &mut |_| {});
    assert_eq!(recovered.is_ok(), found.is_some(), "reading and recovering differ");
    if let Ok((recovered, _)) = recovered {
        recovered.start(Box::new(memory.clone()), Now::default()).check_invariants();
        assert_eq!(read_all(&memory), found, "recovery has changed what is there");
    }
});
