//! Help texts and output on a terminal.

use crate::support::{Program, TempDir, plain_command};
use std::fs;
use std::process::{Command, Output, Stdio};

/// Every command with a help.
const COMMANDS: [&[&str]; 16] = [
    &[],
    &["serve"],
    &["bench"],
    &["work"],
    &["import-binlog"],
    &["journal"],
    &["journal", "check"],
    &["journal", "dump"],
    &["journal", "salvage"],
    &["engine"],
    &["engine", "status"],
    &["engine", "check"],
    &["engine", "pause"],
    &["engine", "resume"],
    &["engine", "export"],
    &["engine", "import"],
];

#[test]
fn every_help_fits_the_terminal_width() {
    for command in COMMANDS {
        for flag in ["-h", "--help"] {
            // Without a terminal, and on a narrow one.
            for (variables, columns_max) in [(&[][..], 100), (&[("COLUMNS", "80")][..], 80)] {
                let output = Program::output(&[command, &[flag][..]].concat(), variables);
                assert_eq!(output.status.code(), Some(0), "{command:?}");
                let text = String::from_utf8(output.stdout).unwrap();
                assert!(text.contains("Usage:"), "{text}");
                for line in text.lines() {
                    assert!(line.chars().count() <= columns_max, "{command:?} {flag}: {line}");
                }
            }
        }
    }
}

/// To write the files anew: `UPDATE_DOCS=1 cargo test --test it help_texts`.
#[test]
fn help_texts_match_the_stored_ones() {
    for command in COMMANDS {
        let output = Program::output(&[command, &["--help"][..]].concat(), &[]);
        let text = String::from_utf8(output.stdout).unwrap();
        let name = [&["jobcentre"][..], command].concat().join("-");
        let path = format!("{}/tests/texts/help/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "{path}");
    }
}

#[test]
fn guard_command_is_hidden_from_help() {
    let help = String::from_utf8(Program::output(&["--help"], &[]).stdout).unwrap();
    assert!(!help.contains("guard"), "{help}");
    // It runs only as a child of a worker.
    let output = Program::output(&["guard", "1", "--", "echo", "run"], &[]);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
}

#[test]
fn flame_graph_recorder_prints_help() {
    let record = |arguments: &[&str]| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/flamegraphs/record");
        Command::new(path).args(arguments).stdin(Stdio::null()).output().unwrap()
    };
    for flag in ["-h", "--help"] {
        let output = record(&[flag]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        for word in ["Usage:", "cycle-depth-16", "syscalls", "readme"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
    for invalid in [&["cycle-depth-2"][..], &["readme", "--colour"], &[]] {
        let output = record(invalid);
        assert_eq!(output.status.code(), Some(2), "{invalid:?}: {output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains("Usage:"), "{text}");
        assert!(invalid.is_empty() || text.contains("unknown argument"), "{text}");
    }
}

/// Runs a program with stderr on a terminal of 80 columns, and stops it by SIGTERM when the
/// terminal shows `awaited`; prints what was shown.
const SCRIPT: &str = r"
import fcntl, os, pty, select, signal, struct, subprocess, sys, termios, time
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stderr=slave)
os.close(slave)
output, end, signalled = b'', time.monotonic() + 60, False
while time.monotonic() < end:
    if select.select([master], [], [], 0.1)[0]:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        output += piece
    if sys.argv[1].encode() in output and not signalled:
        child.send_signal(signal.SIGTERM)
        signalled = True
child.kill()
child.wait()
sys.stdout.buffer.write(output)
";

/// The terminal output of a program; `None` if there is no python3 to open a terminal.
fn terminal_output(
    awaited: &str,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Option<String> {
    if Command::new("python3").args(["-c", "import pty"]).output().is_err() {
        eprintln!("skipped: there is no python3 to make a terminal");
        return None;
    }
    let mut python = plain_command("python3");
    python.args(["-c", SCRIPT, awaited, Program::PATH]).args(arguments);
    python.env_remove("NO_COLOR").env("TERM", "xterm").envs(variables.iter().copied());
    let output: Output = python.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The lines of terminal output, without the escape sequences of colours.
fn lines_without_colours(output: &str) -> Vec<String> {
    let mut text = String::new();
    let mut pieces = output.split('\x1b');
    text.push_str(pieces.next().unwrap());
    for piece in pieces {
        text.push_str(piece.split_once(['m', 'K']).unwrap().1);
    }
    text.lines().map(str::to_owned).collect()
}

#[test]
fn start_log_fits_a_terminal() {
    let dir = TempDir::new();
    let serve = ["serve", "--listen", ":0", "--pinpriq", ":0", "--http", ":0"];
    for more in [&[][..], &["--data", dir.text()][..]] {
        let Some(output) = terminal_output("serving", &[&serve, more].concat(), &[]) else {
            return;
        };
        assert!(output.contains("\x1b[32m INFO\x1b[0m"), "{output:?}");
        let lines = lines_without_colours(&output);
        assert!(lines.len() >= 6, "{lines:?}");
        let start = lines.iter().position(|line| line.contains("serving")).unwrap();
        for line in &lines[..=start] {
            // The name of the directory is not ours.
            let width = line.replace(dir.text(), "jobs").chars().count();
            assert!(width <= 80, "{width}: {line}");
        }
    }
}

#[test]
fn no_color_disables_colours() {
    let serve = ["serve", "--listen", ":0", "--http", "off"];
    for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let Some(output) = terminal_output("serving", &serve, &[variable]) else { return };
        assert!(!output.contains('\x1b'), "{variable:?}: {output:?}");
    }
    // An empty variable counts as unset.
    let Some(output) = terminal_output("serving", &serve, &[("NO_COLOR", "")]) else { return };
    assert!(output.contains('\x1b'), "{output:?}");
}
