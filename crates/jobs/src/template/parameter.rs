//! The parameters of a template: what a user of it may choose, and which fields of the job each choice sets. Pure.
//!
//! A parameter sets fields by the same paths as a [`Setting`]: `env.LR`, `worker.memory`, `workers`, `spec.…`. Values are
//! texts, as a form or a command line has them, and are checked by the parameter's type.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::build::is_quantity;
use crate::manifest::nearest;
use crate::setting::{self, Setting};
use crate::{Fault, Kind};

/// The maximum number of parameters of a template, of values that one allows, and of fields that one sets.
const MAX_PARAMETERS: usize = 50;
const MAX_ALLOWED: usize = 100;
const MAX_SETS: usize = 20;
/// The maximum length of a parameter's name, and of a value, in bytes.
const MAX_NAME_BYTES: usize = 63;
const MAX_VALUE_BYTES: usize = 4096;

/// The type of a parameter's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    /// Any text.
    #[default]
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// An amount of a resource, e.g. `16Gi` or `500m`.
    Quantity,
}

impl Type {
    fn accepts(self, text: &str) -> bool {
        match self {
            Type::String => true,
            Type::Integer => text.parse::<i64>().is_ok(),
            Type::Number => text.parse::<f64>().is_ok_and(f64::is_finite),
            Type::Boolean => text.parse::<bool>().is_ok(),
            Type::Quantity => is_quantity(text),
        }
    }

    fn description(self) -> (&'static str, &'static str) {
        match self {
            Type::String => ("a text", "use any text"),
            Type::Integer => ("a whole number", "use a number like 8"),
            Type::Number => ("a number", "use a number like 0.1"),
            Type::Boolean => ("neither true nor false", "use true or false"),
            Type::Quantity => ("a quantity", "use 16Gi, 4 or 500m"),
        }
    }
}

/// A parameter of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// The type of its values.
    #[serde(rename = "type", default)]
    pub type_: Type,
    /// The value if none is given; without one, a value is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// What it is for, one sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The values to choose from; any of the type if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// The fields that it sets, each by a path as in a [`Setting`].
    pub sets: Vec<String>,
}

fn fault(path: String, message: impl Into<String>, advice: impl Into<String>) -> Fault {
    Fault {
        source: String::new(),
        position: None,
        path,
        message: message.into(),
        advice: Some(advice.into()),
    }
}

impl Parameter {
    /// What is wrong with a value.
    fn fault_of(&self, path: &str, value: &str) -> Option<Fault> {
        if value.len() > MAX_VALUE_BYTES {
            let message = format!("has {} bytes", value.len());
            return Some(fault(path.to_owned(), message, format!("use at most {MAX_VALUE_BYTES} bytes")));
        }
        if !self.type_.accepts(value) {
            let (what, advice) = self.type_.description();
            let not = if self.type_ == Type::Boolean { "is" } else { "is not" };
            return Some(fault(path.to_owned(), format!("\"{value}\" {not} {what}"), advice));
        }
        if !self.allowed.is_empty() && !self.allowed.iter().any(|allowed| allowed == value) {
            let message = format!("\"{value}\" is not allowed");
            return Some(fault(path.to_owned(), message, format!("use {}", self.allowed.join(", "))));
        }
        None
    }

    fn settings(&self, value: &str) -> impl Iterator<Item = Setting> {
        self.sets.iter().map(move |path| Setting { path: path.clone(), value: value.to_owned() })
    }
}

/// Returns everything that is wrong with the definitions of a template's parameters.
pub(super) fn faults_of(parameters: &[Parameter], kind: Kind, manifest: &Value) -> Vec<Fault> {
    let mut found = Vec::new();
    if parameters.len() > MAX_PARAMETERS {
        let message = format!("there are {} parameters", parameters.len());
        return vec![fault("parameters".to_owned(), message, format!("use at most {MAX_PARAMETERS}"))];
    }
    let (mut names, mut tried) = (BTreeSet::new(), manifest.clone());
    for (index, parameter) in parameters.iter().enumerate() {
        let path = |field: &str| format!("parameters[{index}].{field}");
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let name = &parameter.name;
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic());
        if !starts_well || !name.chars().all(is_part) || name.len() > MAX_NAME_BYTES {
            found.push(fault(
                path("name"),
                format!("\"{name}\" is not a name"),
                "begin with a letter and use letters, digits, - and _, at most 63",
            ));
        } else if !names.insert(name) {
            found.push(fault(path("name"), format!("\"{name}\" is there twice"), "use each name once"));
        }
        if parameter.allowed.len() > MAX_ALLOWED {
            found.push(fault(path("allowed"), "has too many values", format!("use at most {MAX_ALLOWED}")));
        }
        if parameter.sets.is_empty() {
            found.push(fault(path("sets"), "is empty", "name the fields that it sets, e.g. env.LR"));
        }
        if parameter.sets.len() > MAX_SETS {
            found.push(fault(path("sets"), "has too many fields", format!("use at most {MAX_SETS}")));
        }
        let free = Parameter { allowed: Vec::new(), ..parameter.clone() };
        let allowed = parameter.allowed.iter().take(MAX_ALLOWED).enumerate();
        found
            .extend(allowed.filter_map(|(at, value)| free.fault_of(&path(&format!("allowed[{at}]")), value)));
        found
            .extend(parameter.default.iter().filter_map(|value| parameter.fault_of(&path("default"), value)));
        // Whether the fields can be set shows with any value of the parameter.
        for value in parameter.default.iter().chain(&parameter.allowed).take(1) {
            let settings: Vec<Setting> = parameter.settings(value).take(MAX_SETS).collect();
            let faults = setting::apply(&mut tried, kind, &settings);
            found.extend(faults.into_iter().map(|wrong| Fault { path: path("sets"), ..wrong }));
        }
    }
    found
}

/// Returns the settings that these values make, and every fault of the values.
pub(super) fn settings(
    parameters: &[Parameter],
    values: &BTreeMap<String, String>,
) -> (Vec<Setting>, Vec<Fault>) {
    let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    let unknown = values.keys().filter(|name| !names.contains(&name.as_str())).map(|name| {
        let advice = match nearest(name, &names) {
            Some(meant) => format!("did you mean \"{meant}\"?"),
            None if names.is_empty() => "this template has no parameters".to_owned(),
            None => format!("the parameters are: {}", names.join(", ")),
        };
        fault(name.clone(), "is not a parameter of this template", advice)
    });
    let mut faults: Vec<Fault> = unknown.collect();
    let mut settings = Vec::new();
    for parameter in parameters {
        match values.get(&parameter.name).or(parameter.default.as_ref()) {
            None => faults.push(fault(
                parameter.name.clone(),
                "is required",
                match parameter.description.as_str() {
                    "" => format!(
                        "give {}={}",
                        parameter.name,
                        parameter.allowed.first().map_or("…", String::as_str)
                    ),
                    description => description.to_owned(),
                },
            )),
            Some(value) => match parameter.fault_of(&parameter.name, value) {
                Some(wrong) => faults.push(wrong),
                None => settings.extend(parameter.settings(value)),
            },
        }
    }
    (settings, faults)
}
