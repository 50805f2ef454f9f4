//! What the nodes of the embedded cluster write on their own objects and on their pods, and read there.

/// On a Node and on its pods: how pods are isolated, `rootless`, `root` or [`PLAIN_MODE`].
pub const ANNOTATION_NODE_MODE: &str = "training.opendatahub.io/mode";
/// The image by whose name a job asks for the machine's own programs.
pub const IMAGE_OF_THE_MACHINE: &str = "local";
/// The value of [`ANNOTATION_NODE_MODE`] of a node that isolates nothing.
pub const PLAIN_MODE: &str = "plain";
/// On a Node: [`POWER_OFF`] cuts its power; any other value, or none, restores it.
pub const ANNOTATION_NODE_POWER: &str = "training.opendatahub.io/power";
/// The value of [`ANNOTATION_NODE_POWER`] of a node without power.
pub const POWER_OFF: &str = "off";
/// On a Node that has GPUs: [`GPUS_SIMULATED`].
pub const ANNOTATION_NODE_GPUS: &str = "training.opendatahub.io/gpus";
/// The value of [`ANNOTATION_NODE_GPUS`] if the GPUs have no devices.
pub const GPUS_SIMULATED: &str = "simulated";
/// On a Node: its rack; a zone holds whole racks.
pub const LABEL_NODE_RACK: &str = "training.opendatahub.io/rack";
