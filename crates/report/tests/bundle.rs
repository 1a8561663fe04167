//! The committed bundle belongs to the committed sources; checked here without Node.js.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { sources(&path, files) } else { files.push(path) }
    }
}

#[test]
fn bundle_is_built_from_these_sources() {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
    let mut files = vec![web.join("bundle.mjs"), web.join("package-lock.json")];
    sources(&web.join("src"), &mut files);
    let mut named: Vec<(String, PathBuf)> =
        files.into_iter().map(|path| (path.strip_prefix(&web).unwrap().to_str().unwrap().to_owned(), path)).collect();
    named.sort();
    let mut digest = Sha256::new();
    for (name, path) in named {
        let content = fs::read(path).unwrap();
        digest.update(format!("{name}\0{}\0", content.len()));
        digest.update(content);
    }
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let recorded = fs::read_to_string(web.join("dist/sources.sha256")).unwrap();
    assert_eq!(recorded.trim(), digest, "dist/ is stale: run `npm ci && npm run build` in crates/report/web");
}

#[test]
fn bundle_is_small() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("web/dist");
    let size: u64 = ["report.js", "page.css"].iter().map(|name| fs::metadata(dist.join(name)).unwrap().len()).sum();
    assert!(size < 300 * 1024, "{size} bytes");
}
