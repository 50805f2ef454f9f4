//! Generates from the contract (`proto/`): the messages, the gRPC service, the adapters that connect each method to both
//! protocols, the OpenAPI document and the page that shows it. Also takes in the dashboard's files.

#![expect(clippy::print_stdout, reason = "cargo reads what a build script prints")]

mod adapters;
mod contract;
mod dashboard;
mod json_schema;
mod openapi;
mod page;

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use contract::Contract;

/// Set to build a release without the dashboard.
const WITHOUT_DASHBOARD: &str = "ODH_WITHOUT_DASHBOARD";

fn main() -> Result<(), Box<dyn Error>> {
    let repository = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..");
    let (root, dist) = (repository.join("proto"), repository.join("dashboard/dist"));
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed={}", root.display());
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed={WITHOUT_DASHBOARD}");
    let is_required = env::var("PROFILE")? == "release" && env::var_os(WITHOUT_DASHBOARD).is_none();
    dashboard::take_in(&dist, &out, is_required)?;
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_source_info(true).include_imports(true);
    compiler.open_file(root.join("training/v1/training.proto"))?;
    fs::write(out.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    let contract = Contract::read(&compiler.descriptor_pool())?;
    tonic_prost_build::configure()
        .build_transport(false)
        .btree_map(".")
        .message_attribute(
            ".",
            "#[derive(serde::Serialize, serde::Deserialize)] \
             #[serde(default, rename_all = \"camelCase\", deny_unknown_fields)]",
        )
        .field_attribute(".", "#[serde(skip_serializing_if = \"crate::json::is_absent\")]")
        .compile_fds(compiler.file_descriptor_set())?;
    fs::write(out.join("adapters.rs"), adapters::code(&contract))?;
    let document = openapi::document(&contract)?;
    let mut text = serde_json::to_string_pretty(&document)?;
    text.push('\n');
    fs::write(out.join("openapi.json"), text)?;
    fs::write(out.join("fields.txt"), contract.fields())?;
    fs::write(out.join("docs.html"), page::html(&contract, &document))?;
    Ok(())
}
