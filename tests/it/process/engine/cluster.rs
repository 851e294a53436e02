//! A real cluster: its node with the slot dies, and the slot moves, under load.

use super::Redis;
use super::leaders::{compare, job, load};
use super::redis::{Setup, redis_client};
use crate::support::{Program, Server, put, until};
use jobcentre::wire::resp::tag_of_slot;
use std::process::Command;

/// The slot of all keys.
const SLOT: u16 = 8192;

/// Three primaries, and as many replicas if they are wanted.
pub(super) struct Cluster(pub(super) Vec<Redis>);

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap().trim().to_owned()
}

impl Cluster {
    pub(super) fn start(with_replicas: bool) -> Option<Self> {
        let count = if with_replicas { 6 } else { 3 };
        let setup = Setup { in_cluster: true, ..Setup::default() };
        let nodes: Option<Vec<_>> = (0..count).map(|_| Redis::start_with(&setup)).collect();
        let nodes = nodes?;
        let mut command = Command::new(redis_client());
        command.args(["--cluster-yes", "--cluster", "create"]);
        command.args(nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())));
        command.args(["--cluster-replicas", if with_replicas { "1" } else { "0" }]);
        let Ok(made) = command.output() else {
            eprintln!("SKIPPED: there is no {} on this machine", redis_client());
            return None;
        };
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        let cluster = Self(nodes);
        until("a cluster that serves", || {
            cluster.0.iter().all(|node| {
                let info = text(node.ask(&[b"CLUSTER", b"INFO"]));
                info.contains("cluster_state:ok") && info.contains("known_nodes:6") == with_replicas
            })
        });
        if with_replicas {
            cluster.wait_for_replicas();
        }
        Some(cluster)
    }

    /// Waits until each primary has a replica that is in step. Both have to say so: a primary does
    /// when it has sent its data, which the replica may not have read yet, and without them it
    /// never takes its place.
    pub(super) fn wait_for_replicas(&self) {
        until("replicas that are in step", || {
            let info = |node: &Redis| text(node.ask(&[b"INFO", b"replication"]));
            let infos: Vec<_> = self.0.iter().map(info).collect();
            let count = |mark| infos.iter().filter(|info| info.contains(mark)).count();
            count("state=online") == 3 && count("master_link_status:up") == 3
        });
    }

    pub(super) fn url(&self) -> String {
        let hosts: Vec<_> =
            self.0.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// The place of the node that has the slot.
    pub(super) fn owner(&self) -> usize {
        let tag = tag_of_slot(SLOT);
        let key = [b"jc:{", &tag[..], b"}:meta"].concat();
        let has_slot = |node: &Redis| node.ask(&[b"EXISTS", &key]).starts_with(b":");
        let mut owner = None;
        until("a node that has the slot", || {
            owner = self.0.iter().position(has_slot);
            owner.is_some()
        });
        owner.unwrap()
    }

    /// The place of the next primary behind the one that has the slot.
    fn other_primary(&self) -> usize {
        let owner = self.owner();
        let is_primary = |place: &usize| self.0[*place].is_primary();
        let count = self.0.len();
        (1..count).map(|step| (owner + step) % count).find(is_primary).unwrap()
    }

    /// Moves the slot to another primary, its keys one after the other: between them they are on
    /// two nodes.
    pub(super) fn move_slot(&self) {
        let (from, to) = (&self.0[self.owner()], &self.0[self.other_primary()]);
        let slot = SLOT.to_string();
        let set_slot = |node: &Redis, words: &[&[u8]]| {
            let all = [&[&b"CLUSTER"[..], b"SETSLOT", slot.as_bytes()], words].concat();
            assert_eq!(text(node.ask(&all)), "+OK");
        };
        let id = |node: &Redis| {
            text(node.ask(&[b"CLUSTER", b"MYID"])).lines().last().unwrap().to_owned()
        };
        let (from_id, to_id) = (id(from), id(to));
        set_slot(to, &[b"IMPORTING", from_id.as_bytes()]);
        set_slot(from, &[b"MIGRATING", to_id.as_bytes()]);
        let keys = text(from.ask(&[b"CLUSTER", b"GETKEYSINSLOT", slot.as_bytes(), b"10"]));
        let port = to.port().to_string();
        for key in keys.lines().filter(|line| line.starts_with("jc:")) {
            let words =
                [&b"MIGRATE"[..], b"127.0.0.1", port.as_bytes(), key.as_bytes(), b"0", b"9000"];
            assert_eq!(text(from.ask(&words)), "+OK");
        }
        for node in [to, from] {
            set_slot(node, &[b"NODE", to_id.as_bytes()]);
        }
        if self.0.len() > 3 {
            let (written, _) = to.replication_offsets();
            until("the keys on the replica, too", || to.replication_offsets().1 >= written);
        }
    }

    /// Waits until three nodes are primaries.
    pub(super) fn wait_for_primaries(&self) {
        let count = || self.0.iter().filter(|node| node.is_primary()).count();
        until("a replica in the place of its primary", || count() == 3);
    }
}

fn start(url: &str) -> Server {
    let flags = ["--engine", url, "--server-name", "only", "--engine-lease", "1s"];
    Server::start(&[&flags[..], &["--engine-patience", "1min"]].concat())
}

#[test]
fn nothing_answered_is_lost_when_the_node_with_the_slot_is_killed() {
    let Some(mut cluster) = Cluster::start(true) else { return };
    let url = cluster.url();
    let leader = start(&url);
    leader.wait_for_log("answers wait until a replica has");
    let owner = cluster.owner();
    let ledger = load(leader.address, 0, || {
        cluster.0[owner].kill();
        let mut client = leader.connect();
        assert!(client.ask(&put("other", 1, "{}")).contains(r#""status":"ok""#));
    });
    compare(&leader, &ledger);
    let status = Program::output(&["engine", "status", "--engine", &url], &[]);
    assert!(text(status.stdout).starts_with("leader: only "));
}

#[test]
fn slot_that_moves_is_followed() {
    let Some(cluster) = Cluster::start(false) else { return };
    let leader = start(&cluster.url());
    assert!(leader.connect().ask(&job(u64::MAX >> 12)).contains(r#""status":"ok""#));
    let (from, to) = (&cluster.0[cluster.owner()], &cluster.0[cluster.other_primary()]);
    let ledger = load(leader.address, 1, || {
        cluster.move_slot();
        let mut client = leader.connect();
        assert!(client.ask(&put("other", 1, "{}")).contains(r#""status":"ok""#));
    });
    assert_eq!(cluster.0[cluster.owner()].port(), to.port());
    for verb in ["status", "pause"] {
        let refused = Program::output(&["engine", verb, "--engine", &from.url()], &[]);
        let said = text(refused.stderr);
        assert!(said.contains("begin the address with redis+cluster://"), "{said}");
    }
    let mut ledger = ledger;
    ledger.note_put(u64::MAX >> 12, 1);
    compare(&leader, &ledger);
}

/// Servers of several prefixes know nothing of each other, and each prefix has a leader: that is
/// how more than one primary of a cluster, and more than one server, come to work.
#[test]
fn jobs_of_several_prefixes_are_on_several_primaries() {
    let Some(cluster) = Cluster::start(false) else { return };
    let url = cluster.url();
    // Their slots lie in different thirds of all.
    let servers = ["nightly", "jc", "billing"].map(|prefix| {
        Server::start(&["--engine", &url, "--engine-prefix", prefix, "--server-name", prefix])
    });
    for (number, server) in servers.iter().enumerate() {
        let put = server.connect().ask(&job(number as u64));
        assert!(put.contains(r#""status":"ok""#), "{put}");
    }
    for server in &servers {
        let stats = server.connect().ask("{\"request\":\"queues\"}\n");
        assert!(stats.contains(r#""ready":1"#), "{stats}");
    }
    for node in &cluster.0 {
        assert!(text(node.ask(&[b"DBSIZE"])).starts_with(":4"), "the four keys of one prefix");
    }
}
