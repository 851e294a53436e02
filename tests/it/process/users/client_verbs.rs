//! The client verbs (`put`, `get`, ...) against a server with users: where their token comes from,
//! and the exit statuses.

use super::Setup;
use crate::process::unix_sockets::socket_path;
use crate::support::{Program, plain_command};
use std::fs;
use std::process::Output;

/// Runs a verb with these variables. Returns the exit status and what was printed.
fn run(arguments: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
    let Output { status, stdout, stderr } = Program::output(arguments, variables);
    let [out, errors] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (status.code().unwrap(), out + &errors)
}

#[test]
fn token_of_a_file_a_variable_a_url_or_a_target_says_which_user_it_is() {
    let setup = Setup::new();
    let token = setup.add("web", "put:mail,peek:*");
    let server = setup.serve(&[]);
    let url = server.address.to_string();
    let file = setup.token_file(&token);
    let put = &["put", "mail", "1"][..];
    let with_token = format!("jobcentre://{token}@{url}");
    for (flags, variables) in [
        (&["--url", &url, "--token-file", &file][..], &[][..]),
        (&["--url", &url], &[("JOBCENTRE_TOKEN", &*token)]),
        (&[], &[("JOBCENTRE_URL", &*with_token)]),
        // What is nearer counts.
        (&["--url", &url, "--token-file", &file], &[("JOBCENTRE_TOKEN", "jc_wrong")]),
        (&["--url", &url], &[("JOBCENTRE_TOKEN", &token), ("JOBCENTRE_URL", "127.0.0.1:1")]),
    ] {
        let (status, text) = run(&[put, flags].concat(), variables);
        assert_eq!(status, 0, "{flags:?} {variables:?}: {text}");
    }
    let home = setup.dir.path().join("home");
    fs::create_dir_all(home.join("jobcentre")).unwrap();
    fs::write(home.join("token"), &token).unwrap();
    let table = format!("[target.test]\nurl = \"{url}\"\ntoken-file = \"~/token\"\n");
    fs::write(home.join("jobcentre/client.toml"), table).unwrap();
    let home = home.to_str().unwrap();
    let home = [("XDG_CONFIG_HOME", home), ("HOME", home)];
    let by_name = [&home[..], &[("JOBCENTRE_TARGET", "test")]].concat();
    for (flags, variables) in [(&["--target", "test"][..], &home[..]), (&[], &by_name)] {
        let (status, text) = run(&[put, flags].concat(), variables);
        assert_eq!(status, 0, "{text}");
    }
    let (status, text) = run(&[put, &["--target", "prod"]].concat(), &home);
    assert!(status == 2 && text.contains("it has test"), "{text}");
    let log = server.log_lines().concat();
    assert!(!log.contains(&token), "{log}");
}

#[test]
fn missing_right_and_missing_token_have_an_exit_status_of_their_own() {
    let setup = Setup::new();
    let token = setup.add("web", "put:mail");
    let server = setup.serve(&["--http", ":0"]);
    let url = server.address.to_string();
    let run = |arguments: &[&str], token: &str| {
        let variables = [("JOBCENTRE_URL", &*url), ("JOBCENTRE_TOKEN", token)];
        run(arguments, if token.is_empty() { &variables[..1] } else { &variables })
    };
    let is_denied = |(status, text): (i32, String), why: &str| {
        assert!(status == 6 && text.contains(why), "{status}: {text}");
        assert!(!text.contains(&token) && !text.contains("jc_wrong"), "{text}");
    };
    is_denied(run(&["put", "mail", "1"], ""), "--token-file FILE, or JOBCENTRE_TOKEN");
    is_denied(run(&["put", "mail", "1"], "jc_wrong"), "no user of this server has this token");
    is_denied(run(&["put", "letters", "1"], &token), "lacks the right 'put:letters'");
    is_denied(run(&["delete", "1", "2"], &token), "lacks the right");
    is_denied(run(&["stats"], &token), "lacks the right 'observe'");
    is_denied(run(&["export"], &token), "lacks the right");
    let http = server.address_of("http").to_string();
    is_denied(run(&["export", "--http-url", &http], &token), "lacks the right");
    is_denied(run(&["workers", "--http-url", &http], ""), "authenticate");
    assert_eq!(run(&["put", "mail", "1"], &token).0, 0);
    // The server answers everyone.
    assert_eq!(run(&["health"], ""), (0, "ok\n".to_owned()));
    is_denied(run(&["ping"], ""), "authenticate first");
    let (status, text) = run(&["check", "--queue", "mail"], &token);
    assert!(status == 3 && text.starts_with("JOBCENTRE UNKNOWN - the user 'web' lacks"), "{text}");
}

#[test]
fn lines_of_a_user_without_the_right_end_at_the_first_answer() {
    let setup = Setup::new();
    let token = setup.add("web", "put:mail");
    let server = setup.serve(&[]);
    let mut command = plain_command("bash");
    command.args(["-c", "seq 5000 | \"$0\" put letters --lines", Program::PATH]);
    command.env("JOBCENTRE_URL", server.address.to_string()).env("JOBCENTRE_TOKEN", &token);
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(6) && errors.lines().count() == 1, "{errors}");
    assert!(errors.contains("; 0 lines were acknowledged"), "{errors}");
}

#[test]
fn client_reaches_a_socket_that_is_a_file() {
    let (_dir, path) = socket_path();
    let address = format!("unix:{}", path.display());
    let mut command = plain_command(Program::PATH);
    command.args(["serve", "--log-format", "json", "--listen", ":0", "--http", &address]);
    let http_only = crate::support::Server::spawn(command);
    let url = http_only.address.to_string();
    let run = |arguments: &[&str]| run(arguments, &[("JOBCENTRE_URL", &*url)]);
    assert_eq!(run(&["put", "mail", "7"]), (0, "1\n".to_owned()));
    // The HTTP listener, which the server names.
    let (status, text) = run(&["export"]);
    assert!(status == 0 && text.contains("\"payload\":7"), "{text}");
    drop(http_only);

    let mut command = plain_command(Program::PATH);
    command.args(["serve", "--log-format", "json", "--pinpriq", ":0", "--listen", &address]);
    let _server = crate::support::Server::spawn(command);
    let run =
        |arguments: &[&str]| super::client_verbs::run(arguments, &[("JOBCENTRE_URL", &*address)]);
    assert_eq!(run(&["put", "mail", "7"]), (0, "1\n".to_owned()));
    assert_eq!(run(&["get", "mail", "-o", "raw"]), (0, "7\n".to_owned()));
    let (status, text) = run(&["export"]);
    assert!(status == 5 && text.contains("start it with --http, or say --http-url"), "{text}");
}
