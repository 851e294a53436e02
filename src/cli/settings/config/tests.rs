//! The three sources of settings, and their defaults.

use super::*;

fn tcp(address: &str) -> ListenAddress {
    ListenAddress::Tcp(address.parse().unwrap())
}

fn options(toml: &str) -> Result<Options, String> {
    toml::from_str(toml).map_err(|error| errors::explain_toml_error(toml, &error))
}

#[test]
fn file_sets_every_setting_that_flags_set() {
    let toml = "listen = ':7'\npinpriq = '[::1]:8'\nhttp = ':9'\nhttp-name = 'h'\ndata = 'd'\n\
                fsync = '50ms'\nmax-request = '64KiB'\nmax-clients = 9\nmax-memory = '1GiB'\n\
                query-timeout = '2s'\nresult-ttl = '30s'\n\
                worker-ca = 'ca.pem'\nprocessor = true\ntick = 500\n\
                log-format = 'json'\nlog-level = 'warn'\n\
                [[constraint]]\nname = 'c'\nmatcher = []\nmax_running = 3\n";
    let config = options(toml).unwrap().complete();
    let [lines, packets, http] = ["127.0.0.1:7", "[::1]:8", "127.0.0.1:9"].map(tcp);
    let protocols =
        [(Protocol::JobCentre, lines), (Protocol::Pinpriq, packets), (Protocol::Http, http)];
    assert_eq!(config.protocols, protocols);
    assert_eq!(config.http_names, [Box::from("h")]);
    let names = options("http-name = ['a', 'b.example']").unwrap().complete().http_names;
    assert_eq!(names, [Box::from("a"), Box::from("b.example")]);
    assert_eq!((config.max_request, config.max_clients), (65_536, 9));
    assert_eq!(config.max_memory, Some(1 << 30));
    assert_eq!(config.query_timeout, Duration::from_secs(2));
    assert_eq!(config.result_ttl, Duration::from_secs(30));
    assert!(config.processor);
    assert_eq!(config.tick, Duration::from_millis(500));
    assert_eq!(config.data, Some(PathBuf::from("d")));
    assert_eq!(config.worker_ca, Some(PathBuf::from("ca.pem")));
    assert_eq!(config.fsync, SyncMode::Every(Duration::from_millis(50)));
    assert_eq!((config.log_format, config.log_level), (Format::Json, Level::Warn));
    assert_eq!(config.constraints[0].max_running, Some(3));
    assert_eq!(options("max-request = 100").unwrap().complete().max_request, 100);
}

#[test]
fn error_of_a_file_names_its_line() {
    for invalid in [
        "\nmax-clients = 0",
        "\nmax-clients = 'x'",
        "\nmax-request = '1MB'",
        "\nmax-request = 1",
        "\nmax-memory = '63KiB'",
        "\nmax-memory = -1",
        "\nlisten = '11400'",
        "\npinpriq = true",
        "\nhttp = '11480'",
        "\nhttp-name = 7",
        "\nhttp-name = 'h:80'",
        "\nhttp-name = ['h', 'http://h']",
        "\nfsync = 'sometimes'",
        "\nquery-timeout = 5",
        "\nresult-ttl = 5",
        "\nprocessor = 'yes'",
        "\ntick = 0",
        "\ntick = -1",
        "\ntick = 'soon'",
        "\ntick = 1.5",
        "\nlog-format = 'xml'",
        "\nunknown = 1",
        "\n[[constraint]]\nname = 'c'",
        "\n[constraint]\nname = 'c'",
        "\nlisten = ",
    ] {
        let error = options(invalid).unwrap_err();
        assert!(error.contains("line 2"), "{invalid}: {error}");
    }
    for wrong in ["[[user]]\nname = 'b'\nallow = ['put']", "[[constraint]]\nname = 'b'"] {
        let table = wrong.lines().next().unwrap();
        let first = match table {
            "[[user]]" => "[[user]]\nname = 'a'\nallow = ['put:*']",
            _ => "[[constraint]]\nname = 'a'\nmatcher = []\nmax_running = 1",
        };
        let error = options(&format!("{first}\n\n{wrong}\n")).unwrap_err();
        let line =
            format!("line {}: {} 'b'", first.lines().count() + 2, &table[2..table.len() - 2]);
        assert!(error.contains(&line), "{error}");
        assert!(!error.contains("at byte"), "{error}");
    }
}

#[test]
fn earlier_source_has_precedence() {
    let flags = options("max-clients = 1").unwrap();
    let file = options("max-clients = 2\nlisten = 'off'\nhttp = 'off'").unwrap();
    let config = flags.or(file).complete();
    assert_eq!(config.max_clients, 1);
    assert!(config.protocols.is_empty());
    let protocols = Options::default().complete().protocols;
    let [lines, http] = ["127.0.0.1:11400", "127.0.0.1:11480"].map(tcp);
    assert_eq!(protocols, [(Protocol::JobCentre, lines), (Protocol::Http, http)]);
    assert!(!config.processor);
    assert_eq!(config.tick, Duration::from_secs(3));
    assert_eq!(config.max_request, REQUEST_BYTES_DEFAULT);
    assert_eq!(config.query_timeout, Duration::from_secs(5));
    assert_eq!(config.result_ttl, Duration::from_hours(1));
}

#[test]
fn processor_disables_the_default_listeners() {
    let config = options("processor = true").unwrap().complete();
    assert!(config.processor && config.protocols.is_empty());
    assert_eq!(config.log_format, Format::Processor);
    let both = options("processor = true\nhttp = ':7'\nlog-format = 'json'\ntick = '1s'");
    let config = both.unwrap().complete();
    assert_eq!(config.protocols, [(Protocol::Http, tcp("127.0.0.1:7"))]);
    assert_eq!(config.log_format, Format::Json);
    assert_eq!(config.tick, Duration::from_secs(1));
    let not = options("processor = false").unwrap();
    assert!(!not.or(options("processor = true").unwrap()).complete().protocols.is_empty());
}
