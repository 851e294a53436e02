//! The functions by themselves: what they refuse, and that a refusal has done nothing.

use super::Redis;
use jobcentre::engine::shared::redis::library;

const KEYS: [&[u8]; 5] =
    [b"jc:{x}:meta", b"jc:{x}:jobs", b"jc:{x}:more", b"jc:{x}:servers", b"jc:{x}:log"];

impl Redis {
    fn call(&self, function: &str, args: &[&str]) -> String {
        let mut words: Vec<&[u8]> = vec![b"FCALL", function.as_bytes(), b"5"];
        words.extend(KEYS);
        words.extend(args.iter().map(|arg| arg.as_bytes()));
        let answer = String::from_utf8(self.ask(&words)).unwrap();
        // The parts of the array, without their lengths.
        let parts = answer.lines().filter(|line| !line.starts_with(['*', '$']));
        parts.collect::<Vec<_>>().join(" ")
    }

    fn fields(&self, key: usize) -> String {
        String::from_utf8(self.ask(&[b"HLEN", KEYS[key]])).unwrap().trim().to_owned()
    }

    /// A Redis with the library and a partition whose birth is `b`, which `one` leads for a minute
    /// under epoch 1.
    fn with_leader() -> Option<Self> {
        let redis = Self::start()?;
        let loaded = redis.ask(&[b"FUNCTION", b"LOAD", library().as_bytes()]);
        assert_eq!(loaded.escape_ascii().to_string(), "$9\\r\\njobcentre\\r\\n");
        assert_eq!(redis.call("jl_init", &["1", "1", "0", "b"]), "1 1 0 b");
        assert_eq!(redis.call("jl_init", &["1", "1", "0", "other"]), "1 1 0 b", "it is there");
        assert_eq!(redis.call("jl_lead", &["b", "one", "name1", "60000", "0"]), "LED 1 0 0");
        Some(redis)
    }

    fn write(&self, epoch: &str, seq: &str, rest: &[&str]) -> String {
        self.call("jl_write", &[&["b", "one", epoch, seq, "60000", "7"], rest].concat())
    }
}

#[test]
fn write_of_a_former_leader_is_refused_and_does_nothing() {
    let Some(redis) = Redis::with_leader() else { return };
    let set = ["2", "0", "0", "0", "id000001", "value"];
    assert_eq!(redis.write("1", "1", &set), "OK");
    // The same server again: its former epoch counts no more.
    assert_eq!(redis.call("jl_lead", &["b", "one", "name1", "60000", "0"]), "LED 2 1 7");
    let other = ["2", "0", "0", "0", "id000002", "value"];
    assert_eq!(redis.write("1", "2", &other), "FENCED 2 1 name1");
    assert_eq!(redis.fields(1), ":2", "the one job, and the field that is always there");
    assert_eq!(redis.call("jl_resign", &["b", "one", "1"]), "FENCED 2 1 name1");
    assert_eq!(
        redis.call("jl_read", &["b", "one", "1", "60000", "jobs", "0", "10"]),
        "FENCED 2 1 name1"
    );
}

#[test]
fn repeated_write_is_done_once_and_a_later_one_leaves_no_gap() {
    let Some(redis) = Redis::with_leader() else { return };
    let set = ["2", "2", "0", "0", "id000001", "value", "id000001", "state"];
    assert_eq!(redis.write("1", "1", &set), "OK");
    let delete = ["0", "0", "1", "1", "id000001", "id000001"];
    // The number says that it is done, whatever is in it.
    assert_eq!(redis.write("1", "1", &delete), "OK");
    assert_eq!((redis.fields(1), redis.fields(2)), (":2".to_owned(), ":2".to_owned()));
    assert_eq!(redis.write("1", "3", &delete), "GAP 1 1 name1");
    assert_eq!(redis.write("2", "2", &delete), "GAP 1 1 name1", "it knows an older epoch");
    assert_eq!((redis.fields(1), redis.fields(2)), (":2".to_owned(), ":2".to_owned()));
    assert_eq!(redis.write("1", "2", &delete), "OK");
    assert_eq!((redis.fields(1), redis.fields(2)), (":1".to_owned(), ":1".to_owned()));
    let wrong =
        redis.call("jl_write", &["other", "one", "1", "3", "60000", "7", "0", "0", "0", "0"]);
    assert!(wrong.starts_with("GONE "), "{wrong}");
}

#[test]
fn lead_is_held_until_it_is_given_back() {
    let Some(redis) = Redis::with_leader() else { return };
    // A server of a former version says nothing of its addresses.
    let held = redis.call("jl_lead", &["b", "two", "name2", "60000", "0", "http=h:2"]);
    assert!(held.starts_with("HELD name1 ") && held.ends_with("  no"), "{held}");
    assert_eq!(redis.call("jl_resign", &["b", "one", "1"]), "OK");
    let led = redis.call("jl_lead", &["b", "two", "name2", "60000", "0", "http=h:2"]);
    assert_eq!(led, "LED 2 0 0");
    assert_eq!(redis.call("jl_lead", &["c", "two", "name2", "60000", "0"]), "GONE");
    let held = redis.call("jl_lead", &["b", "one", "name1", "60000", "0", "http=h:1"]);
    assert!(held.starts_with("HELD name2 ") && held.ends_with(" http=h:2 no"), "{held}");
    let hello = redis.call("jl_hello", &["one", "name1", "60000"]);
    assert!(hello.starts_with("2 name2 ") && hello.ends_with(" http=h:2 no"), "{hello}");
    assert_eq!(redis.call("jl_resign", &["b", "two", "2"]), "OK");
    assert!(redis.call("jl_hello", &["one", "name1", "60000"]).starts_with("2  0 "));
}

#[test]
fn epoch_that_a_failover_has_lost_leads_again_unless_another_server_does() {
    let Some(redis) = Redis::with_leader() else { return };
    // As if the primary by now had not heard of epoch 7 of `two`.
    assert_eq!(redis.call("jl_resign", &["b", "one", "1"]), "OK");
    assert_eq!(redis.call("jl_resign", &["b", "one", "1"]), "OK", "it may be said twice");
    assert_eq!(redis.call("jl_lead", &["b", "two", "name2", "60000", "7"]), "LED 7 0 0");
    // Another server that got the same number of another primary does not lead.
    let set = ["2", "0", "0", "0", "id000001", "value"];
    assert_eq!(redis.write("7", "1", &set), "FENCED 7 0 name2");
    assert_eq!(redis.call("jl_resign", &["b", "one", "7"]), "FENCED 7 0 name2");
    let held = redis.call("jl_lead", &["b", "one", "name1", "60000", "7"]);
    assert!(held.starts_with("HELD name2 "), "{held}");
    assert_eq!(redis.fields(1), ":1");
}

#[test]
fn batch_of_more_fields_than_the_stack_of_lua_has_places_is_written() {
    let Some(redis) = Redis::with_leader() else { return };
    let names: Vec<String> = (0..9_000).map(|number| format!("id{number:06}")).collect();
    let sets: Vec<&str> = names.iter().flat_map(|name| [name.as_str(), "value"]).collect();
    assert_eq!(redis.write("1", "1", &[&["18000", "0", "0", "0"], &sets[..]].concat()), "OK");
    assert_eq!(redis.fields(1), ":9001");
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(redis.write("1", "2", &[&["0", "0", "9000", "0"], &names[..]].concat()), "OK");
    assert_eq!(redis.fields(1), ":1");
}

#[test]
fn full_memory_refuses_a_write_whole_and_takes_one_that_says_it_frees() {
    let Some(redis) = Redis::with_leader() else { return };
    redis.ask(&[b"CONFIG", b"SET", b"maxmemory", b"1"]);
    let set = ["2", "0", "0", "0", "id000001", "value"];
    let refused = redis.write("1", "1", &set);
    assert!(refused.starts_with("-OOM "), "{refused}");
    assert_eq!(redis.fields(1), ":1");
    let tight = ["b", "one", "1", "1", "60000", "7", "0", "0", "1", "0", "id000001"];
    assert_eq!(redis.call("jl_tight", &tight), "OK");
}

impl Redis {
    /// What a server that follows is answered, without for how long the leader leads.
    fn follow(&self, server: &str, stage: &str, seq: &str) -> String {
        let args = ["b", server, "60000", stage, seq];
        let answer = self.call("jl_follow", &args);
        let words: Vec<&str> = answer.split(' ').collect();
        match words[..] {
            ["OK", newest, led_ms, ..] => {
                let leads = if led_ms == "0" { "free" } else { "led" };
                [&["OK", newest, leads], &words[3..]].concat().join(" ")
            }
            _ => answer,
        }
    }
}

#[test]
fn server_that_follows_is_told_of_each_write_and_leads_next() {
    let Some(redis) = Redis::with_leader() else { return };
    assert_eq!(redis.follow("two", "begin", "0"), "LOST", "nothing is offered");
    let nothing = ["0", "0", "0", "0"];
    let logged = |seq: &str, log: &str| redis.write("1", seq, &[&nothing[..], &[log]].concat());
    assert_eq!(logged("1", ""), "OK alone");
    redis.call("jl_hello", &["two", "name2", "60000"]);
    assert_eq!(logged("2", "before"), "OK open");
    let hello = || redis.call("jl_hello", &["three", "name3", "60000"]);
    assert!(hello().ends_with(" yes"), "{}", hello());
    let lead = |server: &str| redis.call("jl_lead", &["b", server, server, "60000", "0", "-"]);
    assert!(lead("two").ends_with(" yes"), "{}", lead("two"));
    assert_eq!(redis.follow("two", "begin", "0"), "OK 2 led 2");
    assert_eq!(redis.follow("three", "begin", "0"), "LOST", "another one follows");
    assert!(hello().ends_with(" no"), "{}", hello());
    assert!(lead("three").ends_with(" followed"));
    let set = ["2", "0", "0", "0", "id000001", "value", "three"];
    assert_eq!(redis.write("1", "3", &set), "OK followed");
    assert_eq!(redis.write("1", "3", &set), "OK", "the same once more");
    assert_eq!(logged("4", ""), "OK followed");
    assert_eq!(redis.follow("two", "go-on", "2"), "OK 4 led 4 three");
    assert_eq!(logged("5", "five"), "OK followed");
    // It has asked before, and had no answer.
    assert_eq!(redis.follow("two", "go-on", "2"), "OK 5 led 5 three five");
    assert_eq!(redis.follow("two", "ready", "5"), "OK 5 led 5");
    assert_eq!(redis.fields(4), ":0", "what it knows is deleted");
    assert_eq!(logged("6", "six"), "OK ready");
    assert_eq!(redis.call("jl_resign", &["b", "one", "1", "7"]), "GAP 1 6 name1");
    assert_eq!(redis.call("jl_resign", &["b", "one", "1", "6"]), "OK");
    assert!(lead("three").starts_with("HELD "), "the one that has followed comes first");
    assert_eq!(redis.follow("two", "ready", "5"), "OK 6 free 6 six");
    assert_eq!(lead("two"), "LED 2 6 7");
    assert_eq!(redis.follow("two", "ready", "6"), "LOST", "it leads");
}

#[test]
fn server_that_would_lack_a_write_has_to_begin_anew() {
    let Some(redis) = Redis::with_leader() else { return };
    redis.call("jl_hello", &["two", "name2", "60000"]);
    let nothing = ["0", "0", "0", "0"];
    let write = |seq: &str, log: &[&str]| redis.write("1", seq, &[&nothing[..], log].concat());
    assert_eq!(write("1", &["a"]), "OK open");
    assert_eq!(redis.follow("two", "begin", "0"), "OK 1 led 1");
    assert_eq!(write("2", &[]), "OK");
    assert_eq!(redis.follow("two", "go-on", "1"), "LOST");
    assert_eq!(write("3", &["b"]), "OK open");
    assert_eq!(redis.follow("two", "begin", "0"), "OK 3 led 3");
    assert_eq!(redis.follow("two", "go-on", "4"), "LOST", "the node has lost a write");
    let long = "x".repeat(40 << 20);
    assert_eq!(write("4", &[&long]), "OK followed");
    assert_eq!(write("5", &[&long]), "OK open", "it is too slow");
    assert_eq!(redis.follow("two", "go-on", "3"), "LOST");
    assert_eq!(redis.fields(4), ":0");
    // One that is not ready when the leader ends has to wait as the others do.
    assert_eq!(redis.follow("two", "begin", "0"), "OK 5 led 5");
    assert_eq!(redis.call("jl_resign", &["b", "one", "1"]), "OK");
    assert_eq!(redis.follow("two", "go-on", "5"), "LOST");
    let led = redis.call("jl_lead", &["b", "three", "name3", "60000", "0", "-"]);
    assert_eq!(led, "LED 2 5 7");
}
