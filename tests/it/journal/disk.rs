//! A disk in memory. Bytes that are written but not synced may be lost, in part and in any order;
//! an operation that is submitted but not done may have begun; operations of different threads
//! overtake each other.

use crate::rng::TestRng;
use crate::seeds;
use jobcentre::base::time::Now;
use jobcentre::engine::Engine;
use jobcentre::journal::JournalOptions;
use jobcentre::journal::disk::{
    Disk, DiskError, DiskOp, FileEntry, Files, IoCompletion, IoFailure, IoKind, PrefillTarget,
    SpaceOp,
};

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// How long every sync takes, as this disk says.
pub(crate) const SYNC_NS: u64 = 70_000;

/// How a run of the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The process dies; the kernel still writes what it has been given.
    Kill,
    /// The machine dies.
    PowerCut,
}

/// A write that the kernel has and the platter has not.
#[derive(Clone, Debug)]
struct Cached {
    offset: usize,
    bytes: Vec<u8>,
    /// Whether recovery has cut it off.
    stale: bool,
}

/// A file: what is on the platter, what a reader sees, and the writes between the two, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    durable: Vec<u8>,
    seen: Vec<u8>,
    cached: Vec<Cached>,
}

fn write_over(bytes: &mut Vec<u8>, offset: usize, with: &[u8]) {
    bytes.resize(bytes.len().max(offset + with.len()), 0);
    bytes[offset..offset + with.len()].copy_from_slice(with);
}

impl File {
    fn new(bytes: Vec<u8>) -> Self {
        Self { seen: bytes.clone(), durable: bytes, cached: Vec::new() }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset >= 64 && offset + bytes.len() <= self.seen.len(), "beyond its size");
        write_over(&mut self.seen, offset, bytes);
        self.cached.push(Cached { offset, bytes: bytes.to_vec(), stale: false });
    }

    fn sync(&mut self) {
        for Cached { offset, bytes, .. } in self.cached.drain(..) {
            write_over(&mut self.durable, offset, &bytes);
        }
    }

    /// Of what the kernel has, some reaches the platter.
    fn lose_power(&mut self, rng: &mut TestRng) {
        let manner = rng.below(5);
        for Cached { offset, bytes, .. } in std::mem::take(&mut self.cached) {
            match manner {
                1 if rng.percent(50) => write_over(&mut self.durable, offset, &bytes),
                2 => {
                    let cut = rng.between(0, bytes.len());
                    write_over(&mut self.durable, offset, &bytes[..cut]);
                }
                3 => {
                    let size = 1 << rng.between(0, 6);
                    for (at, sector) in bytes.chunks(size).enumerate() {
                        if rng.percent(60) {
                            write_over(&mut self.durable, offset + at * size, sector);
                        }
                    }
                }
                4 => write_over(&mut self.durable, offset, &bytes),
                _ => {}
            }
        }
        self.seen.clone_from(&self.durable);
    }
}

/// The disk's state; journals and tests share it.
#[expect(clippy::struct_excessive_bools, reason = "each is a fault of its own")]
#[derive(Debug)]
pub(crate) struct DiskState {
    pub(crate) files: BTreeMap<String, File>,
    /// Operations of the lanes that write and sync, and of the one for space.
    submitted: VecDeque<(u64, DiskOp)>,
    space: VecDeque<SpaceOp>,
    number: u64,
    done: [VecDeque<IoCompletion>; 3],
    /// How many bytes there may be in all files.
    pub(crate) capacity: u64,
    /// The next write, the next sync, or the next work on space, fails.
    pub(crate) fail_write: bool,
    pub(crate) fail_sync: bool,
    pub(crate) fail_space: bool,
    /// It has failed: nothing more happens there.
    space_is_broken: bool,
    /// Writes that are not synced at once are done where they are submitted.
    pub(crate) inline: bool,
    /// Completions may be reported late.
    pub(crate) late_completions: bool,
    /// Operations carried out.
    pub(crate) operations: u64,
    /// The segment of the last prefill target, and how soon it is needed.
    prefill_target: Option<(u64, PrefillTarget)>,
}

/// A handle to the platter.
#[derive(Clone)]
pub(crate) struct SimDisk {
    pub(crate) platter: Arc<Mutex<DiskState>>,
    rng: Arc<Mutex<TestRng>>,
}

fn failure(operation: &'static str, file: &str) -> DiskError {
    DiskError { operation, file: file.to_owned(), error: "simulated".to_owned() }
}

pub(crate) fn segment_name(epoch: u64) -> String {
    format!("{epoch:016x}.seg")
}

fn spare_name(number: u32) -> String {
    format!("spare-{number}.seg")
}

/// The number of the batch that these bytes are.
fn sequence_of(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(8..16)?.try_into().unwrap()))
}

impl DiskState {
    /// Bytes of all files.
    pub(crate) fn total(&self) -> u64 {
        self.files.values().map(|file| file.seen.len() as u64).sum()
    }

    fn is_ready(&self, at: usize) -> bool {
        let (_, op) = &self.submitted[at];
        let earlier = self.submitted.iter().take(at);
        match op {
            // Writes are done in their order; one that syncs also behind earlier syncs.
            DiskOp::Write { sync, .. } => earlier.into_iter().all(|(_, before)| match before {
                DiskOp::Write { .. } => false,
                DiskOp::Sync { .. } => !sync,
            }),
            DiskOp::Sync { epoch } => earlier.into_iter().all(|(_, before)| match before {
                DiskOp::Write { epoch: other, sync, .. } => !sync && other != epoch,
                DiskOp::Sync { .. } => false,
            }),
        }
    }

    /// Carries out one operation that may be next. False if there is none.
    fn work(&mut self, rng: &mut TestRng) -> bool {
        let ready: Vec<usize> = (0..self.submitted.len()).filter(|&at| self.is_ready(at)).collect();
        let choices = ready.len() + usize::from(!self.space.is_empty());
        if choices == 0 {
            return false;
        }
        if let Some(&at) = ready.get(rng.below(choices)) {
            let (_, op) = self.submitted.remove(at).unwrap();
            let done = self.carry_out(op);
            self.done[done.kind as usize].push_back(done);
        } else {
            let op = self.space.pop_front().unwrap();
            let result = self.make_room(op);
            self.done[IoKind::Space as usize].push_back(IoCompletion {
                kind: IoKind::Space,
                result,
                buffer: Vec::new(),
                sync_ns: 0,
            });
        }
        true
    }

    fn carry_out(&mut self, op: DiskOp) -> IoCompletion {
        self.operations += 1;
        let done = |kind, result: Result<(), DiskError>, buffer| IoCompletion {
            kind,
            result: result.map_err(IoFailure::Error),
            buffer,
            sync_ns: SYNC_NS,
        };
        match op {
            DiskOp::Write { epoch, offset, bytes, sync } => {
                let name = segment_name(epoch);
                if std::mem::take(&mut self.fail_write) {
                    let cut = bytes.len() / 2;
                    self.write(&name, offset, &bytes[..cut]);
                    return done(IoKind::Written, Err(failure("write", &name)), bytes);
                }
                self.write(&name, offset, &bytes);
                let synced = if sync { self.sync(&name) } else { Ok(()) };
                done(IoKind::Written, synced, bytes)
            }
            DiskOp::Sync { epoch } => {
                done(IoKind::Synced, self.sync(&segment_name(epoch)), Vec::new())
            }
        }
    }

    fn write(&mut self, name: &str, offset: u64, bytes: &[u8]) {
        let file = self.files.get_mut(name).expect("only a segment that is there is written to");
        file.write(usize::try_from(offset).unwrap(), bytes);
    }

    fn sync(&mut self, name: &str) -> Result<(), DiskError> {
        if std::mem::take(&mut self.fail_sync) {
            return Err(failure("sync", name));
        }
        self.files.get_mut(name).expect("only a segment that is there is synced").sync();
        Ok(())
    }

    fn make_room(&mut self, op: SpaceOp) -> Result<(), IoFailure> {
        self.operations += 1;
        if std::mem::take(&mut self.fail_space) {
            self.space.clear();
            self.space_is_broken = true;
            return Err(IoFailure::Error(failure("make room for", "a segment")));
        }
        match op {
            SpaceOp::Prepare { epoch, size, head, reuse } => {
                let size = usize::try_from(size).unwrap();
                let mut file = match reuse {
                    Some(spare) => self.files.remove(&spare_name(spare)).expect("a known spare"),
                    None if self.total() + size as u64 > self.capacity => {
                        return Err(IoFailure::Full(failure("make", &segment_name(epoch))));
                    }
                    None => File::new(vec![0; size]),
                };
                assert_eq!(file.seen.len(), size, "a spare of another size");
                write_over(&mut file.seen, 0, &head);
                file = File::new(file.seen);
                let former = self.files.insert(segment_name(epoch), file);
                assert!(former.is_none(), "a segment was made twice");
            }
            SpaceOp::Free { epoch, keep } => {
                let file = self.files.remove(&segment_name(epoch)).expect("a known segment");
                if let Some(spare) = keep {
                    assert!(self.files.insert(spare_name(spare), file).is_none());
                }
            }
            SpaceOp::Discard { spare } => {
                self.files.remove(&spare_name(spare)).expect("a known spare");
            }
        }
        Ok(())
    }

    /// The run ends: of what was submitted some is done, and one operation of each lane in part.
    fn end(&mut self, end: End, rng: &mut TestRng) {
        while rng.percent(50) && self.work(rng) {}
        if let Some((_, DiskOp::Write { epoch, offset, bytes, .. })) =
            self.submitted.iter().find(|(_, op)| matches!(op, DiskOp::Write { .. }))
        {
            let (name, offset) = (segment_name(*epoch), *offset);
            let part = bytes[..rng.between(0, bytes.len())].to_vec();
            if !part.is_empty() {
                self.write(&name, offset, &part);
            }
        }
        if let Some(SpaceOp::Prepare { size, head, reuse, .. }) = self.space.front() {
            // Never under its name.
            let name = spare_name(reuse.unwrap_or(u32::MAX));
            let part = rng.between(0, usize::try_from(*size).unwrap());
            let mut bytes = vec![0; part];
            write_over(&mut bytes, 0, head);
            self.files.insert(name, File::new(bytes));
        }
        if end == End::PowerCut {
            self.files.values_mut().for_each(|file| file.lose_power(rng));
        }
        self.submitted.clear();
        self.space.clear();
        self.done.iter_mut().for_each(VecDeque::clear);
        (self.fail_write, self.fail_sync, self.fail_space) = (false, false, false);
        self.space_is_broken = false;
    }

    /// Every batch up to this one would survive a power cut now; `last` is the last one.
    fn safe(&self, last: u64) -> u64 {
        let cached = self.files.values().flat_map(|file| &file.cached);
        let cached = cached.filter(|cached| !cached.stale).map(|cached| &cached.bytes);
        let submitted = self.submitted.iter().filter_map(|(_, op)| match op {
            DiskOp::Write { bytes, .. } => Some(bytes),
            DiskOp::Sync { .. } => None,
        });
        let open = cached.chain(submitted).filter_map(|bytes| sequence_of(bytes));
        open.min().map_or(last, |first| first - 1)
    }

    /// Recovery has ended with batch `last`: what is cached of later ones will never count.
    fn recovered(&mut self, last: u64) {
        for cached in self.files.values_mut().flat_map(|file| &mut file.cached) {
            cached.stale |= sequence_of(&cached.bytes).is_none_or(|sequence| sequence > last);
        }
    }
}

impl SimDisk {
    pub(crate) fn new(seed: u64) -> Self {
        let platter = DiskState {
            files: BTreeMap::new(),
            submitted: VecDeque::new(),
            space: VecDeque::new(),
            number: 0,
            done: Default::default(),
            capacity: u64::MAX,
            fail_write: false,
            fail_sync: false,
            fail_space: false,
            space_is_broken: false,
            inline: false,
            late_completions: false,
            operations: 0,
            prefill_target: None,
        };
        Self {
            platter: Arc::new(Mutex::new(platter)),
            rng: Arc::new(Mutex::new(TestRng::new(seed))),
        }
    }

    /// The engine of a program that is started over this disk.
    ///
    /// # Panics
    /// If recovery fails.
    pub(crate) fn start_engine(&self, options: &JournalOptions, seed: u64, now: Now) -> Engine {
        let mut files = self.clone();
        let (restored, report) =
            Engine::restore(&mut files, options, None, seed, now, &mut |_| {}).unwrap();
        seeds::say(|| format!("recovered: {report:?}"));
        Engine::durable(restored, Box::new(self.clone()), now)
    }

    /// Executes at most this many operations. Returns whether some are left.
    pub(crate) fn work(&self, most: usize) -> bool {
        let mut rng = self.rng.lock().unwrap();
        (0..most).all(|_| self.platter.lock().unwrap().work(&mut rng))
    }

    /// Whether nothing is to be done, and nothing to be reported.
    pub(crate) fn is_idle(&self) -> bool {
        let platter = self.platter.lock().unwrap();
        let reported = platter.done.iter().all(VecDeque::is_empty);
        reported && platter.submitted.is_empty() && platter.space.is_empty()
    }

    /// Whether its only task is to prepare a segment, without urgency.
    pub(crate) fn prepares_idly(&self) -> bool {
        let platter = self.platter.lock().unwrap();
        let reported = platter.done.iter().all(VecDeque::is_empty);
        let Some(SpaceOp::Prepare { epoch, .. }) = platter.space.front() else { return false };
        reported
            && platter.submitted.is_empty()
            && platter.prefill_target != Some((*epoch, PrefillTarget::Immediately))
    }

    /// Whether it knows how soon the segment is needed that it prepares, if it prepares one.
    pub(crate) fn has_target(&self) -> bool {
        let platter = self.platter.lock().unwrap();
        let Some(SpaceOp::Prepare { epoch, .. }) = platter.space.front() else { return true };
        platter.prefill_target.is_some_and(|(prefill_target, _)| prefill_target == *epoch)
    }

    pub(crate) fn end(&self, end: End) {
        self.platter.lock().unwrap().end(end, &mut self.rng.lock().unwrap());
    }

    /// See [`DiskState::safe`].
    pub(crate) fn safe(&self, last: u64) -> u64 {
        self.platter.lock().unwrap().safe(last)
    }

    /// See [`DiskState::recovered`].
    pub(crate) fn recovered(&self, last: u64) {
        self.platter.lock().unwrap().recovered(last);
    }

    /// A copy of all files as they are seen.
    pub(crate) fn image(&self) -> BTreeMap<String, Vec<u8>> {
        let platter = self.platter.lock().unwrap();
        platter.files.iter().map(|(name, file)| (name.clone(), file.seen.clone())).collect()
    }

    /// A disk with these files.
    pub(crate) fn of(image: BTreeMap<String, Vec<u8>>) -> Self {
        let disk = Self::new(1);
        let files = image.into_iter().map(|(name, bytes)| (name, File::new(bytes))).collect();
        disk.platter.lock().unwrap().files = files;
        disk
    }
}

impl Disk for SimDisk {
    fn set_prefill_target(&mut self, epoch: u64, need: PrefillTarget) {
        self.platter.lock().unwrap().prefill_target = Some((epoch, need));
    }

    fn submit(&mut self, op: DiskOp) {
        let mut platter = self.platter.lock().unwrap();
        match op {
            DiskOp::Write { sync: false, .. } if platter.inline => {
                let done = platter.carry_out(op);
                platter.done[IoKind::Written as usize].push_back(done);
            }
            _ => {
                let number = platter.number;
                platter.number += 1;
                platter.submitted.push_back((number, op));
            }
        }
    }

    fn submit_space(&mut self, op: SpaceOp) {
        let mut platter = self.platter.lock().unwrap();
        if !platter.space_is_broken {
            platter.space.push_back(op);
        }
    }

    fn poll(&mut self) -> Option<IoCompletion> {
        let mut platter = self.platter.lock().unwrap();
        let mut rng = self.rng.lock().unwrap();
        // A write that syncs is behind the syncs before it.
        let kinds: Vec<usize> = (0..3).filter(|&kind| !platter.done[kind].is_empty()).collect();
        if kinds.is_empty() || (platter.late_completions && rng.percent(30)) {
            return None;
        }
        let kind = *rng.pick(&kinds);
        let kind = if kind == IoKind::Written as usize && !platter.inline {
            if platter.done[IoKind::Synced as usize].is_empty() {
                kind
            } else {
                IoKind::Synced as usize
            }
        } else {
            kind
        };
        platter.done[kind].pop_front()
    }
}

impl Files for SimDisk {
    fn list(&mut self) -> Result<Vec<FileEntry>, DiskError> {
        let platter = self.platter.lock().unwrap();
        let files = platter.files.iter();
        Ok(files
            .map(|(name, file)| FileEntry { name: name.clone(), size: file.seen.len() as u64 })
            .collect())
    }

    fn read(&mut self, name: &str, offset: u64, out: &mut [u8]) -> Result<usize, DiskError> {
        let platter = self.platter.lock().unwrap();
        let file = platter.files.get(name).ok_or_else(|| failure("open", name))?;
        let from = file.seen.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        // Reads may come in pieces.
        let count = from.len().min(out.len()).min(1 << 16);
        out[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        let former = self.platter.lock().unwrap().files.remove(name);
        former.map(|_| ()).ok_or_else(|| failure("remove", name))
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        let file = File::new(bytes.to_vec());
        let former = self.platter.lock().unwrap().files.insert(name.to_owned(), file);
        if former.is_some() { Err(failure("create", name)) } else { Ok(()) }
    }
}
