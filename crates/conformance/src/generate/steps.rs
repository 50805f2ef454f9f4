//! Generates the steps of a program.

mod reads;
mod trouble;
mod writes;

use serde_json::{Value, json};

use super::kinds::Kind;
use super::mutate::mutate;
use crate::program::{Body, Step};
use crate::random::Random;

const JSON: &str = "application/json";

/// A program under construction.
pub struct Maker {
    kind: &'static Kind,
    random: Random,
    /// The steps so far.
    pub steps: Vec<Step>,
    /// The initial content of each object, by short name.
    contents: Vec<(String, Value)>,
    /// Steps that created an object.
    created: Vec<u32>,
    /// Steps that listed with a limit.
    listed: Vec<u32>,
}

impl Maker {
    /// Starts a program for a kind.
    pub fn new(kind: &'static Kind, random: Random) -> Self {
        Self { kind, random, steps: vec![], contents: vec![], created: vec![], listed: vec![] }
    }

    /// Creates the first objects.
    pub fn create_first(&mut self, at_most: usize) {
        for name in ["a", "b", "c", "d"].iter().take(1 + self.random.below(at_most)) {
            self.create(name, false);
        }
    }

    /// Adds one step of any kind.
    pub fn walk(&mut self) {
        match self.random.below(100) {
            0..=5 => self.create_another(),
            6..=15 => self.get(),
            16..=27 => self.update(),
            28..=52 => self.patch(""),
            53..=58 => self.status(),
            59..=62 => self.subresource(),
            63..=72 => self.list(),
            73..=77 => self.watch(),
            78..=89 => self.delete(),
            90..=93 => self.delete_collection(),
            _ => self.apply(),
        }
    }

    /// Sends an object with a mistake, mostly as a dry run.
    pub fn mistake(&mut self) {
        let content = self.random.pick(&self.kind.objects).clone();
        let short = self.random.pick(&["a", "b", "c"]).to_string();
        let mut object = self.kind.object(&self.kind.name(&short), &content);
        for _ in 0..=self.random.below(2) {
            mutate(&mut object, &mut self.random);
        }
        let mut query = self.validation();
        if self.random.chance(60) {
            query.push(("dryRun".into(), "All".into()));
        } else {
            self.contents.push((short, content));
        }
        self.step("POST", self.kind.collection(), query, &[("content-type", JSON)], Body::Json(object));
    }

    /// Applies a configuration, or reads or changes the object.
    pub fn apply_or_look(&mut self) {
        match self.random.below(10) {
            0 => self.get(),
            1 => self.patch(""),
            2 => self.update(),
            3 if self.kind.status => self.status(),
            _ => self.apply(),
        }
    }

    /// Lists, watches, or changes an object in between.
    pub fn look_around(&mut self) {
        match self.random.below(10) {
            0..=4 => self.list(),
            5 | 6 => self.watch(),
            7 => self.patch(""),
            8 => self.delete(),
            _ => self.get(),
        }
    }

    fn step(
        &mut self,
        method: &str,
        path: String,
        query: Vec<(String, String)>,
        headers: &[(&str, &str)],
        body: Body,
    ) -> u32 {
        let id = u32::try_from(self.steps.len()).unwrap_or(u32::MAX);
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.steps.push(Step { id, method: method.into(), path, query, headers, body });
        id
    }

    fn create(&mut self, short: &str, generate: bool) {
        let content = self.random.pick(&self.kind.objects).clone();
        let name = self.kind.name(short);
        let mut object = self.kind.object(&name, &content);
        if generate {
            object["metadata"]["generateName"] = format!("{name}-").into();
            if self.random.chance(80) {
                crate::shrink::remove(&mut object, "/metadata/name");
            }
        } else if self.random.chance(15) {
            object["metadata"]["finalizers"] = json!(["example.com/hold"]);
        }
        self.contents.push((short.to_owned(), content));
        let id =
            self.step("POST", self.kind.collection(), vec![], &[("content-type", JSON)], Body::Json(object));
        self.created.push(id);
    }

    fn create_another(&mut self) {
        let generate = self.random.chance(30);
        let short = self.random.pick(&["a", "b", "e"]).to_string();
        self.create(&short, generate);
    }

    /// Picks an object's short name and its initial content.
    fn some(&mut self) -> (String, Value) {
        if self.contents.is_empty() || self.random.chance(4) {
            return ("nobody".into(), self.random.pick(&self.kind.objects).clone());
        }
        self.random.pick(&self.contents).clone()
    }

    fn path(&mut self) -> (String, Value) {
        let (short, content) = self.some();
        let name = self.kind.name(&short);
        (self.kind.path(&name), self.kind.object(&name, &content))
    }

    fn validation(&mut self) -> Vec<(String, String)> {
        match self.random.below(6) {
            0 | 1 => vec![("fieldValidation".into(), "Strict".into())],
            2 => vec![("fieldValidation".into(), "Ignore".into())],
            _ => vec![],
        }
    }

    fn write_options(&mut self) -> Vec<(String, String)> {
        let mut query = self.validation();
        if self.random.chance(12) {
            query.push(("dryRun".into(), "All".into()));
        }
        if self.random.chance(20) {
            query.push(("fieldManager".into(), "someone".into()));
        }
        query
    }
}

fn random_place(places: &[String], random: &mut Random) -> String {
    if places.is_empty() { "/spec".into() } else { random.pick(places).clone() }
}
