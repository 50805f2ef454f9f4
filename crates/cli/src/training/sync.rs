//! `create --sync PATH`: files of this machine that travel in the job itself, packed into variables, and are unpacked by
//! every rank before its command. That bounds their size: data belong in a volume, packages in the image.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, GzBuilder};
use jobs::build::{Request, Variable};
use plan::starts_ranks;
use sha2::{Digest as _, Sha256};

use crate::failure::Failure;

/// The most bytes of packed files: a job has them for the Launcher and for the Workers, and an object holds 1.5 MiB.
const MOST_BYTES: usize = 256 << 10;
/// The most files.
const MOST_FILES: usize = 2_000;
/// The most bytes of files before they are packed, so that a large folder is refused before all of it is read.
const MOST_PLAIN_BYTES: u64 = 64 << 20;
/// The length of a variable; Linux takes 128 KiB (`MAX_ARG_STRLEN`).
const PART: usize = 96 << 10;
/// The variables, each followed by its number.
const VARIABLE: &str = "ODH_CODE_";
/// Folders that hold nothing that a job needs.
const LEFT_OUT: [&str; 7] =
    ["__pycache__", ".git", ".ipynb_checkpoints", ".venv", "node_modules", ".mypy_cache", ".ruff_cache"];
/// Files and folders that usually hold secrets, with a `*` at the beginning or the end for any text.
const SECRETS: [&str; 6] = [".env*", "*.pem", ".aws", ".kube", ".netrc", ".ssh"];

/// What every rank runs first; its first argument is the digest of the files. Ranks of one Worker unpack at the same
/// time, so the folder appears complete or not at all.
const UNPACK: &str = r#"d="${TMPDIR:-/tmp}/odh-code-$1-$(id -u)"
shift
if ! [ -d "$d" ]; then
  f=$(mktemp -d "$d.XXXXXX") || exit
  i=0
  while eval "v=\${ODH_CODE_$i:-}" && [ -n "$v" ]; do printf %s "$v"; i=$((i + 1)); done |
    base64 -d | tar -xzf - -C "$f" || exit
  mv -T "$f" "$d" 2>/dev/null || rm -rf "$f"
fi
[ -O "$d" ] || { echo "$d belongs to another user" >&2; exit 1; }
cd "$d" || exit
i=0
while eval "[ -n \"\${ODH_CODE_$i:-}\" ]"; do unset "ODH_CODE_$i"; i=$((i + 1)); done
export PYTHONPATH="$d${PYTHONPATH:+:$PYTHONPATH}"
exec "$@""#;

/// Packs the files into a request, whose command then starts in the folder that holds them.
///
/// # Errors
/// If a path cannot be read, the files are too many or too large, or the command starts the ranks itself.
pub fn ship(paths: &[PathBuf], request: Request) -> Result<Request, Failure> {
    if paths.is_empty() {
        return Ok(request);
    }
    if starts_ranks(&request.command) && !request.in_launcher {
        return Err(Failure::usage(
            "--sync unpacks the files in every rank, but the command starts the ranks itself",
            "leave mpirun out of the command, or add --in-launcher if only the Launcher needs the files",
        ));
    }
    let packed = pack(&files(paths)?)?;
    let digest = Sha256::digest(&packed);
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    // The shell's own name stands in front of what it complains about, and is what diagnoses look for.
    let mut command: Vec<String> = ["sh", "-c", UNPACK, "sh", &name].map(str::to_owned).into();
    command.extend(request.command);
    let text = STANDARD.encode(&packed);
    let parts = text.as_bytes().chunks(PART).map(String::from_utf8_lossy);
    let mut env = request.env;
    env.extend(
        parts
            .enumerate()
            .map(|(number, part)| Variable::from((format!("{VARIABLE}{number}"), part.into_owned()))),
    );
    Ok(Request { command, env, ..request })
}

/// The content of a file, and whether it can be executed.
type Content = (Vec<u8>, bool);

/// Reads the files by the paths that they get in the job: those of a folder by their paths in it.
fn files(paths: &[PathBuf]) -> Result<BTreeMap<PathBuf, Content>, Failure> {
    let mut found = BTreeMap::new();
    let mut bytes = 0;
    let mut pending: Vec<(PathBuf, PathBuf)> = Vec::new();
    let mut roots = Vec::new();
    for path in paths {
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        pending.push((path.clone(), if path.is_dir() { PathBuf::new() } else { name }));
        roots.extend(path.canonicalize());
    }
    while let Some((path, name)) = pending.pop() {
        let unreadable = |error: std::io::Error| {
            Failure::usage(
                format!("--sync: cannot read {}: {error}", path.display()),
                "name a file, or a folder of files",
            )
        };
        let about = path.metadata().map_err(unreadable)?;
        if about.is_dir() {
            for entry in path.read_dir().map_err(unreadable)? {
                let entry = entry.map_err(unreadable)?;
                let inner = entry.file_name();
                let is_link = entry.file_type().map_err(unreadable)?.is_symlink();
                if is_left_out(&inner) || is_link && entry.path().is_dir() {
                    continue;
                }
                if is_link {
                    check_link(&entry.path(), &roots)?;
                }
                pending.push((entry.path(), name.join(&inner)));
            }
            continue;
        }
        if !about.is_file() {
            continue;
        }
        bytes += about.len();
        if found.len() >= MOST_FILES || bytes > MOST_PLAIN_BYTES {
            return Err(too_much(&format!("more than {MOST_FILES} files or {} MiB", MOST_PLAIN_BYTES >> 20)));
        }
        let content = std::fs::read(&path).map_err(unreadable)?;
        let is_program = about.permissions().mode() & 0o111 != 0;
        if found.insert(name.clone(), (content, is_program)).is_some() {
            return Err(Failure::usage(
                format!("--sync: two files would be {} in the job", name.display()),
                "rename one of them, or name the folder that holds both",
            ));
        }
    }
    Ok(found)
}

/// Whether an entry of a folder is left out: it holds nothing that a job needs, or probably secrets. A file or folder that
/// the user names itself is shipped.
fn is_left_out(name: &OsStr) -> bool {
    let text = name.to_string_lossy();
    LEFT_OUT.contains(&&*text) || SECRETS.iter().any(|pattern| fits(pattern, &text))
}

fn fits(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

/// Refuses a link that leads out of what was named, or to something that is left out: a folder may be a stranger's
/// repository, with links to files of this machine.
fn check_link(link: &Path, roots: &[PathBuf]) -> Result<(), Failure> {
    // A link that cannot be followed cannot be read, either; reading it reports that.
    let Ok(target) = link.canonicalize() else { return Ok(()) };
    let mut inside = roots.iter().filter_map(|root| target.strip_prefix(root).ok()).peekable();
    let fault = if inside.peek().is_none() {
        format!("leads out of its folder, to {}", target.display())
    } else if inside.all(|path| path.iter().any(is_left_out)) {
        format!("leads to {}, which is left out", target.display())
    } else {
        return Ok(());
    };
    Err(Failure::usage(
        format!("--sync: the link {} {fault}", link.display()),
        "name that file as well, or remove the link",
    ))
}

/// Packs files. The same files give the same bytes.
fn pack(files: &BTreeMap<PathBuf, Content>) -> Result<Vec<u8>, Failure> {
    let gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let mut archive = tar::Builder::new(gzip);
    let packed = (|| {
        for (name, (content, is_program)) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(if *is_program { 0o755 } else { 0o644 });
            archive.append_data(&mut header, Path::new(name), content.as_slice())?;
        }
        archive.into_inner()?.finish()
    })();
    let packed = packed.map_err(|error| {
        Failure::usage(format!("--sync: cannot pack the files: {error}"), "shorten their names")
    })?;
    match packed.len() {
        large if large > MOST_BYTES => Err(too_much(&format!(
            "{} KiB when packed, more than the {} KiB that fit into a job",
            large >> 10,
            MOST_BYTES >> 10
        ))),
        _ => Ok(packed),
    }
}

fn too_much(what: &str) -> Failure {
    Failure::usage(
        format!("--sync: the files are {what}"),
        "put data on a claim (--pvc) and packages into the image; name only the files that the program needs",
    )
}

#[cfg(test)]
mod tests {
    use jobs::build::VariableValue;

    use super::*;

    fn request(command: &[&str]) -> Request {
        Request { command: command.iter().map(|word| (*word).to_owned()).collect(), ..Request::default() }
    }

    fn refusal(paths: &[PathBuf], command: &[&str]) -> String {
        ship(paths, request(command)).unwrap_err().message.clone()
    }

    #[test]
    fn files_arrive_as_they_are_and_the_command_starts_beside_them() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        std::fs::create_dir_all(here.join("lib/__pycache__")).unwrap();
        std::fs::write(here.join("lib/names.txt"), "it's \"here\"\n").unwrap();
        std::fs::write(here.join("lib/__pycache__/left.pyc"), "out").unwrap();
        std::fs::write(here.join("say"), "#!/bin/sh\ncat names.txt; ls; echo \"$@ in $ODH_CODE_0\"\n")
            .unwrap();
        std::fs::set_permissions(here.join("say"), PermissionsExt::from_mode(0o755)).unwrap();
        let paths = [here.join("lib"), here.join("say")];
        let made = ship(&paths, request(&["./say", "a b"])).unwrap();
        assert_eq!(made, ship(&paths, request(&["./say", "a b"])).unwrap(), "the same files, the same job");
        let run = || {
            let command = std::process::Command::new("sh")
                .args(&made.command[1..])
                .envs(made.env.iter().filter_map(|variable| match &variable.value {
                    VariableValue::Text(text) => Some((&variable.name, text)),
                    _ => None,
                }))
                .env("TMPDIR", here)
                .output();
            let output = command.unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let expected = "it's \"here\"\nnames.txt\nsay\na b in \n";
        assert_eq!((run(), run()), (expected.to_owned(), expected.to_owned()));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("large.bin");
        let mut random = 1_u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            random.to_le_bytes()[3]
        })
        .take(MOST_BYTES + 1)
        .collect();
        std::fs::write(&large, noise).unwrap();
        assert!(refusal(&[large], &["true"]).contains("more than the 256 KiB"));
        assert!(refusal(&[folder.path().join("nosuch")], &["true"]).contains("cannot read"));
        let here = folder.path().join("same");
        std::fs::write(&here, "").unwrap();
        assert!(refusal(&[here.clone(), here.clone()], &["true"]).contains("two files"));
        assert!(refusal(&[here], &["mpirun", "true"]).contains("starts the ranks itself"));
    }

    #[test]
    fn a_link_that_leads_out_of_its_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (repository, secret) = (folder.path().join("repository"), folder.path().join("secret"));
        std::fs::create_dir(&repository).unwrap();
        std::fs::write(&secret, "secret").unwrap();
        std::fs::write(repository.join("train.py"), "").unwrap();
        std::os::unix::fs::symlink("train.py", repository.join("inside.py")).unwrap();
        ship(std::slice::from_ref(&repository), request(&["true"])).unwrap();
        std::os::unix::fs::symlink("../secret", repository.join("outside")).unwrap();
        assert!(refusal(std::slice::from_ref(&repository), &["true"]).contains("leads out of its folder"));
        ship(&[repository, secret], request(&["true"])).unwrap();
    }

    #[test]
    fn the_python_sdk_leaves_out_the_same_files() {
        let shared = include_str!("../../../../openapi/shipped.yaml");
        let shared: BTreeMap<String, Vec<String>> = serde_saphyr::from_str(shared).unwrap();
        assert_eq!(shared["useless"], LEFT_OUT);
        assert_eq!(shared["secrets"], SECRETS);
    }

    #[test]
    fn files_that_usually_hold_secrets_are_shipped_only_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        for name in [".aws", ".kube", ".ssh", "deep/.ssh", "certificates"] {
            std::fs::create_dir_all(here.join(name)).unwrap();
        }
        let secrets =
            [".env", ".env.local", ".netrc", ".aws/credentials", ".kube/config", ".ssh/id", "deep/.ssh/id"];
        for name in ["train.py", "environment.py", "certificates/key.pem"].iter().chain(&secrets) {
            std::fs::write(here.join(name), *name).unwrap();
        }
        let shipped = |paths: &[&Path]| -> Vec<String> {
            let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
            let found = files(&paths).unwrap_or_else(|failure| panic!("{}", failure.message));
            found.keys().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(shipped(&[here]), ["environment.py", "train.py"]);
        assert_eq!(shipped(&[here, &here.join(".env")]), [".env", "environment.py", "train.py"]);
        assert_eq!(shipped(&[&here.join(".ssh")]), ["id"]);
        assert_eq!(shipped(&[&here.join("certificates/key.pem")]), ["key.pem"]);
        std::os::unix::fs::symlink(".env", here.join("settings")).unwrap();
        let refused = refusal(&[here.to_owned()], &["true"]);
        assert!(refused.contains("/settings leads to") && refused.contains("which is left out"), "{refused}");
        assert!(shipped(&[here, &here.join(".env")]).contains(&"settings".to_owned()));
    }
}
