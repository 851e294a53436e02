//! Reads of segments for backups: one thread with a low priority, which starts with the first read.

use super::directory::fault;
use super::file_disk::Notify;
use crate::journal::disk::{DiskError, SegmentPart, SegmentReader};
use crate::journal::segment_name;
use crate::reactor::thread_priority::lower_priority;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use tracing::debug;

type ReadResult = Result<Vec<u8>, DiskError>;

/// Reads the segments of a directory. Dropping it joins the thread, after the read under way.
pub struct BackupReader {
    path: PathBuf,
    wake: Notify,
    running: Option<Running>,
    /// Why the thread did not start: the results of as many reads.
    failed: Vec<DiskError>,
}

struct Running {
    orders: Sender<SegmentPart>,
    done: Receiver<ReadResult>,
    thread: JoinHandle<()>,
}

impl fmt::Debug for BackupReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackupReader").field("path", &self.path).finish_non_exhaustive()
    }
}

impl BackupReader {
    /// A reader of this directory. `wake` is called at the end of each read.
    #[must_use]
    pub fn new(path: PathBuf, wake: Notify) -> Self {
        Self { path, wake, running: None, failed: Vec::new() }
    }

    fn start(&self) -> Result<Running, DiskError> {
        let (orders, parts) = channel();
        let (results, done) = channel();
        let (path, wake) = (self.path.clone(), self.wake.clone());
        let builder = thread::Builder::new().name("backup".to_owned());
        let thread = builder.spawn(move || {
            if let Err(why) = lower_priority() {
                debug!(%why, "the thread that reads for backups has the usual priority");
            }
            let mut open = None;
            for part in parts {
                // Fails once the reader is dropped.
                let _ = results.send(read(&path, part, &mut open));
                wake();
            }
        });
        let thread = thread.map_err(|error| fault("start a thread for", &self.path, &error))?;
        Ok(Running { orders, done, thread })
    }
}

/// `open`: the segment that was read last.
fn read(path: &Path, part: SegmentPart, open: &mut Option<(u64, File)>) -> ReadResult {
    let name = path.join(segment_name(part.epoch));
    let failed = |operation, error: std::io::Error| fault(operation, &name, &error);
    let file = match open.take().filter(|(epoch, _)| *epoch == part.epoch) {
        Some((_, file)) => file,
        None => File::open(&name).map_err(|error| failed("open", error))?,
    };
    let mut bytes = vec![0; part.length];
    file.read_exact_at(&mut bytes, part.offset).map_err(|error| failed("read", error))?;
    *open = Some((part.epoch, file));
    Ok(bytes)
}

impl SegmentReader for BackupReader {
    fn submit(&mut self, part: SegmentPart) {
        if self.running.is_none() {
            match self.start() {
                Ok(running) => self.running = Some(running),
                Err(error) => {
                    self.failed.push(error);
                    return (self.wake)();
                }
            }
        }
        if let Some(running) = &self.running {
            assert!(running.orders.send(part).is_ok(), "the thread of backups has died");
        }
    }

    fn poll(&mut self) -> Option<ReadResult> {
        if let Some(error) = self.failed.pop() {
            return Some(Err(error));
        }
        self.running.as_ref()?.done.try_recv().ok()
    }
}

impl Drop for BackupReader {
    fn drop(&mut self) {
        if let Some(Running { orders, thread, .. }) = self.running.take() {
            drop(orders);
            // A panic of the thread was reported by the panic hook.
            let _ = thread.join();
        }
    }
}
