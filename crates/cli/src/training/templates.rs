//! `templates`: manifests kept in the cluster, from which jobs are created.

use std::path::Path;

use jobs::template::{self, Parameter, SHARED, Saving, Template, Using};

use super::create::{Created, created};
use super::several;
use crate::arguments::{Global, Making, Output, TemplateUse, TemplateVerb};
use crate::connect::{Connection, connect};
use crate::console::Console;
use crate::failure::Failure;
use crate::{object, table};

/// `odh training templates …`
pub async fn run(console: &Console, global: &Global, verb: &TemplateVerb) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let client = &connection.client;
    let place = |shared: bool| if shared { SHARED } else { connection.namespace.as_str() };
    match verb {
        TemplateVerb::Save { target, template_name, description, parameters, shared, output } => {
            let (kind, job_name) = several::one(&connection, target).await?;
            let name = template_name.as_ref().unwrap_or(&job_name).clone();
            let parameters = parameters.as_deref().map(read_parameters).transpose()?;
            let saving = Saving { name, description: description.clone(), parameters };
            let job = jobs::list::get(client, kind, &connection.namespace, &job_name).await?;
            let kept = template::save(client, &job, place(*shared), &saving).await?;
            if kept.hides_shared {
                let name = &kept.name;
                console.warn(&format!("This hides the shared template {name}; use that as shared/{name}"));
            }
            print(console, &[kept], *output, " saved")?;
        }
        TemplateVerb::List { output } => {
            let (places, _) = template::place_of(&connection.namespace, "");
            let found = template::templates(client, &places).await?;
            if found.is_empty() && !output.shows_objects() {
                console.note(
                    "There are no templates. Save a job as a template: odh training templates save NAME",
                );
            } else {
                list(console, &found, *output)?;
            }
        }
        TemplateVerb::Show { name, version, output } => {
            let (places, name) = template::place_of(&connection.namespace, name);
            let found = template::template(client, &places, name, *version).await?;
            let output = if output.shows_objects() { *output } else { Output::Yaml };
            console.document(&object::text(&found.manifest, output)?)?;
        }
        TemplateVerb::Use(asked) => return make(console, &connection, asked).await,
        TemplateVerb::Delete { name, shared } => {
            template::delete(client, place(*shared), name).await?;
            console.data(&format!("template/{name} deleted\n"))?;
        }
    }
    Ok(0)
}

async fn make(console: &Console, connection: &Connection, asked: &TemplateUse) -> Result<u8, Failure> {
    let (client, namespace) = (&connection.client, &connection.namespace);
    let (places, name) = template::place_of(namespace, &asked.template);
    let found = template::template(client, &places, name, asked.version).await?;
    let Making { settings, dry_run, ending, output } = &asked.making;
    let values = asked.parameters.iter().cloned().collect();
    let using = Using { name: asked.name.clone(), values, settings: settings.clone() };
    let job = template::use_template(client, &found, namespace, &using, *dry_run).await?;
    let how = Created { output: *output, ending, dry_run: *dry_run };
    created(console, connection, &how, &[job]).await
}

/// Reads the definitions of parameters, a list in YAML or JSON.
fn read_parameters(file: &Path) -> Result<Vec<Parameter>, Failure> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file)
        .map_err(|source| Failure::from(jobs::Error::Read { name: name.clone(), source }))?;
    serde_saphyr::from_str(&text).map_err(|error| {
        Failure::usage(
            format!("{name} has no list of parameters: {error}"),
            "write a list of name, type, default, description, allowed and sets",
        )
    })
}

fn print(console: &Console, found: &[Template], output: Output, what: &str) -> Result<(), Failure> {
    if output.shows_objects() {
        return list(console, found, output);
    }
    let lines: String = found.iter().map(|template| format!("template/{}{what}\n", template.name)).collect();
    console.data(&lines)
}

fn list(console: &Console, found: &[Template], output: Output) -> Result<(), Failure> {
    if output.shows_objects() {
        let value = serde_json::json!({ "items": found });
        return console.document(&object::text(&value, output)?);
    }
    if output == Output::Name {
        return print(console, found, output, "");
    }
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|template| {
            let shared = match (template.namespace == SHARED, template.hides_shared) {
                (true, _) => "yes",
                (false, true) => "no, hides a shared one",
                (false, false) => "no",
            };
            vec![
                template.name.clone(),
                template.kind.name().to_owned(),
                shared.to_owned(),
                template.description.clone(),
            ]
        })
        .collect();
    console.data(&table::table(&["NAME", "KIND", "SHARED", "DESCRIPTION"], &rows))
}
