//! The file with a user's own defaults: namespace, context, kubeconfig, format, colours, and short names for commands.
//!
//! `$ODH_CONFIG`, else `$XDG_CONFIG_HOME/odh/config.yaml`, else `~/.config/odh/config.yaml`. A flag overrides it; it
//! overrides the kubeconfig. It is read once, at program start, and is optional.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::ValueEnum;
use jobs::Class;
use serde_json::Value;

use crate::console::Color;
use crate::failure::Failure;
use crate::output::Output;

/// The maximum size of the file; a larger file is not a settings file.
const MAX_BYTES: u64 = 64 * 1024;
/// The keys of the file.
const KEYS: [&str; 6] = ["aliases", "color", "context", "kubeconfig", "namespace", "output"];

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The namespace, instead of the context's own.
    pub namespace: Option<String>,
    /// The context of the kubeconfig.
    pub context: Option<String>,
    /// The kubeconfig file; a relative path is relative to the folder of the settings.
    pub kubeconfig: Option<PathBuf>,
    /// The format of stdout.
    pub output: Option<Output>,
    /// When to use colours.
    pub color: Option<Color>,
    /// Short names for the beginning of a command line: `mine: training list -l owner=anna`.
    pub aliases: BTreeMap<String, Vec<String>>,
}

impl Settings {
    /// Replaces an alias that is the first word of a command line, after the program's name. An alias is replaced once, so
    /// that it cannot refer to itself, and a command of the program's own cannot be replaced.
    pub fn expanded(&self, mut words: Vec<OsString>) -> Vec<OsString> {
        let alias = words.get(1).and_then(|word| word.to_str()).and_then(|word| self.aliases.get(word));
        if let Some(alias) = alias {
            words.splice(1..=1, alias.iter().map(OsString::from));
        }
        words
    }
}

/// Returns the settings of this process; empty before [`load`].
pub fn current() -> &'static Settings {
    SETTINGS.get_or_init(Settings::default)
}

/// Returns the default format: that of the settings, or a table.
pub fn output() -> Output {
    current().output.unwrap_or(Output::Table)
}

/// Reads the file, if it exists, for the whole process.
///
/// # Errors
/// If the file exists but is invalid: silently ignoring a default would be worse.
pub fn load() -> Result<(), Failure> {
    let Some(path) = path() else { return Ok(()) };
    let failed = |what: String| {
        Failure::new(Class::Error, "Settings", format!("{}: {what}", path.display()))
            .with_hint("correct the file, or choose another with ODH_CONFIG")
    };
    let text = match std::fs::metadata(&path) {
        Ok(file) if file.len() > MAX_BYTES => {
            return Err(failed("is too large for a settings file".to_owned()));
        }
        Ok(_) => std::fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?,
        Err(_) if std::env::var_os("ODH_CONFIG").is_none_or(|path| path.is_empty()) => return Ok(()),
        Err(error) => return Err(failed(error.to_string())),
    };
    let settings = read(&text, path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
    // Set once, before anything reads it.
    let _ = SETTINGS.set(settings);
    Ok(())
}

/// Returns the path of the file, whether or not it exists.
pub fn path() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    set("ODH_CONFIG").or_else(|| {
        set("XDG_CONFIG_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| std::env::home_dir().map(|home| home.join(".config")))
            .map(|folder| folder.join("odh").join("config.yaml"))
    })
}

/// Parses the settings. Pure.
fn read(text: &str, folder: &Path) -> Result<Settings, String> {
    let value: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let mut settings = Settings::default();
    let Value::Object(fields) = value else {
        return match value {
            Value::Null => Ok(settings),
            _ => Err("must contain lines of NAME: VALUE".to_owned()),
        };
    };
    for (key, value) in fields {
        if key == "aliases" {
            settings.aliases = aliases(&value)?;
            continue;
        }
        let text = value.as_str().ok_or_else(|| format!("{key} must be a string"))?.to_owned();
        match key.as_str() {
            "namespace" => settings.namespace = Some(text),
            "context" => settings.context = Some(text),
            "kubeconfig" => settings.kubeconfig = Some(folder.join(text)),
            "output" => {
                settings.output = Some(Output::parse(&text).map_err(|error| format!("output: {error}"))?)
            }
            "color" => {
                let color = Color::from_str(&text, true)
                    .map_err(|_| "color: expected auto, always or never".to_owned())?;
                settings.color = Some(color);
            }
            _ => {
                let meant = jobs::manifest::nearest(&key, &KEYS);
                return Err(match meant {
                    Some(meant) => format!("{key} is unknown; did you mean {meant}?"),
                    None => format!("{key} is unknown; available settings: {}", KEYS.join(", ")),
                });
            }
        }
    }
    Ok(settings)
}

/// The commands that no alias may hide.
const COMMANDS: [&str; 6] = ["training", "t", "local", "version", "completion", "help"];

fn aliases(value: &Value) -> Result<BTreeMap<String, Vec<String>>, String> {
    let fields = value.as_object().ok_or("aliases must contain lines of NAME: COMMAND")?;
    let mut found = BTreeMap::new();
    for (name, command) in fields {
        if COMMANDS.contains(&name.as_str()) || name.starts_with('-') {
            return Err(format!("aliases: {name} is a command of odh itself"));
        }
        let line = command.as_str().ok_or_else(|| format!("aliases: {name} must be a string"))?;
        let words = shlex::split(line).filter(|words| !words.is_empty());
        found.insert(name.clone(), words.ok_or_else(|| format!("aliases: {name} is not a command line"))?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_stands_for_the_beginning_of_a_command() {
        let settings = read("aliases:\n  mine: training list -l 'owner=anna b'\n", Path::new("/")).unwrap();
        let words = |line: &[&str]| line.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            settings.expanded(words(&["odh", "mine", "-o", "wide"])),
            words(&["odh", "training", "list", "-l", "owner=anna b", "-o", "wide"])
        );
        assert_eq!(
            settings.expanded(words(&["odh", "training", "mine"])),
            words(&["odh", "training", "mine"])
        );
        for (text, error) in [
            ("aliases: {training: list}", "aliases: training is a command of odh itself"),
            ("aliases: {a: \"'\"}", "aliases: a is not a command line"),
            ("aliases: a", "aliases must contain lines of NAME: COMMAND"),
        ] {
            assert_eq!(read(text, Path::new("/")).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn settings_are_parsed() {
        let text = "namespace: team\noutput: wide\ncolor: never\nkubeconfig: ../kube/config\n";
        let settings = read(text, Path::new("/home/jane/.config/odh")).unwrap();
        assert_eq!(settings.namespace.as_deref(), Some("team"));
        assert_eq!(settings.output, Some(Output::Wide));
        assert_eq!(settings.color, Some(Color::Never));
        assert_eq!(settings.kubeconfig, Some(PathBuf::from("/home/jane/.config/odh/../kube/config")));
        assert_eq!(read("", Path::new("/")), Ok(Settings::default()));
        let table = [
            ("namspace: a", "namspace is unknown; did you mean namespace?"),
            ("output: jsn", "output: did you mean json?"),
            ("color: blue", "color: expected auto, always or never"),
            ("namespace: 7", "namespace must be a string"),
            ("- a", "must contain lines of NAME: VALUE"),
        ];
        for (text, error) in table {
            assert_eq!(read(text, Path::new("/")).unwrap_err(), error, "{text}");
        }
    }
}
