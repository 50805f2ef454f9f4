//! The variables that MPI and the launch agent need in the containers of the local cluster.

use cluster::node::{Preset, PresetScope, PresetValue};

/// Returns the variables of containers, as if their image set them.
pub fn presets() -> Vec<Preset> {
    let preset =
        |scope: PresetScope, name: &str, value: PresetValue| Preset { name: name.to_owned(), value, scope };
    let text =
        |scope: PresetScope, name: &str, text: &str| preset(scope, name, PresetValue::Text(text.to_owned()));
    let (root, plain) = (PresetScope::Root, PresetScope::Plain);
    vec![
        // An image made for root would set these.
        text(root, "OMPI_ALLOW_RUN_AS_ROOT", "1"),
        text(root, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        // Daemons of pods in plain mode share the machine's name. Open MPI 5 takes some of them for one node's, and not
        // the same ones on each rank. In its hierarchical collectives the ranks then wait for each other forever.
        text(plain, "OMPI_MCA_coll", "^han"),
        preset(plain, "ODH_LAUNCH_REGISTRY", PresetValue::Registry),
        preset(plain, "ODH_POD_NAME", PresetValue::Hostname),
        // Ranks of two pods have the same host name there, so Open MPI would use shared memory between them, but its
        // files are in two different folders. It must use the network between all ranks.
        text(plain, "OMPI_MCA_pml", "ob1"),
        text(plain, "OMPI_MCA_btl", "tcp,self"),
    ]
}
