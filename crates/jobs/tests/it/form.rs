//! What the dashboard's form begins with, and what it must know of commands and resources: written by the builder, so
//! that the form has no rule or default of its own.

use std::path::PathBuf;

use jobs::build::{self, Mount, Mpi, Part, Request, Variable};
use serde_json::{Map, Value, json};

const FILE: &str = "../../dashboard/src/create/builder.json";

fn options() -> Map<String, Value> {
    let all = [Mpi::OpenMpi, Mpi::Intel, Mpi::Mpich].into_iter();
    let entry = |mpi: Mpi| {
        let options =
            json!({ "tag": mpi.tag_option(), "forward": mpi.forward_option(), "count": mpi.count_option() });
        (mpi.name().to_owned(), options)
    };
    all.map(entry).collect()
}

/// A job as a person describes it in the form, and the job that the builder makes of the same values.
fn example(mpi: Mpi) -> Value {
    let request = Request {
        name: "hello".to_owned(),
        workers: 3,
        image: "quay.io/team/image:1.0".to_owned(),
        command: ["python", "/train.py", "--name", "two words"].map(str::to_owned).to_vec(),
        worker: Part {
            limits: [("nvidia.com/gpu", "2"), ("memory", "16Gi")]
                .map(|(name, amount)| (name.to_owned(), amount.to_owned()))
                .into(),
            ..Part::default()
        },
        env: vec![Variable::from(("EPOCHS".to_owned(), "3".to_owned()))],
        volumes: vec![Mount::claim("data", "/data"), Mount::claim("models", "/models")],
        mpi,
        ..Request::default()
    };
    serde_json::to_value(build::build(&request).unwrap()).unwrap()
}

#[test]
fn generated_beginning_of_the_form() {
    let form = json!({
        "starters": plan::STARTERS,
        "implementations": options(),
        "gpu": {
            "default": semantics::NVIDIA_GPU,
            "suffix": semantics::GPU_SUFFIX,
            "names": semantics::INTEL_GPUS,
        },
        "blanks": { "mpijob": build::manifest(&build::blank(jobs::Kind::MpiJob)) },
        "examples": { "OpenMPI": example(Mpi::OpenMpi), "MPICH": example(Mpi::Mpich) },
    });
    let text = serde_json::to_string_pretty(&form).unwrap() + "\n";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(FILE);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "run `cargo xtask gen`");
}
