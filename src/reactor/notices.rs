//! Incidents as sentences of the log.

use crate::model::driver::{Incident, Notice, Severity};
use crate::model::reply::Rejection;
use tracing::{error, info, warn};

fn why_dropped(rejection: Rejection) -> &'static str {
    match rejection {
        Rejection::Draining => "the server is being drained",
        Rejection::DiskFull => "the disk is full",
        Rejection::MemoryFull => "the jobs take as much memory as they may (--max-memory)",
        _ => "there is no place left for another job",
    }
}

/// Logs a notice. `address`: of its client, if that is still connected. `lacks_descriptors`: the
/// limit on open files permits fewer clients than the settings.
pub(super) fn log(notice: Notice, address: Option<String>, lacks_descriptors: bool) {
    let Notice { incident, total, .. } = notice;
    let client = address.unwrap_or_else(|| "gone".to_owned());
    match incident {
        Incident::JobDropped(why) => {
            let why = why_dropped(why);
            warn!(client, total, "{why}: a job was dropped, and its client does not know");
        }
        Incident::TooLarge(id) => warn!(
            client,
            total,
            job = id.0,
            "a job is too large to be popped by this client's protocol: it stays in its queue, \
             where only other clients can get it"
        ),
        Incident::TooManySubscriptions => warn!(
            client,
            total, "a client has subscribed to more queues than one connection may: closing it"
        ),
        Incident::UnknownRequest(byte) => warn!(
            client,
            total,
            byte = format_args!("{byte:#04x}"),
            "a client has sent a byte that begins no request: it gets what it asked for before, \
             then it is closed"
        ),
        Incident::ClientsRejected(rejected) if lacks_descriptors => warn!(
            rejected,
            total,
            "clients were rejected: as many are connected as the limit on open files allows. \
             Raise it if all of them are wanted (ulimit -n, or LimitNOFILE= of systemd)"
        ),
        Incident::ClientsRejected(rejected) => warn!(
            rejected,
            total,
            "clients were rejected: as many are connected as --max-clients allows. Raise it if all \
             of them are wanted"
        ),
        Incident::BuffersFull(bytes) => warn!(
            client,
            total,
            bytes,
            "the unfinished requests and unread replies of all clients take more than a quarter of \
             the memory (--max-memory, or the machine's), and this client's are the largest: \
             closing it"
        ),
        Incident::NotAuthenticated => warn!(client, total, "a client has shown no token of a user"),
        Incident::Denied(why) => warn!(client, total, "the client was not told: {why}"),
        Incident::OtherProtocol => warn!(
            client,
            total,
            "a client speaks another protocol than this listener (HTTP from a browser?): nothing \
             was carried out, closing it"
        ),
        Incident::WorkerDropped(worker) => warn!(
            worker = worker.0,
            total,
            "a worker could not be reached, or gave no sensible answer, several times in a row: it \
             was dropped, and its jobs go back to their queues"
        ),
        Incident::LogLine(line) => match line.severity {
            Severity::Error => error!("{}", line.text),
            Severity::Warn => warn!("{}", line.text),
            Severity::Info => info!("{}", line.text),
        },
    }
}
