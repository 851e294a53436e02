//! What commands and replies borrow and bytes cannot lend.

use crate::base::strings::StringList;
use std::cell::OnceCell;

/// Hands the kinds of these parts, first those of one value and then those of several, to a macro.
macro_rules! with_kept_types {
    ($macro:ident) => {
        $macro! {
            options: crate::model::job::JobOptions,
            change: crate::model::action::JobChange,
            action: crate::model::action::ActionSpec,
            query: std::sync::Arc<crate::model::query::Query>,
            job: crate::model::manage::NewJob,
            terms: crate::model::manage::ReserveTerms,
            cursor: crate::model::manage::JobCursor,
            report: crate::model::manage::RunReport,
            schedule: crate::model::schedule::Schedule,
            constraint: crate::model::worker::Constraint,
            indexed: crate::model::indexed_queue::IndexedReply,
            indexed_page: crate::model::indexed_queue::IndexedPage,
            consumer: crate::model::consumer::ConsumerReply,
            manage: crate::model::manage::ManageReply,
            scan: crate::model::external_id::QueueScan,
            stats: crate::model::stats::StatsPage,
            ;
            jobs: crate::model::manage::NewJob,
            imported: crate::model::transfer::ImportedJob,
            packets: crate::model::job::Packet,
            workers: crate::model::worker::OwnedWorker,
            attached: (crate::model::id::JobId, crate::model::job::LeaseEpoch),
        }
    };
}
pub(super) use with_kept_types;

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

with_kept_types! { scratch }
