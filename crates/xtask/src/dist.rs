//! `cargo xtask dist`: packages of `odh`, each installed into a folder of its own and used for a job.
//!
//! All of them hold the same files: the program, which carries everything else, its man pages and its completions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::build::{self, Profile};
use crate::demo::EXAMPLES_IMAGE;
use crate::steps::{self, Stop};
use crate::{environment, machine, needs};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The only libraries that the program may need; every Linux with glibc has them.
const LIBRARIES: [&str; 4] = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux"];
/// Where completions of a shell are found below `share`, and the shell's name.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/odh"),
    ("zsh", "zsh/site-functions/_odh"),
    ("fish", "fish/vendor_completions.d/odh.fish"),
];

/// Builds the packages in `target/dist`, and tries each one.
pub fn run() -> Result<(), Stop> {
    let path = machine::prepare_for_demo()?;
    let examples = environment::examples()?;
    let odh = build::programs(Profile::Release)?;
    let folder = steps::target().join("dist");
    let files = Files::stage(&odh, &folder)?;
    let packages = [files.tarball()?, files.wheel()?].into_iter().chain(files.debian()?);
    let packages: Vec<Package> = packages.collect();
    for package in &packages {
        steps::step(&format!("Installing {} into a folder and using it", package.name()));
        let installed = package.install(&folder.join("installed"))?;
        try_out(&installed, &examples, &path)?;
    }
    for made_on_the_way in
        [files.root.clone(), folder.join("debian"), folder.join("wheel"), folder.join("installed")]
    {
        let _ = fs::remove_dir_all(made_on_the_way);
    }
    steps::step("Done");
    for package in &packages {
        let size = fs::metadata(&package.file).map_or(0, |metadata| metadata.len());
        steps::say(&format!("    {:>7.1} MB  {}", size as f64 / 1e6, package.file.display()));
    }
    Ok(())
}

/// What every package holds.
struct Files {
    /// `target/dist`.
    folder: PathBuf,
    /// `bin/odh`, `share/…`, `LICENSE`.
    root: PathBuf,
    /// The newest version of glibc that the program asks for, such as `2.34`.
    glibc: String,
    /// The time that files get, in seconds, so that the same commit makes the same packages.
    time: String,
}

impl Files {
    fn stage(odh: &Path, folder: &Path) -> Result<Files, Stop> {
        steps::step("Packing odh, its man pages and its completions");
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(|error| Stop::io(folder, &error))?;
        }
        let root = folder.join(format!("odh-{VERSION}-{}-linux", std::env::consts::ARCH));
        copy(odh, &root.join("bin/odh"))?;
        copy(&steps::root().join("LICENSE"), &root.join("LICENSE"))?;
        let manual = root.join("share/man/man1");
        steps::run_quietly(Command::new(odh).args(["help", "--man-pages"]).arg(&manual))?;
        for (shell, place) in COMPLETIONS {
            let script = steps::output_of(odh, &["completion", shell])
                .ok_or_else(|| Stop::plain(format!("odh has no completions for {shell}")))?;
            write(&root.join("share").join(place), &format!("{script}\n"))?;
        }
        let glibc = glibc_of(odh)?;
        // Outside of a checkout, such as in a source archive, any fixed time will do.
        let time = steps::output_of(
            "git",
            &["-C", &steps::root().display().to_string(), "log", "-1", "--format=%ct"],
        )
        .unwrap_or_else(|| "0".to_owned());
        Ok(Files { folder: folder.to_path_buf(), root, glibc, time })
    }

    fn tarball(&self) -> Result<Package, Stop> {
        let name = self.root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let file = self.folder.join(format!("{name}.tar.gz"));
        let mut command = Command::new("tar");
        command.current_dir(&self.folder).args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
        command.arg(format!("--mtime=@{}", self.time)).args(["--use-compress-program=gzip -n", "-cf"]);
        steps::run_quietly(command.arg(&file).arg(name))?;
        Ok(Package { file, kind: Kind::Tarball })
    }

    fn wheel(&self) -> Result<Package, Stop> {
        let python = environment::sdk(&needs::prepared_python()?)?;
        let project = self.folder.join("wheel");
        for name in ["pyproject.toml", "hatch_build.py", "README.md"] {
            copy(&steps::root().join("packaging/wheel").join(name), &project.join(name))?;
        }
        copy(&self.root.join("LICENSE"), &project.join("LICENSE"))?;
        copy(&self.root.join("bin/odh"), &project.join("odh"))?;
        copy_folder(&self.root.join("share"), &project.join("share"))?;
        let platform = format!("manylinux_{}_{}", self.glibc.replace('.', "_"), std::env::consts::ARCH);
        let mut command = Command::new(python.join("bin/python"));
        command.current_dir(&project).args(["-m", "hatchling", "build", "--target", "wheel", "--directory"]);
        command.arg(&self.folder).env("ODH_VERSION", VERSION).env("ODH_PLATFORM", &platform);
        steps::run_quietly(command.env("SOURCE_DATE_EPOCH", &self.time))?;
        Ok(Package {
            file: self.folder.join(format!("odh-{VERSION}-py3-none-{platform}.whl")),
            kind: Kind::Wheel,
        })
    }

    /// `None` on a machine that cannot make one, which is said.
    fn debian(&self) -> Result<Option<Package>, Stop> {
        if steps::find_program("dpkg-deb").is_none() {
            steps::say("    NOT MADE: the Debian package, because dpkg-deb is missing (Debian package dpkg)");
            return Ok(None);
        }
        let architecture = steps::output_of("dpkg", &["--print-architecture"])
            .ok_or_else(|| Stop::plain("dpkg does not tell this machine's architecture"))?;
        let root = self.folder.join("debian");
        copy(&self.root.join("bin/odh"), &root.join("usr/bin/odh"))?;
        copy_folder(&self.root.join("share"), &root.join("usr/share"))?;
        // Debian's zsh looks here, and in no `site-functions` below /usr/share.
        let zsh = root.join("usr/share/zsh");
        let functions = zsh.join("site-functions");
        fs::rename(&functions, zsh.join("vendor-completions"))
            .map_err(|error| Stop::io(&functions, &error))?;
        copy(&self.root.join("LICENSE"), &root.join("usr/share/doc/odh/copyright"))?;
        let control = format!(
            "Package: odh\nVersion: {VERSION}\nArchitecture: {architecture}\nMaintainer: Open Data Hub\n\
             Homepage: {}\nSection: science\nPriority: optional\nDepends: libc6 (>= {}), libgcc-s1\n\
             Recommends: nftables\nSuggests: openmpi-bin, python3-mpi4py\n\
             Description: MPI training on Kubernetes, OpenShift, or this machine\n \
             The command line of MPI training for OpenShift AI, with a local cluster:\n \
             create, watch and diagnose distributed training jobs.\n",
            env!("CARGO_PKG_REPOSITORY"),
            self.glibc
        );
        write(&root.join("DEBIAN/control"), &control)?;
        let file = self.folder.join(format!("odh_{VERSION}_{architecture}.deb"));
        let mut command = Command::new("dpkg-deb");
        command.args(["--root-owner-group", "--build"]).arg(&root).arg(&file);
        steps::run_quietly(command.env("SOURCE_DATE_EPOCH", &self.time))?;
        Ok(Some(Package { file, kind: Kind::Debian }))
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Tarball,
    Wheel,
    Debian,
}

struct Package {
    file: PathBuf,
    kind: Kind,
}

impl Package {
    fn name(&self) -> String {
        self.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Installs the package below `folder` and returns the folder that has `bin` and `share`.
    fn install(&self, folder: &Path) -> Result<PathBuf, Stop> {
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(|error| Stop::io(folder, &error))?;
        }
        fs::create_dir_all(folder).map_err(|error| Stop::io(folder, &error))?;
        match self.kind {
            Kind::Tarball => {
                let mut command = Command::new("tar");
                command.args(["--strip-components=1", "-xf"]).arg(&self.file).arg("-C").arg(folder);
                steps::run_quietly(&mut command)?;
                Ok(folder.to_path_buf())
            }
            Kind::Wheel => {
                steps::run_quietly(Command::new(needs::prepared_python()?).args(["-m", "venv"]).arg(folder))?;
                let mut pip = Command::new(folder.join("bin/python"));
                pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-index"]);
                steps::run_quietly(pip.arg(&self.file))?;
                Ok(folder.to_path_buf())
            }
            // Its own maintainer scripts and triggers would be another matter; it has none.
            Kind::Debian => {
                steps::run_quietly(Command::new("dpkg-deb").arg("--extract").arg(&self.file).arg(folder))?;
                Ok(folder.join("usr"))
            }
        }
    }
}

/// Runs a job on a local cluster with an installed `odh`, and looks for the files beside it.
fn try_out(installed: &Path, examples: &Path, path: &Path) -> Result<(), Stop> {
    let odh = installed.join("bin/odh");
    for file in ["man/man1/odh-training-create.1", "bash-completion/completions/odh"] {
        if !installed.join("share").join(file).is_file() {
            return Err(Stop::plain(format!("share/{file} is missing")));
        }
    }
    let home = steps::target().join("dist/home");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&odh);
        command.args(arguments).env("ODH_HOME", &home).env("PATH", path).env_remove("KUBECONFIG");
        command
    };
    let started = Instant::now();
    let mapping = format!("{EXAMPLES_IMAGE}={}", examples.display());
    let script = "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE";
    let words = ["training", "create", "mpijob", "hello", "--workers", "2", "--image", EXAMPLES_IMAGE];
    let words = [&words[..], &["--wait", "--", "mpirun", "sh", "-c", script]].concat();
    let outcome = steps::run_quietly(&mut run(&["local", "up", "--image", &mapping]))
        .and_then(|()| steps::run_quietly(&mut run(&words)))
        .and_then(|()| {
            let output = run(&["training", "logs", "mpijob", "hello"]).output();
            let logs = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            let logs = logs.map_err(|error| Stop::io(&odh, &error))?;
            match ["rank 0 of 2", "rank 1 of 2"].iter().all(|line| logs.contains(line)) {
                true => Ok(()),
                false => Err(Stop::plain(format!("the job's log has not both ranks:\n{logs}"))),
            }
        });
    let ended = steps::run_quietly(&mut run(&["local", "down", "--purge"]));
    outcome.and(ended)?;
    steps::say(&format!(
        "    a job of two Workers ran: {:.1} s with the cluster",
        started.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// Returns the newest version of glibc that a program asks for. Fails if it needs another library.
fn glibc_of(program: &Path) -> Result<String, Stop> {
    let asked = steps::output_of(
        "readelf",
        &["--wide", "--dynamic", "--version-info", &program.display().to_string()],
    )
    .ok_or_else(|| {
        Stop::new("the program's libraries cannot be read", "install binutils, which has readelf")
    })?;
    let libraries = asked.lines().filter_map(|line| line.split_once("(NEEDED)")?.1.split(['[', ']']).nth(1));
    if let Some(other) =
        libraries.into_iter().find(|name| !LIBRARIES.iter().any(|known| name.starts_with(known)))
    {
        return Err(Stop::plain(format!("odh needs {other}, which not every machine has")));
    }
    newest_glibc(&asked).ok_or_else(|| Stop::plain("the program asks for no version of glibc"))
}

/// Returns the newest version in lines such as `0x0080: Name: GLIBC_2.34  Flags: none  Version: 5`.
fn newest_glibc(version_info: &str) -> Option<String> {
    let names = version_info.split("Name: GLIBC_").skip(1).filter_map(|rest| rest.split_whitespace().next());
    let newest = names.filter_map(|name| {
        let mut numbers = name.split('.').map(str::parse::<u32>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    newest.max().map(|(major, minor)| format!("{major}.{minor}"))
}

fn copy(from: &Path, to: &Path) -> Result<(), Stop> {
    make_parent(to)?;
    fs::copy(from, to).map(drop).map_err(|error| Stop::io(from, &error))
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), Stop> {
    for entry in fs::read_dir(from).map_err(|error| Stop::io(from, &error))? {
        let path = entry.map_err(|error| Stop::io(from, &error))?.path();
        let place = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_folder(&path, &place)?;
        } else {
            copy(&path, &place)?;
        }
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<(), Stop> {
    make_parent(file)?;
    fs::write(file, text).map_err(|error| Stop::io(file, &error))
}

fn make_parent(file: &Path) -> Result<(), Stop> {
    let parent = file.parent().unwrap_or(file);
    fs::create_dir_all(parent).map_err(|error| Stop::io(parent, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_is_compared_by_number() {
        let read = "  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 3\n  0x0020:   Name: GCC_3.0  Flags: none\n  \
                    0x0030:   Name: GLIBC_2.34  Flags: none  Version: 5\n";
        assert_eq!(newest_glibc(read).as_deref(), Some("2.34"));
        assert_eq!(newest_glibc("  0x0020:   Name: GCC_3.0  Flags: none\n"), None);
    }
}
