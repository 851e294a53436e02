//! Counts what has happened in the runs.

use super::native::NativeSeen;

/// How often something was seen: a test that sees nothing tests nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) lives: u64,
    pub(super) there: u64,
    pub(super) gone: u64,
    pub(super) unanswered_and_there: u64,
    pub(super) unanswered_and_not: u64,
    pub(super) known_status: u64,
    pub(super) popped: u64,
    pub(super) waited: u64,
    pub(super) disk_full: u64,
    pub(super) notes_refused: u64,
    pub(super) drained: u64,
    pub(super) rows: u64,
    pub(super) rows_with_more: u64,
    pub(super) declared: u64,
    pub(super) undeclared: u64,
    pub(super) reported: u64,
    pub(super) reported_later: u64,
    pub(super) not_reported: u64,
    pub(super) running: u64,
    pub(super) fetched: u64,
    pub(super) constraints: u64,
    pub(super) constraints_kept: u64,
    pub(super) constraints_in_doubt: u64,
    pub(super) managed: u64,
    pub(super) moved: u64,
    pub(super) paused: u64,
    pub(super) pauses_in_doubt: u64,
    pub(super) released: u64,
    pub(super) must_be_cancelled: u64,
    pub(super) held: u64,
    pub(super) consumed: u64,
    pub(super) taken_by_id: u64,
    pub(super) burials: u64,
    /// Of lives over a node: those that began with what was read while the last leader led.
    pub(super) followed: u64,
    pub(super) native: NativeSeen,
}

impl Seen {
    pub(super) fn add(&mut self, more: Self) {
        self.lives += more.lives;
        self.there += more.there;
        self.gone += more.gone;
        self.unanswered_and_there += more.unanswered_and_there;
        self.unanswered_and_not += more.unanswered_and_not;
        self.known_status += more.known_status;
        self.popped += more.popped;
        self.waited += more.waited;
        self.disk_full += more.disk_full;
        self.notes_refused += more.notes_refused;
        self.drained += more.drained;
        self.rows += more.rows;
        self.rows_with_more += more.rows_with_more;
        self.declared += more.declared;
        self.undeclared += more.undeclared;
        self.reported += more.reported;
        self.reported_later += more.reported_later;
        self.not_reported += more.not_reported;
        self.running += more.running;
        self.fetched += more.fetched;
        self.constraints += more.constraints;
        self.constraints_kept += more.constraints_kept;
        self.constraints_in_doubt += more.constraints_in_doubt;
        self.managed += more.managed;
        self.moved += more.moved;
        self.paused += more.paused;
        self.pauses_in_doubt += more.pauses_in_doubt;
        self.released += more.released;
        self.must_be_cancelled += more.must_be_cancelled;
        self.held += more.held;
        self.consumed += more.consumed;
        self.taken_by_id += more.taken_by_id;
        self.burials += more.burials;
        self.followed += more.followed;
        let mut native = more.native;
        for (count, more) in self.native.counts().into_iter().zip(native.counts()) {
            *count += *more;
        }
    }

    pub(super) fn assert_everything(&self) {
        let Self { lives, there, gone, unanswered_and_there, .. } = *self;
        let counts = [
            lives,
            there,
            gone,
            unanswered_and_there,
            self.unanswered_and_not,
            self.known_status,
            self.popped,
            self.waited,
            self.disk_full,
            self.notes_refused,
            self.drained,
            self.rows,
            self.rows_with_more,
            self.declared,
            self.undeclared,
            self.reported,
            self.reported_later,
            self.not_reported,
            self.running,
            self.fetched,
            self.constraints,
            self.constraints_kept,
            self.constraints_in_doubt,
            self.managed,
            self.moved,
            self.paused,
            self.pauses_in_doubt,
            self.released,
            self.must_be_cancelled,
            self.held,
            self.consumed,
            self.taken_by_id,
            self.burials,
        ];
        let mut native = self.native;
        let native = native.counts().map(|count| *count);
        let all = counts.iter().chain(&native).all(|&count| count > 0);
        assert!(all, "not everything happened: {self:?}");
    }
}
