//! Reads the jobs of manifests: files, folders, standard input.

use std::io::Read;
use std::path::{Path, PathBuf};

use jobs::submit::{self, Draft};
use jobs::{Class, Error};

use crate::failure::Failure;

/// Returns the jobs of all files, or every fault of all files.
pub fn draft_from_files(files: &[PathBuf]) -> Result<Vec<Draft>, Failure> {
    let mut drafts = Vec::new();
    let mut faults = Vec::new();
    for file in unfolded(files)? {
        let (bytes, name) = read_file(&file)?;
        match submit::read(&bytes, &name) {
            Ok(found) => drafts.extend(found),
            Err(Error::Invalid { faults: found }) => faults.extend(found),
            Err(error) => return Err(error.into()),
        }
    }
    if faults.is_empty() { Ok(drafts) } else { Err(Error::Invalid { faults }.into()) }
}

/// Replaces each folder by the manifests in it, sorted by name.
pub fn unfolded(files: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for file in files {
        if !file.is_dir() {
            found.push(file.clone());
            continue;
        }
        let name = file.display().to_string();
        let entries = std::fs::read_dir(file).map_err(|error| unreadable(name.clone(), &error))?;
        let is_manifest = |path: &PathBuf| {
            let extension = path.extension().and_then(|extension| extension.to_str());
            path.is_file() && matches!(extension, Some("yaml" | "yml" | "json"))
        };
        let mut inside: Vec<PathBuf> =
            entries.filter_map(Result::ok).map(|entry| entry.path()).filter(is_manifest).collect();
        if inside.is_empty() {
            return Err(Failure::usage(
                format!("{name} contains no .yaml, .yml or .json file"),
                "give a file, or another folder",
            ));
        }
        inside.sort();
        found.extend(inside);
    }
    Ok(found)
}

/// Reads a file or standard input, at most as much as a manifest may have.
pub fn read_file(file: &Path) -> Result<(Vec<u8>, String), Failure> {
    let name = file.display().to_string();
    let limit = u64::try_from(jobs::manifest::MAX_BYTES).unwrap_or(u64::MAX) + 1;
    let mut bytes = Vec::new();
    let read = match name.as_str() {
        "-" => std::io::stdin().take(limit).read_to_end(&mut bytes),
        _ => std::fs::File::open(file).and_then(|opened| opened.take(limit).read_to_end(&mut bytes)),
    };
    match read {
        Ok(_) => Ok((bytes, name)),
        Err(source) => Err(unreadable(name, &source)),
    }
}

/// Creates the failure for a named file that cannot be read.
pub fn unreadable(name: String, source: &std::io::Error) -> Failure {
    use std::io::ErrorKind;
    let (class, reason, text) = match source.kind() {
        ErrorKind::NotFound => (Class::NotFound, "FileNotFound", format!("file not found: {name}")),
        ErrorKind::PermissionDenied => (Class::Error, "Unreadable", format!("no permission to read {name}")),
        _ => (Class::Error, "Unreadable", format!("cannot read {name}: {source}")),
    };
    Failure::new(class, reason, text)
}

/// Checks that a manifest's namespace and `-n` agree.
pub fn check_namespaces(drafts: &[Draft], flag: Option<&str>) -> Result<(), Failure> {
    let Some(flag) = flag else { return Ok(()) };
    match drafts.iter().find_map(|draft| draft.namespace().filter(|own| *own != flag)) {
        None => Ok(()),
        Some(own) => Err(Failure::usage(
            format!("the job's namespace \"{own}\" differs from -n \"{flag}\""),
            "omit one of them",
        )),
    }
}
