//! Variables that containers have unless they set them themselves, as if their image did. The program that starts the
//! cluster gives them, because what its pods run needs them.

use k8s_openapi::api::core::v1::Pod;

use crate::LocalNode;
use crate::environment::Variables;
use crate::pod;
use crate::sandbox::protocol::User;

/// A variable of containers.
#[derive(Debug, Clone)]
pub struct Preset {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: PresetValue,
    /// The containers that have it.
    pub scope: PresetScope,
}

/// The value of a variable.
#[derive(Debug, Clone)]
pub enum PresetValue {
    /// This text.
    Text(String),
    /// The pod's host name.
    Hostname,
    /// The path of a folder that the pods of a namespace share. A file in it that is named as a pod's host name is
    /// removed together with the pod.
    Registry,
}

/// The containers that have a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PresetScope {
    /// Those that run as root.
    Root,
    /// Those that are not isolated: they share the machine's host name, and their temporary folders differ.
    Plain,
}

impl LocalNode {
    /// Sets the variables of a container that runs as `user`.
    pub(crate) fn preset(&self, pod: &Pod, user: &User, variables: &mut Variables) {
        for preset in &self.presets {
            let applies = match preset.scope {
                PresetScope::Root => user.uid == 0,
                PresetScope::Plain => !self.mode.kind.isolates(),
            };
            if !applies {
                continue;
            }
            let value = match &preset.value {
                PresetValue::Text(text) => text.clone(),
                PresetValue::Hostname => pod::hostname(pod),
                PresetValue::Registry => self.registry(pod).display().to_string(),
            };
            variables.set(&preset.name, value);
        }
    }
}
