//! A terminal as stdin and stdout.

use super::driver::{add, command, idle};
use std::process::{Command, Stdio};

/// Runs the processor on a terminal of its own, types into it and ends it, by the end of input
/// (Ctrl-D) or a signal. Whatever the terminal was set to do must be so in between and after.
const SCRIPT: &str = r"
import fcntl, json, os, pty, select, signal, subprocess, sys, termios, time
ending, add, idle = sys.argv[1:4]
master, slave = pty.openpty()
settings = termios.tcgetattr(slave)
settings[3] &= ~termios.ECHO
termios.tcsetattr(slave, termios.TCSANOW, settings)

def state():
    return fcntl.fcntl(slave, fcntl.F_GETFL), termios.tcgetattr(slave)

before = state()
assert not before[0] & os.O_NONBLOCK
child = subprocess.Popen(sys.argv[4:], stdin=slave, stdout=slave, stderr=subprocess.PIPE)
got = b''

def read_until(what):
    global got
    end = time.monotonic() + 30
    while what not in got:
        assert time.monotonic() < end, (what, got)
        if select.select([master], [], [], 1)[0]:
            got += os.read(master, 65536)

for number in range(3):
    got = b''
    os.write(master, add.encode() + b'\n')
    os.write(master, idle.encode() + b'\n')
    read_until(b'\n')
    assert json.loads(got)['payload']['queue_name'] == 'q', got
    assert state() == before, 'while it runs'
    add, idle = add.replace('one', 'one+'), idle.replace('someone', 'someone+')
if ending == 'eof':
    os.write(master, b'\x04')
else:
    child.send_signal(signal.Signals['SIG' + ending])
log = child.stderr.read().decode()
status = child.wait()
assert state() == before, 'after its end'
expected = -signal.SIGKILL if ending == 'KILL' else 0
assert status == expected, (status, log)
for line in log.splitlines():
    json.loads(line)
print('fine')
";

fn run(ending: &str) {
    if Command::new("python3").args(["-c", "import pty"]).output().is_err() {
        eprintln!("skipped: there is no python3 to make a terminal");
        return;
    }
    let serve = command(&[]);
    let mut python = Command::new("python3");
    python.args(["-c", SCRIPT, ending, &add("q", "one"), &idle("q", "someone")]);
    python.arg(serve.get_program()).args(serve.get_args()).env("JOBCENTRE_HTTP", "off");
    let output = python.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "fine\n", "{ending}: {text}");
}

#[test]
fn end_of_input_restores_the_terminal() {
    run("eof");
}

#[test]
fn signals_restore_the_terminal() {
    for signal in ["TERM", "INT", "KILL"] {
        run(signal);
    }
}
