//! Turns the definitions of `deploy/crd` into JSON. To derive them again in every program takes a hundred times as
//! long as to read them.

use std::error::Error;
use std::path::Path;

const DEFINITIONS: [&str; 4] = [
    "kubeflow.org_mpijobs",
    "trainer/trainer.kubeflow.org_trainjobs",
    "trainer/trainer.kubeflow.org_trainingruntimes",
    "trainer/trainer.kubeflow.org_clustertrainingruntimes",
];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../deploy/crd");
    let out = std::env::var("OUT_DIR")?;
    for definition in DEFINITIONS {
        let path = folder.join(format!("{definition}.yaml"));
        println!("cargo::rerun-if-changed={}", path.display());
        let value: serde_json::Value = serde_saphyr::from_str(&std::fs::read_to_string(&path)?)?;
        let name = definition.trim_start_matches("trainer/");
        std::fs::write(Path::new(&out).join(format!("{name}.json")), serde_json::to_vec(&value)?)?;
    }
    Ok(())
}
