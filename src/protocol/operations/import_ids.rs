//! Which ids the jobs of an import have got: `after` of later lines means them.

use crate::base::api_limits::IMPORT_ID_RANGES_MAX;
use crate::model::id::JobId;
use std::collections::BTreeMap;

/// Ids of another server and the new ones, as ranges: ids that follow each other there get ids that
/// follow each other here, unless others put jobs meanwhile.
#[derive(Debug, Default)]
pub(super) struct ImportIds {
    /// By the first id of another server: the new one, and how many there are.
    ranges: BTreeMap<u64, (u64, u64)>,
    /// Not all ids are there.
    is_full: bool,
}

impl ImportIds {
    /// The new id of a job of another server. O(log r).
    pub(super) fn find(&self, other: JobId) -> Option<JobId> {
        let (&first, &(new, count)) = self.ranges.range(..=other.0).next_back()?;
        let distance = other.0 - first;
        (distance < count).then(|| JobId(new + distance))
    }

    /// Notes the new id of a job; the first one counts. O(log r).
    pub(super) fn insert(&mut self, other: JobId, new: JobId) {
        let before = self.ranges.range_mut(..=other.0).next_back();
        if let Some((&first, (new_first, count))) = before {
            let distance = other.0 - first;
            if distance < *count {
                return;
            }
            if distance == *count && new_first.checked_add(*count) == Some(new.0) {
                *count += 1;
                return;
            }
        }
        if self.ranges.len() < IMPORT_ID_RANGES_MAX {
            self.ranges.insert(other.0, (new.0, 1));
        } else {
            self.is_full = true;
        }
    }

    /// Whether there may be ids that are not noted.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_follow_each_other_take_one_range_and_the_first_of_two_counts() {
        let mut ids = ImportIds::default();
        let all = [(5, 105), (6, 106), (7, 107), (9, 108), (8, 109), (7, 1), (2, 3)];
        for (other, new) in all {
            ids.insert(JobId(other), JobId(new));
        }
        assert_eq!(ids.ranges.len(), 4, "{ids:?}");
        let found = |other| ids.find(JobId(other)).map(|id| id.0);
        let expected = [(1, None), (2, Some(3)), (3, None), (5, Some(105)), (7, Some(107))];
        let expected = expected.into_iter().chain([(8, Some(109)), (9, Some(108)), (10, None)]);
        for (other, new) in expected {
            assert_eq!(found(other), new, "{other}");
        }
    }
}
