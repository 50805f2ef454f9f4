//! What the local cluster is like: the options that its last start or a later change gave it, so that it comes back as it
//! was. A running cluster reads them again on SIGUSR1 and adopts images, nodes and GPUs.

use semantics::local_images::LocalImages;
use serde::{Deserialize, Serialize};

use super::home::Home;
use super::state::{State, write_private};
use crate::arguments::{ClusterOptions, Mode, Switch};
use crate::failure::Failure;

/// What is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// The directories that image names are mapped to.
    pub images: LocalImages,
    /// The number of nodes.
    pub nodes: u32,
    /// The number of GPUs of each node.
    pub gpus: u32,
    /// How pods are isolated.
    pub mode: Mode,
    /// Whether webhooks may reach this machine.
    #[serde(default)]
    pub local_webhooks: bool,
}

impl Default for Remembered {
    /// What is started if nothing is remembered and no option is given.
    fn default() -> Self {
        Self { images: LocalImages::new(), nodes: 1, gpus: 0, mode: Mode::Auto, local_webhooks: false }
    }
}

impl Remembered {
    /// What is asked for, where the options that are not given are as remembered.
    pub fn with(self, given: &ClusterOptions) -> Self {
        let mut images = self.images;
        images.extend(given.images.iter().cloned());
        Self {
            images,
            nodes: given.nodes.unwrap_or(self.nodes),
            gpus: given.gpus.unwrap_or(self.gpus),
            mode: given.mode.unwrap_or(self.mode),
            local_webhooks: given.local_webhooks || self.local_webhooks,
        }
    }

    /// What a running cluster is like; what cannot change while it is up is as `last` has it.
    pub fn of(state: &State, last: &Self) -> Self {
        let mut images = state.images.clone();
        images.remove(api::LAUNCH_IMAGE);
        let Self { mode, local_webhooks, .. } = *last;
        Self { images, nodes: state.nodes, gpus: state.gpus, mode, local_webhooks }
    }

    /// The options that have these values where `given` does not say so already, as one would type them.
    fn typed_beyond(&self, given: &ClusterOptions) -> String {
        let plain = Self::default();
        let asked = |name: &String| given.images.iter().any(|(asked, _)| asked == name);
        let images = self.images.iter().filter(|(name, _)| !asked(name));
        let mut words: Vec<String> =
            images.map(|(name, directory)| format!("--image {name}={}", directory.display())).collect();
        let mut add = |is_given: bool, is_plain: bool, text: String| {
            words.extend((!is_given && !is_plain).then_some(text));
        };
        add(given.nodes.is_some(), self.nodes == plain.nodes, format!("--nodes {}", self.nodes));
        add(given.gpus.is_some(), self.gpus == plain.gpus, format!("--gpus {}", self.gpus));
        add(given.mode.is_some(), self.mode == plain.mode, format!("--mode {}", self.mode.word()));
        add(given.local_webhooks, !self.local_webhooks, "--local-webhooks".to_owned());
        words.join(" ")
    }
}

/// Completes options by those of the last start; also returns what was added as one would type it. A directory that no
/// longer exists is left out.
pub fn complete(home: &Home, given: &ClusterOptions) -> (ClusterOptions, Option<String>) {
    let mut last = read(home);
    last.images.retain(|_, directory| directory.is_dir());
    let whole = last.with(given);
    let added = whole.typed_beyond(given);
    let Remembered { images, nodes, gpus, mode, local_webhooks } = whole;
    let options = ClusterOptions {
        images: images.into_iter().collect(),
        nodes: Some(nodes),
        gpus: Some(gpus),
        mode: Some(mode),
        local_webhooks,
        ..given.clone()
    };
    (options, Some(added).filter(|added| !added.is_empty()))
}

/// Returns what is remembered, or the defaults.
pub fn read(home: &Home) -> Remembered {
    let read = || serde_json::from_slice(&std::fs::read(home.options()).ok()?).ok();
    read().unwrap_or_default()
}

/// Remembers this.
///
/// # Errors
/// If the file cannot be written.
pub fn write(home: &Home, options: &Remembered) -> Result<(), Failure> {
    write_private(&home.options(), &serde_json::to_vec_pretty(options).unwrap_or_default())
}

/// Options that a cluster keeps until it is stopped and of which its state has no field of its own.
pub fn kept(up: &ClusterOptions) -> Vec<String> {
    let mut flags = vec![
        format!("--node-grace={}ms", up.node_grace.as_millis()),
        format!("--dns-negative-ttl={}ms", up.dns_negative_ttl.as_millis()),
        format!("--audit={}", if up.audit == Switch::On { "on" } else { "off" }),
    ];
    if up.local_webhooks {
        flags.push("--local-webhooks".to_owned());
    }
    flags.extend(up.store_url_file.iter().map(|file| format!("--store-url-file={}", file.display())));
    flags
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::arguments::Up;
    use clap::{Args as _, FromArgMatches as _};

    fn given(words: &[&str]) -> ClusterOptions {
        let command = Up::augment_args(clap::Command::new("up"));
        let words = ["up"].iter().chain(words);
        Up::from_arg_matches(&command.get_matches_from(words)).unwrap().cluster
    }

    #[test]
    fn each_option_that_is_not_given_is_as_the_last_time() {
        let last = Remembered {
            images: [("train:1".to_owned(), PathBuf::from("/venv"))].into(),
            nodes: 4,
            gpus: 8,
            mode: Mode::Rootless,
            local_webhooks: true,
        };
        assert_eq!(last.clone().with(&given(&[])), last);
        assert_eq!(
            last.typed_beyond(&given(&[])),
            "--image train:1=/venv --nodes 4 --gpus 8 --mode rootless --local-webhooks"
        );
        let more = given(&["--gpus", "2", "--image", "train:1=/other", "--image", "x=/x"]);
        let whole = last.with(&more);
        assert_eq!((whole.nodes, whole.gpus), (4, 2));
        assert_eq!(whole.images["train:1"], PathBuf::from("/other"));
        assert_eq!(whole.typed_beyond(&more), "--nodes 4 --mode rootless --local-webhooks");
        let given_too = given(&["--nodes", "1", "--gpus", "0", "--mode", "auto", "--local-webhooks"]);
        assert_eq!(Remembered::default().with(&given_too).typed_beyond(&given_too), "");
        assert_eq!(Remembered::default().typed_beyond(&given(&[])), "");
        let text = serde_json::to_string(&whole).unwrap();
        assert_eq!(serde_json::from_str::<Remembered>(&text).unwrap(), whole);
        // A file of a version that did not remember webhooks.
        let old = r#"{ "images": {}, "nodes": 1, "gpus": 0, "mode": "auto" }"#;
        assert_eq!(serde_json::from_str::<Remembered>(old).unwrap(), Remembered::default());
    }
}
