//! What a pass allocates for each Worker. An operator with many jobs plans all the time, mostly to find that nothing is
//! to be done, so a pass over a job that runs must cost little.

use std::fs;
use std::path::Path;

use allocation_counter::{AllocationInfo, measure};
use plan::Applied;

use crate::scene::{Scene, seen, settings};

/// The most allocations of a pass for each Worker, and the most bytes. They do not depend on the machine. If a change
/// needs more, raise them in its commit and say why.
const MOST_ALLOCATIONS: u64 = 11;
const MOST_BYTES: u64 = 850;

/// Counts what planning and reporting allocate for the golden scene `running`, with so many Workers.
fn pass(workers: usize) -> AllocationInfo {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/running/input.yaml");
    let text = fs::read_to_string(path).unwrap().replace("replicas: 2", &format!("replicas: {workers}"));
    let (start, worker) = text.trim_end().rsplit_once('\n').unwrap();
    let more: String = (2..workers)
        .map(|index| format!("\n{}", worker.replace("index: 1,", &format!("index: {index},"))))
        .collect();
    let scene: Scene = serde_saphyr::from_str(&format!("{start}\n{worker}{more}\n")).unwrap();
    let job = plan::validate(&scene.job).unwrap();
    let (seen, settings) = (seen(&scene, &job), settings(&scene));
    measure(|| {
        let plan = plan::plan(&job, &seen, &settings, scene.now);
        let report = plan::report(&job, &seen, &plan, &Applied::default(), scene.now);
        std::hint::black_box((plan, report));
    })
}

#[test]
fn a_pass_over_a_running_job_allocates_little_for_each_worker() {
    let (few, many) = (pass(100), pass(200));
    let allocations = (many.count_total - few.count_total).div_ceil(100);
    let bytes = (many.bytes_total - few.bytes_total).div_ceil(100);
    assert!(
        allocations <= MOST_ALLOCATIONS && bytes <= MOST_BYTES,
        "{allocations} allocations of {bytes} bytes for each Worker; {few:?}, {many:?}"
    );
}
