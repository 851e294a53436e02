"""Clients that others wrote, against one binary: their own test suites, and the life of jobs.

Usage: run.py BINARY [TEXT]: only clients with TEXT in their name. What is needed comes into the
target folder: Python's packages by requirements.txt, those of node by package.json, the crate by
rust/Cargo.lock, and suites that are in no package by `git fetch` of one commit (git's
`url.BASE.insteadOf` may point to a copy). What cannot be installed is skipped, and says so.
"""

import filecmp
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from server import Reference, Subject  # noqa: E402

ROOT = HERE.parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "beanstalkd"
SECONDS_AT_MOST = 600
PHP_LIBRARY = pathlib.Path("/usr/share/php/Pheanstalk/autoload.php")


class Skipped(Exception):
    """Why a client cannot be run here."""


def call(command, seconds=SECONDS_AT_MOST, **options):
    return subprocess.run(
        [str(word) for word in command], timeout=seconds, check=True, **options
    )


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def fetched(folder, pinned, make):
    """A folder that `make` fills, again when the file of its versions has changed."""
    stamp = folder / "fetched" / pinned.name
    if not stamp.exists() or not filecmp.cmp(stamp, pinned, shallow=False):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            make(folder)
        except (subprocess.SubprocessError, OSError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise Skipped(f"cannot be installed: {error}") from None
        stamp.parent.mkdir()
        shutil.copy(pinned, stamp)
    return folder


def python():
    def make(folder):
        call([sys.executable, "-m", "venv", folder])
        pip = [folder / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        call([*pip, "-r", HERE / "requirements.txt"])

    return fetched(TARGET / "python", HERE / "requirements.txt", make) / "bin/python"


def node():
    def make(folder):
        shutil.copy(HERE / "package.json", folder)
        options = {"cwd": folder, "stdout": subprocess.DEVNULL}
        call(["npm", "install", "--silent", "--no-audit", "--no-fund"], **options)

    for program in ("node", "npm"):
        if not shutil.which(program):
            raise Skipped(f"{program} is not installed")
    return fetched(TARGET / "node", HERE / "package.json", make) / "node_modules"


def checkout(name, url, commit):
    """The files of one commit: a tag may be moved, a commit not."""
    folder = TARGET / f"{name}-{commit}"
    if not folder.exists():
        scratch = folder.with_suffix(".part")
        shutil.rmtree(scratch, ignore_errors=True)
        git = ["git", "-C", scratch, "-c", "advice.detachedHead=false"]
        try:
            call(["git", "init", "-q", scratch])
            call([*git, "fetch", "-q", "--depth", "1", url, commit], seconds=60)
            call([*git, "checkout", "-q", commit])
        except (subprocess.SubprocessError, OSError) as error:
            shutil.rmtree(scratch, ignore_errors=True)
            raise Skipped(f"cannot be fetched: {error}") from None
        scratch.rename(folder)
    return folder


def rust():
    """The program that lives by a crate. Its versions are those of the lock file."""
    if not shutil.which("cargo"):
        raise Skipped("cargo is not installed")
    folder = TARGET / "rust"
    manifest = HERE / "rust" / "Cargo.toml"
    command = ["cargo", "build", "-q", "--locked", "--manifest-path", manifest]
    settings = {**os.environ, "CARGO_TARGET_DIR": str(folder)}
    fetch = ["cargo", "fetch", "-q", "--locked", "--manifest-path", manifest]
    try:
        call(fetch)
    except subprocess.SubprocessError as error:
        raise Skipped(f"its crates cannot be fetched: {error}") from None
    call(command, env=settings)
    return folder / "debug" / "beanstalkc-life"


def drop_in(binary, scratch):
    """A program that is called as beanstalkd is."""
    if binary.name == "beanstalkd":
        return binary
    program = pathlib.Path(scratch) / "beanstalkd"
    program.write_text(f'#!/bin/sh\nexec "{binary}" beanstalkd "$@"\n')
    program.chmod(0o755)
    return program


def pytest(binary, folder, tests, replaced=()):
    """A suite that starts its own servers, in a copy in which texts are replaced."""
    interpreter = python()
    with tempfile.TemporaryDirectory() as scratch:
        copy = pathlib.Path(scratch) / "suite"
        shutil.copytree(folder / tests, copy / tests)
        for path in copy.rglob("*.py"):
            text = path.read_text()
            for old, new in replaced:
                text = text.replace(old, new)
            path.write_text(text)
        settings = {**os.environ, "BEANSTALKD_PATH": str(drop_in(binary, scratch))}
        settings["PYTHONDONTWRITEBYTECODE"] = "1"
        command = [interpreter, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests]
        call(command, cwd=copy, env=settings)


def greenstalk_suite(binary):
    """Version 2.1.1."""
    commit = "4911ed3655bf8bd6eaf8b7a8aa9dba2f8cf3030d"
    folder = checkout("greenstalk", "https://github.com/justinmayhew/greenstalk", commit)
    with tempfile.TemporaryDirectory() as scratch:
        replaced = [
            ('("127.0.0.1", 4444)', f'("127.0.0.1", {free_port()})'),
            ("/tmp/greenstalk-test.sock", f"{scratch}/beanstalkd.sock"),
        ]
        pytest(binary, folder, "tests", replaced)


def pystalk_suite(binary):
    """Version 0.9.1."""
    commit = "d42cdff7b9469d6030b36a4930a8e59a45fc5999"
    folder = checkout("pystalk", "https://github.com/EasyPost/pystalk", commit)
    pytest(binary, folder, "tests")


def fivebeans_suite(binary):
    """In a copy: its tests name the usual port, and leave kick-job out for versions they do not know.

    One test knows only the error numbers of old versions of node.
    """
    modules = node()
    with tempfile.TemporaryDirectory() as scratch, started(binary) as server:
        copy = pathlib.Path(scratch) / "fivebeans"
        shutil.copytree(modules / "fivebeans", copy)
        (copy / "node_modules").symlink_to(modules)
        for path in [*copy.rglob("test/**/*.*"), *copy.glob("lib/*.js")]:
            if path.suffix in (".js", ".yml"):
                text = path.read_text().replace("11300", str(server.address[1]))
                path.write_text(text.replace("semver.satisfies(version, '>= 1.8.0')", "true"))
        mocha = ["node", "--no-deprecation", modules / "mocha/bin/_mocha", "-t", "8000", "-R", "dot"]
        call([*mocha, "-i", "-g", "emits the error event on failure", "test/"], cwd=copy)


class started:
    """A server for a `with`, which also fails if it ends badly."""

    def __init__(self, binary):
        start = Reference if binary.name == "beanstalkd" else Subject
        self.server = start(str(binary))

    def __enter__(self):
        return self.server

    def __exit__(self, kind, error, trace):
        wrong = self.server.stop()
        if wrong and not kind:
            raise RuntimeError(wrong)


def life(binary, *command, **options):
    with started(binary) as server:
        call([*command, *server.address], **options)


def aiostalk(binary):
    life(binary, python(), HERE / "aiostalk_life.py")


def pystalkd(binary):
    life(binary, python(), HERE / "pystalkd_life.py")


def node_beanstalk(binary):
    settings = {**os.environ, "NODE_PATH": str(node())}
    life(binary, "node", HERE / "node_beanstalk_life.js", env=settings)


def beaneater(binary):
    command = ["ruby", "-e", 'require "beaneater"']
    if not shutil.which("ruby") or subprocess.run(command, stderr=subprocess.DEVNULL).returncode:
        raise Skipped("Debian's ruby-beaneater is not installed")
    life(binary, "ruby", HERE / "beaneater_life.rb")


def pheanstalk(binary):
    if not shutil.which("php") or not PHP_LIBRARY.exists():
        raise Skipped("Debian's php-cli and php-pda-pheanstalk are not installed")
    life(binary, "php", HERE / "pheanstalk_life.php")


def beanstalkc(binary):
    life(binary, rust())


CLIENTS = [
    greenstalk_suite, pystalk_suite, fivebeans_suite, aiostalk, pystalkd, node_beanstalk,
    beaneater, pheanstalk, beanstalkc,
]


def run(binary, pattern=None):
    """How many clients failed."""
    binary, failed, skipped = pathlib.Path(binary), [], []
    for client in CLIENTS:
        name = client.__name__.replace("_", " ")
        if pattern and pattern not in name:
            continue
        print(f"-- {name}", flush=True)
        try:
            client(binary)
        except Skipped as reason:
            skipped.append(name)
            print(f"SKIPPED: {name}: {reason}", flush=True)
        except (subprocess.SubprocessError, RuntimeError) as error:
            failed.append(name)
            print(f"FAILED: {name}: {error}", flush=True)
    print(f"failed: {', '.join(failed) or 'none'}; skipped: {', '.join(skipped) or 'none'}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(bool(run(*sys.argv[1:3])))
