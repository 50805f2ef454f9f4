//! What containers get of the local environments that images are mapped to: programs, variables, a command.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use semantics::local_images::{self, LocalImages};

use super::environment::{self, Variables};
use super::sandbox::protocol::User;
use super::{LocalNode, lock, pod, services};

/// The search path for programs if the caller has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The most bytes read of a local environment's `etc/environment`.
const MAX_ENVIRONMENT_BYTES: u64 = 64 * 1024;

impl LocalNode {
    /// Returns the images that are mapped now.
    fn images(&self) -> Arc<LocalImages> {
        Arc::clone(&lock(&self.images))
    }

    /// Returns the local environment mapped to an image name.
    fn environment_of(&self, image: &str) -> Option<PathBuf> {
        local_images::environment_of(&self.images(), image).map(Path::to_owned)
    }

    /// Returns the folders in which containers find programs besides the machine's usual ones: the local environments
    /// of all images, since one may use what another provides, and the node's own `PATH`. Contains only existing
    /// folders, parents before children.
    pub(super) fn program_folders(&self) -> BTreeSet<PathBuf> {
        let images = self.images();
        let environments = images.values().cloned();
        environments
            .chain(own_path().into_iter().map(PathBuf::from))
            .filter(|folder| folder.is_dir())
            .collect()
    }

    /// Returns why the image cannot be pulled: its repository is mapped, but under other tags only. The tag is then a
    /// typo, or an image that was not provided. Returns `None` for repositories that are not mapped at all.
    pub(super) fn pull_fault(&self, image: &str) -> Option<String> {
        let images = self.images();
        let known = local_images::other_tags(&images, image);
        (!known.is_empty()).then(|| {
            format!(
                "manifest unknown: this node pulls no images, and the only known tags are {}",
                known.join(", ")
            )
        })
    }

    /// Returns the command of a container of this image that names none.
    pub(super) fn entry(&self, image: &str) -> Vec<String> {
        self.environment_of(image).map(|directory| entry_of(&directory)).unwrap_or_default()
    }

    /// Returns a container's `imageID`.
    pub(super) fn image_id(&self, image: &str) -> String {
        local_images::image_id(self.environment_of(image).as_deref())
    }

    pub(super) fn tell_environment(&self, pod: &Pod, container: &Container, restarts: i32) {
        if restarts > 0 {
            return;
        }
        let image = container.image.as_deref().unwrap_or_default();
        let message = match self.environment_of(image) {
            Some(directory) => {
                format!(
                    "No image was pulled: {image:?} is mapped to the local environment {}",
                    directory.display()
                )
            }
            None => {
                format!(
                    "No image was pulled: {image:?} is not mapped, so the machine's own file system is used"
                )
            }
        };
        self.events.normal(pod, Some(&container.name), "LocalEnvironment", message);
        let devices = self.devices_of(pod, container);
        if !devices.is_empty() {
            let message =
                format!("nvidia.com/gpu is simulated, without a real device: CUDA_VISIBLE_DEVICES={devices}");
            self.events.normal(pod, Some(&container.name), "SimulatedGpus", message);
        }
    }

    /// Returns the variables that an image would set. Of the caller's environment, only `LANG` and `PATH` are passed
    /// on.
    pub(super) fn base_variables(
        &self,
        pod: &Pod,
        container: &Container,
        user: &User,
        temporary: &Path,
    ) -> Variables {
        let mut variables = Variables::default();
        let mut path = own_path();
        if path.is_empty() {
            path = DEFAULT_PATH.split(':').map(str::to_owned).collect();
        }
        let directory = self.environment_of(container.image.as_deref().unwrap_or_default());
        if let Some(directory) = &directory {
            path.insert(0, directory.join("bin").display().to_string());
        }
        variables.set("PATH", path.join(":"));
        for (name, value) in directory.map(|directory| brought_by(&directory)).unwrap_or_default() {
            variables.set(&name, value);
        }
        variables.set("HOSTNAME", pod::hostname(pod));
        if let Ok(language) = std::env::var("LANG") {
            variables.set("LANG", language);
        }
        if self.serves_api {
            for (name, value) in services::api_variables() {
                variables.set(name, value);
            }
        }
        let devices = self.devices_of(pod, container);
        if !devices.is_empty() {
            variables.set("NVIDIA_VISIBLE_DEVICES", &devices);
            variables.set("CUDA_VISIBLE_DEVICES", devices);
        }
        if !self.mode.kind.isolates() {
            variables.set("TMPDIR", temporary.display().to_string());
        }
        self.preset(pod, user, &mut variables);
        variables
    }

    /// Returns the container's simulated GPUs as `CUDA_VISIBLE_DEVICES`; empty if it has none.
    fn devices_of(&self, pod: &Pod, container: &Container) -> String {
        let (Some(spec), Some(uid)) = (pod.spec.as_ref(), pod.metadata.uid.as_deref()) else {
            return String::new();
        };
        let node = spec.node_name.as_deref().unwrap_or_default();
        let numbers = lock(&self.devices).of(node, self.shape().gpus, uid, spec, &container.name);
        numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
    }
}

/// Returns the command of a container that names none, as an image's `ENTRYPOINT`: the lines of the local environment's
/// file `etc/entrypoint`, with `${DIR}` replaced by its own folder.
fn entry_of(directory: &Path) -> Vec<String> {
    use std::io::Read as _;
    let Ok(file) = std::fs::File::open(directory.join("etc/entrypoint")) else { return Vec::new() };
    let mut text = String::new();
    match file.take(MAX_ENVIRONMENT_BYTES).read_to_string(&mut text) {
        Ok(_) => {
            let own = directory.display().to_string();
            text.lines().filter(|line| !line.is_empty()).map(|line| line.replace("${DIR}", &own)).collect()
        }
        Err(error) => {
            tracing::warn!(directory = %directory.display(), %error, "cannot read the local environment's entrypoint");
            Vec::new()
        }
    }
}

/// Returns the absolute entries of the node's own `PATH`.
fn own_path() -> Vec<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').filter(|entry| entry.starts_with('/')).map(str::to_owned).collect()
}

/// Returns the variables of a local environment; empty if the file is missing or too large.
fn brought_by(directory: &Path) -> Vec<(String, String)> {
    use std::io::Read as _;
    let Ok(file) = std::fs::File::open(directory.join("etc/environment")) else { return Vec::new() };
    let mut text = String::new();
    match file.take(MAX_ENVIRONMENT_BYTES).read_to_string(&mut text) {
        Ok(_) => environment::of_local_environment(&text, &directory.display().to_string()),
        Err(error) => {
            tracing::warn!(directory = %directory.display(), %error, "cannot read the local environment's variables");
            Vec::new()
        }
    }
}
