//! The sandbox process on its own, with real processes, in every mode that this machine permits.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use cluster::node::sandbox::client::{Sandbox, read_output};
use cluster::node::sandbox::protocol::{
    Begin, ContainerSpec, Covered, Exit, MountSpec, PodSpec, Security, User,
};
use cluster::node::{Mode, ModeChoice};
use tokio::net::unix::pipe;

const BOUND: Duration = Duration::from_secs(20);

fn program() -> Vec<OsString> {
    vec![env!("CARGO_BIN_EXE_cluster-sandbox").into()]
}

/// Returns the modes to test: plain, and those of rootless and root that the machine permits.
async fn modes() -> Vec<ModeChoice> {
    let mut modes = vec![ModeChoice::Plain];
    for choice in [ModeChoice::Rootless, ModeChoice::Root] {
        let dir = tempfile::tempdir().unwrap();
        match begin(choice, dir.path()).await {
            Ok((sandbox, _)) => {
                sandbox.end().await;
                modes.push(choice);
            }
            Err(error) => println!("{choice:?} is not tested: {error}"),
        }
    }
    modes
}

async fn begin(
    mode: ModeChoice,
    dir: &Path,
) -> Result<(Sandbox, Mode), cluster::node::sandbox::client::SandboxError> {
    begin_with(mode, dir, Covered::default()).await
}

async fn begin_with(
    mode: ModeChoice,
    dir: &Path,
    covered: Covered,
) -> Result<(Sandbox, Mode), cluster::node::sandbox::client::SandboxError> {
    let runtime = dir.join("run");
    std::fs::create_dir_all(&runtime).unwrap();
    let cgroup = format!("odh-test-{}", dir.file_name().unwrap().to_str().unwrap().trim_start_matches('.'));
    Sandbox::begin(&program(), Begin { mode, runtime, cgroup, covered }).await
}

async fn pod(sandbox: &Sandbox, name: &str, number: u8) {
    let spec = PodSpec {
        pod: name.to_owned(),
        hostname: name.to_owned(),
        address: [10, 77, 0, number].into(),
        sysctls: Vec::new(),
        memory_directories: Vec::new(),
    };
    sandbox.create_pod(spec).await.unwrap();
}

fn output() -> (OwnedFd, pipe::Receiver) {
    let (sender, receiver) = pipe::pipe().unwrap();
    (sender.into_blocking_fd().unwrap(), receiver)
}

fn container(pod: &str, script: &str) -> ContainerSpec {
    ContainerSpec {
        pod: pod.to_owned(),
        name: "main".to_owned(),
        argv: vec!["sh".into(), "-c".into(), script.into()],
        env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".into())],
        working_directory: "/".into(),
        user: User { uid: 1000, gid: 1000, groups: vec![] },
        security: Security::default(),
        ..ContainerSpec::default()
    }
}

/// Runs a container to its end, and returns its output.
async fn run(sandbox: &Sandbox, spec: ContainerSpec) -> (Exit, String) {
    let ((out, read), (err, read_err)) = (output(), output());
    let running = sandbox.start(spec, vec![out, err]).await.unwrap();
    let both = async { tokio::join!(read_output(read, 1 << 20), read_output(read_err, 1 << 20)) };
    let (out, err) = tokio::time::timeout(BOUND, both).await.unwrap();
    (running.ended().await, out + &err)
}

#[tokio::test]
async fn a_containers_output_and_exit_code_are_returned() {
    for mode in modes().await {
        let dir = tempfile::tempdir().unwrap();
        let (sandbox, chosen) = begin(mode, dir.path()).await.unwrap();
        pod(&sandbox, "one", 1).await;
        let (exit, said) = run(&sandbox, container("one", "hostname; id -u; echo $$; exit 7")).await;
        assert_eq!((exit.code, exit.signal), (7, None), "{mode:?} {said}");
        if chosen.kind.isolates() {
            assert_eq!(said, "one\n1000\n1\n", "{mode:?}");
        }
        let (exit, _) = run(&sandbox, container("one", "kill -9 $$; exit 3")).await;
        if !chosen.kind.isolates() {
            // Process 1 of a PID namespace cannot kill itself.
            assert_eq!((exit.code, exit.signal), (137, Some(9)), "{mode:?}");
        }
        sandbox.end().await;
        assert_eq!(std::fs::read_dir(dir.path().join("run")).unwrap().count(), 0, "{mode:?}");
    }
}

/// Returns the number of processes with this marker in their environment.
fn marked(marker: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| {
        std::fs::read(entry.path().join("environ"))
            .is_ok_and(|text| text.windows(marker.len()).any(|part| part == marker.as_bytes()))
    })
    .count()
}

async fn until(what: &str, test: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !test() {
        assert!(began.elapsed() < BOUND, "{what} does not come true");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Returns the child processes that are sandboxes.
fn guards() -> Vec<i32> {
    let own = std::process::id().to_string();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let (name, rest) = stat.rsplit_once(") ")?;
        let parent = rest.split(' ').nth(1)?;
        (parent == own && name.contains("(cluster-sandbox"))
            .then(|| entry.file_name().to_str()?.parse().ok())?
    })
    .collect()
}

/// Everything ends if the node's process dies (its end of the socket closes) or the sandbox's first process
/// is killed.
#[tokio::test]
async fn nothing_is_left_after_the_node_or_the_sandbox_dies() {
    for mode in modes().await {
        for killed in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let before = guards();
            let (sandbox, _) = begin(mode, dir.path()).await.unwrap();
            let guard = guards().into_iter().find(|pid| !before.contains(pid)).unwrap();
            let marker = format!("{mode:?}-{killed}-{}", std::process::id());
            pod(&sandbox, "one", 1).await;
            let mut spec = container("one", "trap '' TERM; (setsid sleep 600 &); sleep 600");
            spec.env.push(("ODH_TEST_LEFT".into(), marker.clone()));
            let (out, _read) = output();
            let (err, _read_err) = output();
            sandbox.start(spec, vec![out, err]).await.unwrap();
            until("both processes run", || marked(&marker) >= 2).await;
            if killed {
                let pid = nix::unistd::Pid::from_raw(guard);
                nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
            } else {
                drop(sandbox);
            }
            until("all processes are gone", || marked(&marker) == 0).await;
            if !killed {
                let run = dir.path().join("run");
                until("the runtime directory is empty", || std::fs::read_dir(&run).unwrap().count() == 0)
                    .await;
            }
        }
    }
}

#[tokio::test]
async fn a_hundred_pods_run_in_one_sandbox() {
    for mode in modes().await {
        let dir = tempfile::tempdir().unwrap();
        let (sandbox, _) = begin(mode, dir.path()).await.unwrap();
        let began = std::time::Instant::now();
        let names: Vec<String> = (0..100).map(|number| format!("p{number}")).collect();
        let made = names.iter().zip(1..).map(|(name, number)| pod(&sandbox, name, number));
        futures::future::join_all(made).await;
        let made = began.elapsed();
        let runs = names.iter().map(|name| run(&sandbox, container(name, "true")));
        let exits = futures::future::join_all(runs).await;
        assert!(exits.iter().all(|(exit, _)| exit.code == 0), "{mode:?}: {exits:?}");
        println!("{mode:?}: 100 pods made in {made:?}, their containers run after {:?}", began.elapsed());
        sandbox.end().await;
    }
}

#[tokio::test]
async fn covered_paths_are_empty_unless_mounted() {
    for mode in modes().await.into_iter().filter(|mode| *mode != ModeChoice::Plain) {
        let dir = tempfile::tempdir().unwrap();
        let (home, file) = (dir.path().join("home"), dir.path().join("file"));
        std::fs::create_dir_all(home.join("shared")).unwrap();
        for path in [home.join("private"), home.join("shared/seen"), file.clone()] {
            std::fs::write(path, "text\n").unwrap();
        }
        let covered = Covered {
            secret: Vec::new(),
            personal: vec![home.clone(), file.clone(), "/odh-test-none".into()],
        };
        let (sandbox, _) = begin_with(mode, dir.path(), covered).await.unwrap();
        pod(&sandbox, "one", 1).await;
        let script =
            format!("ls -A {0}; cat {1}; ls {0}/shared /odh-test-all/home", home.display(), file.display());
        let mut spec = container("one", &script);
        let mount = |source: &Path, target: &Path| MountSpec {
            source: source.to_owned(),
            target: target.to_owned(),
            below: std::path::PathBuf::new(),
            read_only: true,
            own: false,
        };
        spec.mounts = vec![mount(dir.path(), Path::new("/odh-test-all"))];
        let (_, said) = run(&sandbox, spec.clone()).await;
        assert!(
            !said.contains("text") && !said.contains("private") && !said.contains("seen"),
            "{mode:?}: {said}"
        );
        spec.mounts.push(mount(&home.join("shared"), &home.join("shared")));
        let (exit, said) = run(&sandbox, spec).await;
        let shared = home.join("shared");
        assert_eq!(
            (exit.code, said),
            (0, format!("shared\n/odh-test-all/home:\nshared\n\n{}:\nseen\n", shared.display())),
            "{mode:?}"
        );
        sandbox.end().await;
    }
}
