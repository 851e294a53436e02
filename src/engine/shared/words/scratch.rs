//! What commands and replies borrow and bytes cannot lend.

use crate::base::strings::StringList;
use crate::model::action::{ActionSpec, JobChange};
use crate::model::consumer::ConsumerReply;
use crate::model::external_id::QueueScan;
use crate::model::id::JobId;
use crate::model::indexed_queue::{IndexedPage, IndexedReply};
use crate::model::job::{JobOptions, LeaseEpoch, Packet};
use crate::model::manage::{JobCursor, ManageReply, NewJob, ReserveTerms, RunReport};
use crate::model::query::Query;
use crate::model::schedule::Schedule;
use crate::model::stats::StatsPage;
use crate::model::transfer::ImportedJob;
use crate::model::worker::{Constraint, OwnedWorker};
use std::cell::OnceCell;
use std::sync::Arc;

macro_rules! scratch {
    ($($one:ident: $type:ty,)* ; $($many:ident: $element:ty,)*) => {
        /// The parts of one command or reply that are made when it is read. A new one for each.
        #[derive(Debug, Default)]
        pub struct Scratch {
            pub(super) strings: OnceCell<Box<StringList>>,
            pub(super) names: OnceCell<Box<StringList>>,
            $(pub(super) $one: OnceCell<Box<$type>>,)*
            $(pub(super) $many: OnceCell<Box<[$element]>>,)*
        }
    };
}

scratch! {
    options: JobOptions,
    change: JobChange,
    action: ActionSpec,
    query: Arc<Query>,
    job: NewJob,
    terms: ReserveTerms,
    cursor: JobCursor,
    report: RunReport,
    schedule: Schedule,
    constraint: Constraint,
    indexed: IndexedReply,
    indexed_page: IndexedPage,
    consumer: ConsumerReply,
    manage: ManageReply,
    scan: QueueScan,
    stats: StatsPage,
    ;
    jobs: NewJob,
    imported: ImportedJob,
    packets: Packet,
    workers: OwnedWorker,
    attached: (JobId, LeaseEpoch),
}
