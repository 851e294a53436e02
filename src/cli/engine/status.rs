//! `jobcentre engine status`: who leads, and what there is.

use super::arguments::Reached;
use crate::engine::shared::redis::Status;

pub(super) fn status(mut reached: Reached) -> Result<String, String> {
    Ok(text(&reached.status()?))
}

fn text(status: &Status) -> String {
    let value = |name: &str| status.value(name);
    let until: u64 = value("until").parse().unwrap_or(0);
    let leads = status.leader().is_some();
    let mut leader = status.leader().map_or_else(
        || "none".to_owned(),
        |name| format!("{name} (for {} ms more at least)", until - status.now),
    );
    if status.is_paused() {
        leader.push_str("\npaused: nothing is written, until `jobcentre engine resume`");
    }
    let standbys =
        if status.standbys.is_empty() { "none".to_owned() } else { status.standbys.join(", ") };
    let addresses = Some(value("addresses")).filter(|it| leads && !it.is_empty());
    let clients = addresses.map(|it| format!("clients of the leader: {it}\n"));
    let clients = clients.unwrap_or_default();
    let (bases, beside) = status.records;
    format!(
        "leader: {leader}\nwaiting to lead: {standbys}\n{clients}\
         epoch: {}\nlast write: {}\nids below: {}\nrecords: {bases}\n\
         states and events: {beside}\nschema: {}\n",
        value("epoch"),
        value("seq"),
        value("mark"),
        value("schema"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leader_counts_while_its_lease_lasts() {
        let meta = [("name", "a"), ("until", "1500"), ("epoch", "7"), ("seq", "9")];
        let meta = [&meta[..], &[("addresses", "http=h:1")]].concat();
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let meta = meta.into_iter().map(owned).collect();
        let standbys = vec!["b".to_owned()];
        let mut status = Status { meta, records: (3, 1), standbys, now: 1000 };
        let shown = text(&status);
        assert!(shown.starts_with("leader: a (for 500 ms more at least)\nwaiting to lead: b\n"));
        assert!(shown.contains("\nclients of the leader: http=h:1\nepoch: 7\n"), "{shown}");
        assert!(shown.contains("epoch: 7\nlast write: 9\n") && shown.contains("records: 3\n"));
        status.now = 1501;
        assert!(text(&status).starts_with("leader: none\nwaiting"));
        status.meta.push(("paused".to_owned(), "1400".to_owned()));
        assert!(text(&status).starts_with("leader: none\npaused: "));
    }
}
