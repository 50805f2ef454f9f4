//! The options with which the local cluster was started last, so that it comes back as it was.

use std::path::PathBuf;

use semantics::local_images::LocalImages;
use serde::{Deserialize, Serialize};

use super::home::Home;
use super::state::{State, write_private};
use crate::arguments::{ClusterOptions, Mode};
use crate::failure::Failure;

/// What is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    images: Vec<(String, PathBuf)>,
    nodes: u32,
    gpus: u32,
    mode: Mode,
}

impl Remembered {
    fn of(options: &ClusterOptions) -> Remembered {
        let ClusterOptions { images, nodes, gpus, mode, .. } = options.clone();
        Remembered { images, nodes, gpus, mode }
    }

    /// What is started without any of these options.
    fn plain() -> Remembered {
        Remembered { images: Vec::new(), nodes: 1, gpus: 0, mode: Mode::Auto }
    }

    /// The options as one would type them.
    fn typed(&self) -> String {
        let mut words: Vec<String> = self
            .images
            .iter()
            .map(|(name, directory)| format!("--image {name}={}", directory.display()))
            .collect();
        words.extend((self.nodes != 1).then(|| format!("--nodes {}", self.nodes)));
        words.extend((self.gpus != 0).then(|| format!("--gpus {}", self.gpus)));
        words.extend((self.mode != Mode::Auto).then(|| format!("--mode {:?}", self.mode).to_lowercase()));
        words.join(" ")
    }
}

/// Completes options by those of the last start; also returns what was added as one would type it. If any option is given,
/// only the images are added, because jobs would otherwise run in other environments. A directory that no longer exists
/// is left out.
pub fn complete(home: &Home, options: &ClusterOptions) -> (ClusterOptions, Option<String>) {
    let Some(mut last) = read(home) else { return (options.clone(), None) };
    last.images.retain(|(_, directory)| directory.is_dir());
    let given = Remembered::of(options);
    if given != Remembered::plain() {
        if !given.images.is_empty() || last.images.is_empty() {
            return (options.clone(), None);
        }
        let images = last.images;
        let added = Remembered { images: images.clone(), ..Remembered::plain() }.typed();
        return (ClusterOptions { images, ..options.clone() }, Some(added));
    }
    if last == given {
        return (options.clone(), None);
    }
    let typed = last.typed();
    let Remembered { images, nodes, gpus, mode } = last;
    (ClusterOptions { images, nodes, gpus, mode, ..options.clone() }, Some(typed))
}

/// Remembers the options of a start.
///
/// # Errors
/// If the file cannot be written.
pub fn remember(home: &Home, options: &ClusterOptions) -> Result<(), Failure> {
    write(home, &Remembered::of(options))
}

/// Returns the images that are remembered.
pub fn images(home: &Home) -> LocalImages {
    read(home).map(|last| last.images.into_iter().collect()).unwrap_or_default()
}

/// Remembers these images instead of those of the last start. `state` is that of the running cluster, whose nodes are not
/// always remembered: `odh local run` may have started it.
///
/// # Errors
/// If the file cannot be written.
pub fn remember_images(home: &Home, state: Option<&State>, images: &LocalImages) -> Result<(), Failure> {
    let mut options = read(home).unwrap_or_else(Remembered::plain);
    if let Some(state) = state {
        (options.nodes, options.gpus) = (state.nodes, state.gpus);
    }
    options.images = images.iter().map(|(name, directory)| (name.clone(), directory.clone())).collect();
    write(home, &options)
}

fn read(home: &Home) -> Option<Remembered> {
    serde_json::from_slice(&std::fs::read(home.options()).ok()?).ok()
}

fn write(home: &Home, options: &Remembered) -> Result<(), Failure> {
    write_private(&home.options(), &serde_json::to_vec_pretty(options).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_typed_as_they_were_given() {
        let remembered = Remembered {
            images: vec![("train:1".to_owned(), PathBuf::from("/venv"))],
            nodes: 4,
            gpus: 8,
            mode: Mode::Rootless,
        };
        assert_eq!(remembered.typed(), "--image train:1=/venv --nodes 4 --gpus 8 --mode rootless");
        assert_eq!(Remembered::plain().typed(), "");
        let text = serde_json::to_string(&remembered).unwrap();
        assert_eq!(serde_json::from_str::<Remembered>(&text).unwrap(), remembered);
    }
}
