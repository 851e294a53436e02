//! Searches: what HTTP asks for that is evaluated beside the passes.

use super::ServerModel;
use super::client::State;
use super::jobq;
use super::types::{Page, Question};
use jobcentre::base::limits::QUERIES_PER_PASS;
use jobcentre::model::id::ClientId;

#[derive(Clone)]
pub(super) struct Search {
    pub(super) client: ClientId,
    pub(super) question: Question,
    /// The second in which it came.
    pub(super) second: u64,
    /// When it came here; negative if what it found had changed and it is asked again.
    pub(super) came: i64,
}

impl ServerModel {
    /// Searches whose clients may send more go before the others, and of these the ones of an
    /// earlier second; then those that are asked again, the last first, and then in the order of
    /// coming.
    fn next_search(&mut self) -> Option<Search> {
        let rank = |it: &Search| (self.clients[&it.client].peer_closed, it.second, it.came);
        let first = (0..self.searches.len()).min_by_key(|&at| rank(&self.searches[at]))?;
        Some(self.searches.remove(first))
    }

    /// Searches go on at the end of the pass, one at a time.
    pub(super) fn search(&mut self) {
        for _ in 0..QUERIES_PER_PASS {
            while self.searching.is_none()
                && let Some(search) = self.next_search()
            {
                match jobq::begin_search(&mut self.store, search.client, &search.question) {
                    None => self.reply_found(search.client, Page::error(404)),
                    Some(found) => self.searching = Some((search, found)),
                }
            }
            if !self.found {
                return;
            }
            let Some((search, found)) = self.searching.take() else { return };
            let Search { client, ref question, .. } = search;
            if let Some(page) = jobq::end_search(&mut self.store, client, question, &found) {
                self.reply_found(client, page);
            } else {
                self.came += 1;
                self.searches.push(Search { came: -self.came, ..search });
            }
        }
    }

    fn reply_found(&mut self, id: ClientId, page: Page) {
        let client = self.client(id);
        let State::Asked(manner) = client.state else { panic!("no request is open") };
        let turns = if manner.to_head { 1 } else { page.turns };
        client.state = State::Writing(page, manner, turns);
        self.go_on(id);
    }
}
