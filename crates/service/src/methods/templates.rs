//! Templates: manifests that are kept in the cluster, with parameters and versions. Kubernetes' rules for ConfigMaps
//! are theirs.

use std::sync::Arc;

use jobs::mistyped::{Mistyped, typed};
use jobs::runtime;
use jobs::setting::Setting;
use jobs::submit::{Checked, Draft};
use jobs::template::{self, Parameter, Place, SHARED, Saving, Type, Using};
use jobs::{Error, Kind};
use prost::Message as _;

use super::history::{not_a_page, page};
use super::source::{self, yaml};
use crate::body;
use crate::call::proper;
use crate::contract::{
    DeleteTemplateRequest, DeleteTemplateResponse, FromTemplate, GetTemplateRequest, JobSpec,
    ListTemplatesRequest, ListTemplatesResponse, SaveTemplateRequest, Template, TemplateParameter,
};
use crate::filter::kind;
use crate::identity::Caller;
use crate::problem::Problem;
use crate::row::count;
use crate::service::Service;

/// The size of a page of templates if none is given, and the largest.
const PAGE: u32 = 100;
const MAX_PAGE: u32 = 200;
/// A page with this many bytes ends.
const PAGE_BYTES: usize = 1 << 20;
/// The most settings of a job from a template.
const MOST_SETTINGS: usize = 100;

/// Lists the templates of a namespace, and the shared ones.
pub async fn list_templates(
    _service: Arc<Service>,
    caller: Arc<Caller>,
    request: ListTemplatesRequest,
) -> Result<ListTemplatesResponse, Problem> {
    let ListTemplatesRequest { namespace, limit, r#continue: after } = &request;
    let limit = page(*limit, PAGE, MAX_PAGE)?;
    let after: Option<Place> = match after.as_str() {
        "" => None,
        text => {
            let (name, namespace) = text.split_once('/').ok_or_else(not_a_page)?;
            Some((name.to_owned(), namespace.to_owned()))
        }
    };
    let known = template::names(&caller.client, &places(namespace)).await?;
    let mut listed = ListTemplatesResponse::default();
    let begin = after.map_or(0, |after| known.partition_point(|place| *place <= after));
    let (mut bytes, mut last): (usize, Option<&Place>) = (0, None);
    for place in known.iter().skip(begin) {
        if listed.templates.len() >= limit as usize || bytes >= PAGE_BYTES {
            listed.r#continue =
                last.map(|(name, namespace)| format!("{name}/{namespace}")).unwrap_or_default();
            break;
        }
        let (name, namespace) = place;
        // One after the other, so that one at a time is in memory.
        if let Some(stored) = template::stored(&caller.client, namespace, name, &known).await? {
            let size = stored.size_of_summary();
            let summary = body::parse(size, move || Ok(stored.summary().map(message))).await?;
            bytes += summary.as_ref().map_or(0, Template::encoded_len);
            listed.templates.extend(summary);
        }
        last = Some(place);
    }
    Ok(listed)
}

/// Gets a template of a namespace, or a shared one.
pub async fn get_template(
    _service: Arc<Service>,
    caller: Arc<Caller>,
    request: GetTemplateRequest,
) -> Result<Template, Problem> {
    let version = version(request.version)?;
    let places = places(&request.namespace);
    let found = template::find(&caller.client, &places, &request.name).await?;
    let size = found.size();
    body::parse(size, move || Ok(message(found.read(version)?))).await
}

/// Saves a template, as its next version if there is one of that name.
pub async fn save_template(
    _service: Arc<Service>,
    caller: Arc<Caller>,
    request: SaveTemplateRequest,
) -> Result<Template, Problem> {
    let draft = source::draft(&request.namespace, &request.manifest, None).await?;
    let job = typed(draft.object).map_err(|Mistyped { path, fault, .. }| {
        Problem::invalid("manifest", format!("{path} {fault}"), "send the manifest of a job")
    })?;
    let parameters: Result<Vec<Parameter>, Problem> =
        request.parameters.into_iter().enumerate().map(|(at, sent)| parameter(at, sent)).collect();
    let saving =
        Saving { name: request.name, description: Some(request.description), parameters: Some(parameters?) };
    Ok(message(template::save(&caller.client, &job, &request.namespace, &saving).await?))
}

/// Deletes a template with all its versions.
pub async fn delete_template(
    _service: Arc<Service>,
    caller: Arc<Caller>,
    request: DeleteTemplateRequest,
) -> Result<DeleteTemplateResponse, Problem> {
    template::delete(&caller.client, &request.namespace, &request.name).await?;
    Ok(DeleteTemplateResponse { namespace: request.namespace, name: request.name })
}

/// What is sent to be created: a manifest, a specification or a template, of which there must be one.
pub type Sent<'r> = (&'r str, Option<JobSpec>, Option<&'r FromTemplate>);

/// Reads what is to be created.
///
/// # Errors
/// 422 with every fault.
pub async fn draft(
    service: &Service,
    caller: &Caller,
    namespace: &str,
    sent: Sent<'_>,
) -> Result<Draft, Problem> {
    Ok(checked(service, caller, namespace, sent).await?.faultless()?)
}

/// Reads what is to be created, with its faults.
///
/// # Errors
/// If there is not one job.
pub async fn checked(
    service: &Service,
    caller: &Caller,
    namespace: &str,
    (manifest, spec, template): Sent<'_>,
) -> Result<Checked, Problem> {
    match template {
        Some(template) if manifest.is_empty() && spec.is_none() => {
            let read = self::manifest(caller, namespace, template).await?;
            source::checked(namespace, &read, None, Vec::new()).await
        }
        Some(_) => Err(source::one_of()),
        None => {
            // Another kind is a fault of the specification, which is reported with all others.
            let kind = spec.as_ref().and_then(|spec| kind(&spec.kind).ok());
            let enforced = match kind {
                Some(kind) => Box::pin(service.restricts(caller, kind, namespace)).await?,
                None => false,
            };
            let mut spec = spec.map(|spec| JobSpec { restricted: spec.restricted || enforced, ..spec });
            let mut known = Vec::new();
            let is_train = kind == Some(Kind::TrainJob);
            if let Some(spec) =
                spec.as_mut().filter(|spec| is_train && spec.mpi.is_empty() && !spec.runtime.is_empty())
            {
                // The runtime starts the ranks, with its own mpirun.
                let mpi = Box::pin(runtime::implementation(&caller.client, namespace, &spec.runtime));
                let mpi = match mpi.await {
                    Ok(mpi) => mpi,
                    Err(Error::Invalid { faults }) => {
                        known = faults;
                        None
                    }
                    // Who may not read runtimes may create jobs of them all the same.
                    Err(_) => None,
                };
                spec.mpi = mpi.map(|mpi| mpi.name().to_owned()).unwrap_or_default();
            }
            source::checked(namespace, manifest, spec, known).await
        }
    }
}

/// Returns the manifest of the job that a request makes from a template.
pub async fn manifest(caller: &Caller, namespace: &str, from: &FromTemplate) -> Result<String, Problem> {
    proper("template.name", &from.name)?;
    proper("template.jobName", &from.job_name)?;
    let own = if from.namespace.is_empty() { namespace } else { &from.namespace };
    proper("template.namespace", own)?;
    if from.set.len() > MOST_SETTINGS {
        let fault = format!("has {} settings", from.set.len());
        return Err(Problem::invalid("template.set", fault, format!("make at most {MOST_SETTINGS}")));
    }
    let settings: Result<Vec<Setting>, Problem> = from
        .set
        .iter()
        .enumerate()
        .map(|(at, text)| {
            let path = format!("template.set[{at}]");
            Setting::read(text).map_err(|fault| Problem::invalid(&path, fault, ""))
        })
        .collect();
    let (settings, version) = (settings?, version(from.version)?);
    let found = template::find(&caller.client, &places(own), &from.name).await?;
    let using = Using { name: from.job_name.clone(), values: from.parameters.clone(), settings };
    let size = found.size();
    body::parse(size, move || Ok(template::instantiate(&found.read(version)?, &using)?.to_string())).await
}

/// Where templates are looked for, the first first.
fn places(namespace: &str) -> Vec<&str> {
    template::place_of(namespace, "").0
}

/// Reads the number of a version; 0 is the newest.
fn version(number: i32) -> Result<Option<u32>, Problem> {
    let number = u32::try_from(number);
    let number = number.map_err(|_| Problem::invalid("version", "is negative", "send a version's number"))?;
    Ok(Some(number).filter(|number| *number > 0))
}

fn parameter(at: usize, sent: TemplateParameter) -> Result<Parameter, Problem> {
    let type_ = match sent.r#type.as_str() {
        "" | "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        "quantity" => Type::Quantity,
        other => {
            let shown: String = other.chars().take(40).collect();
            return Err(Problem::invalid(
                &format!("parameters[{at}].type"),
                format!("\"{}\" is not a type", shown.escape_debug()),
                "use string, integer, number, boolean or quantity",
            ));
        }
    };
    Ok(Parameter {
        name: sent.name,
        type_,
        default: sent.default,
        description: sent.description,
        allowed: sent.allowed,
        sets: sent.sets,
    })
}

fn message(template: template::Template) -> Template {
    let parameter = |parameter: Parameter| TemplateParameter {
        name: parameter.name,
        r#type: match parameter.type_ {
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
            Type::Quantity => "quantity",
        }
        .to_owned(),
        default: parameter.default,
        description: parameter.description,
        allowed: parameter.allowed,
        sets: parameter.sets,
    };
    Template {
        shared: template.namespace == SHARED,
        hides_shared: template.hides_shared,
        name: template.name,
        namespace: template.namespace,
        version: count(template.version),
        versions: template.versions.into_iter().map(count).collect(),
        kind: template.kind.name().to_owned(),
        description: template.description,
        parameters: template.parameters.into_iter().map(parameter).collect(),
        manifest: if template.manifest.is_null() { String::new() } else { yaml(&template.manifest) },
    }
}
