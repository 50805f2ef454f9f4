//! What a pod needs so that the Launcher can start processes in the Workers: upstream's SSH key, or the launch agent
//! with its program, its key and the settings that make the MPI use it.

use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, EmptyDirVolumeSource, EnvVar, ExecAction, KeyToPath, LifecycleHandler, PodSpec,
    ResourceRequirements, SeccompProfile, SecretVolumeSource, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::secret::{PRIVATE_KEY, PUBLIC_KEY};
use super::{env, secret_name};
use crate::Settings;
use crate::defaults::DEFAULT_SSH_MOUNT_PATH;
use crate::kept;
use crate::validate::{Implementation, Launch, ValidJob};

/// Open MPI 4 packs the names of hosts for its daemons, and keeps what is before their number in a buffer of 50 bytes, of
/// which it does not check the length (open-mpi/ompi#13358, `ORTE_MAX_NODE_PREFIX`): longer names garble the daemons' command.
const LONGEST_PACKED: usize = 50;

/// The volume with the job's key.
const KEY_VOLUME: &str = "ssh-auth";
/// The volume that the agent's program is copied to, and the init container that copies it.
const AGENT: &str = "odh-launch";
/// The private key's file name in [`KEY_VOLUME`].
const PRIVATE_KEY_FILE: &str = "id_rsa";
/// Upstream makes ssh retry while a Worker's sshd starts.
const SSH_ARGUMENTS: &str = "-o ConnectionAttempts=10";

/// The transport of a job: its annotation's, else the operator's default. But Workers with a command of their own that
/// is not plainly sshd keep ssh: the author has to decide when the agent may replace that command.
pub(crate) fn launch(job: &ValidJob, settings: &Settings) -> Launch {
    if let Some(launch) = job.launch {
        return launch;
    }
    default_launch(
        job.workers.as_ref().and_then(|workers| workers.template.spec.as_ref()?.containers.first()),
        settings,
    )
}

/// The operator's default transport, for Workers with this container.
pub(crate) fn default_launch(container: Option<&Container>, settings: &Settings) -> Launch {
    match settings.default_launch {
        Launch::Agent
            if container.is_none_or(|container| has_no_command(container) || runs_sshd(container)) =>
        {
            Launch::Agent
        }
        _ => Launch::Ssh,
    }
}

/// Whether a pod was created with the launch agent.
pub(crate) fn runs_agent(pod: &kept::Pod) -> bool {
    let containers = pod.spec.iter().filter_map(|spec| spec.init_containers.as_ref()).flatten();
    containers.into_iter().any(|container| container.name == AGENT)
}

/// Whether the container runs the image's own entry point, which upstream replaces by sshd.
pub(crate) fn has_no_command(container: &Container) -> bool {
    container.command.as_ref().is_none_or(Vec::is_empty) && container.args.as_ref().is_none_or(Vec::is_empty)
}

/// Whether the container's program is sshd itself, as in upstream's examples.
pub(crate) fn runs_sshd(container: &Container) -> bool {
    let words = container.command.iter().chain(&container.args).flatten();
    words.take(1).any(|program| program == "sshd" || program.ends_with("/sshd"))
}

/// Sets the Worker's command: upstream's sshd if there is none; with the agent transport, the agent instead of none or
/// of an explicit sshd.
pub(crate) fn set_worker_command(launch: Launch, container: &mut Container) {
    match launch {
        Launch::Ssh if has_no_command(container) => {
            container.command = Some(vec!["/usr/sbin/sshd".to_owned(), "-De".to_owned()]);
        }
        Launch::Agent if has_no_command(container) || runs_sshd(container) => {
            container.command = Some(vec![agent_program(), "serve".to_owned()]);
            container.args = None;
        }
        Launch::Ssh | Launch::Agent => {}
    }
}

/// The Launcher's environment that makes the MPI use the hosts and the transport, in upstream's order. The `PRTE_`
/// twins at the end are ours, as Open MPI 5 does not read the `OMPI_MCA_orte_*` names. `host` is the first Worker's name.
pub(crate) fn launcher_environment(
    implementation: Implementation,
    slots: i32,
    launch: Launch,
    host: &str,
) -> Vec<EnvVar> {
    let hostfile = format!("{}/hostfile", api::HOSTFILE_DIRECTORY);
    let slots = slots.to_string();
    let mut set = Vec::new();
    match implementation {
        Implementation::OpenMpi => {
            set.push(env("OMPI_MCA_orte_keep_fqdn_hostnames", "true"));
            set.push(env("OMPI_MCA_orte_default_hostfile", &hostfile));
            set.push(match launch {
                Launch::Ssh => env("OMPI_MCA_plm_rsh_args", SSH_ARGUMENTS),
                Launch::Agent => env("OMPI_MCA_plm_rsh_agent", agent_program()),
            });
            set.push(env("OMPI_MCA_orte_set_default_slots", &slots));
            set.push(env("PRTE_MCA_prte_default_hostfile", &hostfile));
            set.push(match launch {
                Launch::Ssh => env("PRTE_MCA_plm_ssh_args", SSH_ARGUMENTS),
                Launch::Agent => env("PRTE_MCA_plm_ssh_agent", agent_program()),
            });
            set.push(env("PRTE_MCA_prte_set_default_slots", &slots));
            if host.find(|letter: char| letter.is_ascii_digit()).is_none_or(|end| end >= LONGEST_PACKED) {
                // Names are then passed to the daemons one by one.
                set.push(env("OMPI_MCA_regx", "naive"));
            }
            if launch == Launch::Agent {
                // The agent needs no user of its own, so images run as their own user, including root.
                set.push(env("OMPI_ALLOW_RUN_AS_ROOT", "1"));
                set.push(env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"));
            }
        }
        Implementation::Intel => {
            set.push(env("I_MPI_HYDRA_HOST_FILE", &hostfile));
            match launch {
                Launch::Ssh => set.push(env("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", SSH_ARGUMENTS)),
                Launch::Agent => {
                    set.push(env("I_MPI_HYDRA_BOOTSTRAP", "ssh"));
                    set.push(env("I_MPI_HYDRA_BOOTSTRAP_EXEC", agent_program()));
                }
            }
            set.push(env("I_MPI_PERHOST", &slots));
        }
        Implementation::Mpich => {
            set.push(env("HYDRA_HOST_FILE", &hostfile));
            match launch {
                Launch::Ssh => set.push(env("HYDRA_LAUNCH_EXTRA_ARGS", SSH_ARGUMENTS)),
                Launch::Agent => {
                    set.push(env("HYDRA_LAUNCHER", "ssh"));
                    set.push(env("HYDRA_LAUNCHER_EXEC", agent_program()));
                }
            }
        }
    }
    set
}

/// Adds the key to the pod and its MPI container, and for the agent transport the agent's program and settings.
pub(crate) fn equip(job: &ValidJob, launch: Launch, settings: &Settings, pod: &mut PodSpec) {
    match launch {
        Launch::Ssh => {
            let root_only = job.ssh_mount_path == DEFAULT_SSH_MOUNT_PATH;
            let volume = key_volume(secret_name(&job.name), root_only);
            pod.volumes.get_or_insert_default().push(volume);
            if let Some(container) = pod.containers.first_mut() {
                container.volume_mounts.get_or_insert_default().push(mount(KEY_VOLUME, &job.ssh_mount_path));
            }
        }
        Launch::Agent => equip_with_agent(secret_name(&job.name), job.start_timeout, settings, pod, 0),
    }
}

/// Adds the agent's program, key and settings to the pod; `main` is the index of its MPI container.
pub(crate) fn equip_with_agent(
    secret: String,
    start_timeout: Duration,
    settings: &Settings,
    pod: &mut PodSpec,
    main: usize,
) {
    let empty = Volume {
        name: AGENT.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    };
    pod.volumes.get_or_insert_default().extend([key_volume(secret, false), empty]);
    let grace = pod.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE_SECONDS).max(0);
    let user = pod.containers.get(main).and_then(|container| container.security_context.as_ref());
    let install = install(settings, user);
    pod.init_containers.get_or_insert_default().insert(0, install);
    let Some(container) = pod.containers.get_mut(main) else { return };
    let mounts = [mount(KEY_VOLUME, api::LAUNCH_KEY_DIRECTORY), mount(AGENT, api::LAUNCH_DIRECTORY)];
    container.volume_mounts.get_or_insert_default().extend(mounts);
    let variables = container.env.get_or_insert_default();
    let has = |name: &str| variables.iter().any(|variable| variable.name == name);
    // mpirun of Open MPI 4 asks for its user's shell, and complains first of all if neither the password file nor this
    // variable has one. The agent needs neither.
    let shell = (has("OMPI_MCA_plm_rsh_agent") && !has("SHELL")).then(|| env("SHELL", "/bin/sh"));
    variables.extend(shell);
    variables.extend([
        env("ODH_LAUNCH_KEY", format!("{}/{PRIVATE_KEY_FILE}", api::LAUNCH_KEY_DIRECTORY)),
        env("ODH_LAUNCH_PORT", api::LAUNCH_PORT.to_string()),
        env("ODH_LAUNCH_START_TIMEOUT", start_timeout.as_secs().to_string()),
        env("ODH_LAUNCH_GRACE", grace.to_string()),
    ]);
}

/// Lets the ranks end in their own time when the Launcher's pod is asked to end: a hook that asks them, and waits for them
/// before `mpirun` is asked to end and would kill them. The Launcher gets at least the grace period of the Workers, unless
/// its template gives one. A hook of the user's own stays; `main` is the index of the MPI container.
pub(crate) fn drain_first(pod: &mut PodSpec, main: usize, of_workers: Option<i64>) {
    if pod.termination_grace_period_seconds.is_none() {
        pod.termination_grace_period_seconds = of_workers.filter(|grace| *grace > DEFAULT_GRACE_SECONDS);
    }
    let Some(container) = pod.containers.get_mut(main) else { return };
    let lifecycle = container.lifecycle.get_or_insert_default();
    lifecycle.pre_stop.get_or_insert_with(|| LifecycleHandler {
        exec: Some(ExecAction { command: Some(vec![agent_program(), "drain".to_owned()]) }),
        ..LifecycleHandler::default()
    });
}

/// Kubernetes' default of `terminationGracePeriodSeconds`.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// The init container that copies the agent's program to where the MPI container finds it. It complies with Pod
/// Security *restricted*, runs as the MPI container's user, and declares its small requests and limits, so that a
/// quota admits it.
fn install(settings: &Settings, user: Option<&SecurityContext>) -> Container {
    let amounts = |cpu: &str, memory: &str| {
        [("cpu", cpu), ("memory", memory)]
            .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
    };
    Container {
        name: AGENT.to_owned(),
        image: Some(settings.launch_image.clone()),
        command: Some([AGENT, "install", api::LAUNCH_DIRECTORY].map(str::to_owned).to_vec()),
        resources: Some(ResourceRequirements {
            limits: Some(amounts("100m", "64Mi").into()),
            // It runs only for a moment, but a pod's request is the largest of its containers': this request must not
            // keep a hundred small Workers off a small machine.
            requests: Some(amounts("1m", "8Mi").into()),
            ..ResourceRequirements::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                localhost_profile: None,
            }),
            run_as_non_root: user.and_then(|user| user.run_as_non_root),
            run_as_user: user.and_then(|user| user.run_as_user),
            run_as_group: user.and_then(|user| user.run_as_group),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(vec![mount(AGENT, api::LAUNCH_DIRECTORY)]),
        ..Container::default()
    }
}

/// The Secret as files. Mode 0600 only below `/root`, as upstream: elsewhere the pod's user may not be root.
fn key_volume(secret: String, root_only: bool) -> Volume {
    let items =
        [(PRIVATE_KEY, PRIVATE_KEY_FILE), (PUBLIC_KEY, "id_rsa.pub"), (PUBLIC_KEY, "authorized_keys")];
    Volume {
        name: KEY_VOLUME.to_owned(),
        secret: Some(SecretVolumeSource {
            default_mode: root_only.then_some(0o600),
            secret_name: Some(secret),
            items: Some(
                items
                    .map(|(key, path)| KeyToPath { key: key.to_owned(), path: path.to_owned(), mode: None })
                    .to_vec(),
            ),
            optional: None,
        }),
        ..Volume::default()
    }
}

pub(crate) fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { name: volume.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}

/// The agent's program inside a pod.
fn agent_program() -> String {
    format!("{}/{}", api::LAUNCH_DIRECTORY, api::LAUNCH_PROGRAM)
}
