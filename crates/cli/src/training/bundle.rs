//! `support-bundle`: everything that somebody else needs to understand a job, in one file, without secrets.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use jobs::Class;
use jobs::bundle::File;

use crate::arguments::{Global, SupportBundle};
use crate::connect::connect;
use crate::console::Console;
use crate::failure::Failure;

/// `odh training support-bundle KIND NAME`
pub async fn run(console: &Console, global: &Global, asked: &SupportBundle) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let (kind, name) = (jobs::Kind::from(asked.target.kind), &asked.target.name);
    let mut files = jobs::bundle::collect(&connection.client, kind, &connection.namespace, name).await?;
    files.push(File { path: "odh-version.txt".to_owned(), text: format!("{}\n", env!("CARGO_PKG_VERSION")) });
    let path = asked.file.clone().unwrap_or_else(|| PathBuf::from(format!("{name}-support.tar.gz")));
    let shown = path.display().to_string();
    let failed = |error: std::io::Error| {
        Failure::new(Class::Error, "Output", format!("cannot write {shown}: {error}"))
            .with_hint("name another file with --file")
    };
    // Logs may hold what only this person may read.
    let file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path).map_err(failed)?;
    let mut zipped = GzEncoder::new(file, Compression::default());
    archive(&mut zipped, name, &files).map_err(failed)?;
    zipped.finish().map_err(failed)?;
    console.data(&format!("{shown}\n"))?;
    console.note(&format!(
        "{} files; secrets were taken out by their names: look at it before you pass it on",
        files.len()
    ));
    Ok(0)
}

/// Writes the files below a folder of the job's name.
fn archive(to: impl Write, folder: &str, files: &[File]) -> std::io::Result<()> {
    let mut archive = tar::Builder::new(to);
    for file in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(u64::try_from(file.text.len()).unwrap_or(u64::MAX));
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or(0));
        archive.append_data(&mut header, format!("{folder}/{}", file.path), file.text.as_bytes())?;
    }
    archive.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_holds_its_files() {
        let mut bytes = Vec::new();
        let files = [File { path: "logs/a.log".to_owned(), text: "hello\n".to_owned() }];
        archive(&mut bytes, "pi", &files).unwrap();
        let mut read = tar::Archive::new(&bytes[..]);
        let names: Vec<String> = read
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["pi/logs/a.log"]);
    }
}
