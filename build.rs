//! Makes the files of the dashboard that are served of those that are written
//! (`src/protocol/http/ui`): joined, without comments, and compressed once.

use flate2::{Compression, write::GzEncoder};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "src/protocol/http/ui/minify/mod.rs"]
mod minify;

const PAGE: &str = "src/protocol/http/ui/page";

/// Lines that a module may have.
const LINES_MAX: usize = 500;

/// Adds a module behind those that it imports.
fn collect(name: &str, folder: &Path, out: &mut Vec<(String, String)>, seen: &mut Vec<String>) {
    if seen.iter().any(|one| one == name) {
        return;
    }
    seen.push(name.to_owned());
    let path = folder.join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    assert!(text.lines().count() <= LINES_MAX, "{PAGE}/{name} is too long: divide it");
    for import in minify::imports(&text) {
        collect(import, folder, out, seen);
    }
    out.push((name.to_owned(), text));
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/protocol/http/ui");
    let folder = Path::new(PAGE);
    let mut modules = Vec::new();
    collect("main.js", folder, &mut modules, &mut Vec::new());
    let borrowed: Vec<_> = modules.iter().map(|(name, text)| (&**name, &**text)).collect();
    let unused = minify::unused(&borrowed).unwrap_or_else(|why| panic!("{PAGE}: {why}"));
    assert!(unused.is_empty(), "{PAGE}: nothing uses {unused:?}: leave them out");
    let read = |name| fs::read_to_string(folder.join(name)).expect("a file of the dashboard");
    let files = [
        ("main.js", minify::scripts(&borrowed)),
        ("theme.js", minify::scripts(&[("theme.js", &read("theme.js"))])),
        ("style.css", minify::style(&read("style.css"))),
        ("index.html", Ok(read("index.html"))),
    ];
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("page");
    fs::create_dir_all(&out).expect("the folder of the build is writable");
    for (name, content) in files {
        let content = content.unwrap_or_else(|why| panic!("{PAGE}/{name}: {why}"));
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let packed = encoder.write_all(content.as_bytes()).and_then(|()| encoder.finish());
        let packed = packed.expect("memory takes all");
        let mut smallest = Vec::new();
        // Its defaults are the smallest output and the largest window.
        let parameters = brotli::enc::BrotliEncoderParams::default();
        brotli::BrotliCompress(&mut content.as_bytes(), &mut smallest, &parameters)
            .expect("memory takes all");
        let mut again = Vec::new();
        brotli::BrotliDecompress(&mut &*smallest, &mut again).expect("it is whole");
        assert_eq!(again, content.as_bytes(), "{name} comes out of Brotli as it went in");
        fs::write(out.join(name), content).expect("the folder of the build is writable");
        fs::write(out.join(format!("{name}.gz")), packed).expect("as above");
        fs::write(out.join(format!("{name}.br")), smallest).expect("as above");
    }
}
