//! Takes in the dashboard: compresses the files that its own build left in `dashboard/dist`, and writes the table of them
//! that the service serves. Without these files a release does not build; otherwise the table is empty, and the service says how to
//! build them.

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::SystemTime;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// Source maps are for those who work on the dashboard.
const LEFT_OUT: &str = "map";
/// The letters of a content hash in a file's name, as Vite writes them: `assets/index-BaS3f2x9.js`.
const HASH: usize = 8;

/// Writes `dashboard.rs`, and the files that it includes, to `out`.
pub fn take_in(dist: &Path, out: &Path, is_required: bool) -> Result<(), Box<dyn Error>> {
    if is_required && !dist.join("index.html").is_file() {
        return Err("the dashboard is missing: build it first (npm --prefix dashboard ci, then npm --prefix dashboard run \
                    build), or set ODH_WITHOUT_DASHBOARD=1 to release the service without its pages"
            .into());
    }
    // Cargo runs a build script each time if a path to watch is missing.
    if !dist.exists() && fs::create_dir_all(dist).is_ok() {
        File::open(dist)?.set_modified(SystemTime::UNIX_EPOCH)?;
    }
    let mut paths = Vec::new();
    if dist.join("index.html").is_file() {
        collect(dist, "", &mut paths)?;
    }
    paths.sort();
    let kept = out.join("dashboard");
    fs::create_dir_all(&kept)?;
    let count = paths.len();
    let mut code = format!("/// The dashboard's files, by path.\nstatic FILES: [File; {count}] = [\n");
    for (at, path) in paths.iter().enumerate() {
        let content = fs::read(dist.join(path.trim_start_matches('/')))?;
        let (content_type, is_text) = content_type(path);
        let file = kept.join(at.to_string());
        fs::write(&file, if is_text { compressed(&content)? } else { content.clone() })?;
        let etag: String =
            Sha256::digest(&content).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        writeln!(
            code,
            "File {{ path: {path:?}, content_type: {content_type:?}, etag: \"\\\"{etag}\\\"\", \
             is_immutable: {}, is_compressed: {is_text}, content: include_bytes!({:?}), \
             plain: OnceLock::new() }},",
            is_hashed(path),
            file.display().to_string()
        )?;
    }
    code.push_str("];\n");
    fs::write(out.join("dashboard.rs"), code)?;
    Ok(())
}

fn collect(folder: &Path, prefix: &str, paths: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|_| "a file's name is not UTF-8")?;
        let path = format!("{prefix}/{name}");
        if name.starts_with('.') {
            continue;
        }
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &path, paths)?;
        } else if extension(&name) != LEFT_OUT {
            paths.push(path);
        }
    }
    Ok(())
}

fn compressed(content: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content)?;
    Ok(encoder.finish()?)
}

fn extension(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// The content type of a file, and whether it is compressed.
fn content_type(path: &str) -> (&'static str, bool) {
    match extension(path) {
        "html" => ("text/html; charset=utf-8", true),
        "js" | "mjs" => ("text/javascript; charset=utf-8", true),
        "css" => ("text/css; charset=utf-8", true),
        "svg" => ("image/svg+xml", true),
        "json" => ("application/json", true),
        "webmanifest" => ("application/manifest+json", true),
        "txt" => ("text/plain; charset=utf-8", true),
        "ico" => ("image/x-icon", true),
        "png" => ("image/png", false),
        "jpg" | "jpeg" => ("image/jpeg", false),
        "webp" => ("image/webp", false),
        "woff2" => ("font/woff2", false),
        "woff" => ("font/woff", false),
        _ => ("application/octet-stream", false),
    }
}

/// Whether a file's name has a hash of its content, so that the file never changes.
fn is_hashed(path: &str) -> bool {
    let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
    let hash = stem.len().checked_sub(HASH + 1).and_then(|at| stem.get(at..)?.strip_prefix('-'));
    path.starts_with("/assets/")
        && hash.is_some_and(|hash| {
            hash.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        })
}
