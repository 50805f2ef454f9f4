//! Parses templates and paths. Bounded in nesting, and linear in the text but for nested brackets.

use serde_json::Value;

/// The most ranges and filters within each other.
const MAX_DEPTH: usize = 32;

#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text outside braces.
    Text(Value),
    /// The content of braces.
    Action(Vec<Node>),
    /// The parts up to `{end}`, evaluated for each value that the action finds.
    Range(Vec<Node>, Vec<Part>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Literal(Value),
    Field(String),
    Wildcard,
    Recursive,
    Slice(Slice),
    Union(Vec<Vec<Node>>),
    Filter(Box<Filter>),
}

/// `[from:to:step]`, or an index, which has no `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    pub from: Option<i64>,
    pub to: To,
    pub step: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum To {
    /// `[3]`
    One,
    /// `[3:]`
    End,
    /// `[3:7]`
    Before(i64),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    pub left: Vec<Node>,
    /// The comparison; without one, the filter tests whether the left side finds anything.
    pub compared: Option<(Operator, Vec<Node>)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Parses a text from the front.
pub struct Reader<'t> {
    rest: &'t str,
    /// The number of ranges and filters around this text.
    depth: usize,
}

/// The content of a pair of braces.
enum Braces {
    Range(Vec<Node>),
    End,
    Nodes(Vec<Node>),
}

impl<'t> Reader<'t> {
    /// Reads a template.
    pub fn of(text: &'t str) -> Reader<'t> {
        Reader { rest: text, depth: 0 }
    }

    /// Parses parts up to the end, or up to the `{end}` that closes the surrounding range, which the caller consumes.
    pub fn parts(&mut self) -> Result<Vec<Part>, String> {
        if self.depth > MAX_DEPTH {
            return Err(format!("ranges and filters are nested more than {MAX_DEPTH} levels deep"));
        }
        let mut parts = Vec::new();
        while !self.rest.is_empty() {
            let Some(at) = self.rest.find('{') else {
                parts.push(Part::Text(std::mem::take(&mut self.rest).into()));
                break;
            };
            if at > 0 {
                parts.push(Part::Text(self.take(at).into()));
            }
            let before = self.rest;
            self.take(1);
            match self.braces()? {
                Braces::Nodes(nodes) => parts.push(Part::Action(nodes)),
                Braces::Range(over) => {
                    self.depth += 1;
                    let body = self.parts()?;
                    self.depth -= 1;
                    // The body ends at its {end} or at the end of the template, which kubectl accepts as well.
                    if !self.rest.is_empty() {
                        self.take(1);
                        self.braces()?;
                    }
                    parts.push(Part::Range(over, body));
                }
                Braces::End => {
                    if self.depth == 0 {
                        return Err("{end} without {range}".to_owned());
                    }
                    self.rest = before;
                    return Ok(parts);
                }
            }
        }
        Ok(parts)
    }

    /// Parses what is between `{` and `}`.
    fn braces(&mut self) -> Result<Braces, String> {
        let word = self.rest.trim_start();
        for (keyword, range) in [("range", true), ("end", false)] {
            let Some(after) = word.strip_prefix(keyword) else { continue };
            if after.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
                continue;
            }
            self.rest = after;
            let nodes = self.nodes(Some('}'))?;
            return match (range, nodes.is_empty()) {
                (true, _) => Ok(Braces::Range(nodes)),
                (false, true) => Ok(Braces::End),
                (false, false) => Err("nothing may follow end".to_owned()),
            };
        }
        Ok(Braces::Nodes(self.nodes(Some('}'))?))
    }

    /// Parses the steps of a path up to `end`, which is consumed.
    fn nodes(&mut self, end: Option<char>) -> Result<Vec<Node>, String> {
        let mut nodes = Vec::new();
        loop {
            let Some(next) = self.rest.chars().next() else {
                return if end.is_some() { Err("a brace is not closed".to_owned()) } else { Ok(nodes) };
            };
            match next {
                _ if Some(next) == end => {
                    self.take(next.len_utf8());
                    return Ok(nodes);
                }
                ' ' | '\t' | '@' | '$' => {
                    self.take(1);
                }
                '"' | '\'' => nodes.push(Node::Literal(Value::from(self.quoted()?))),
                '[' => nodes.push(self.brackets()?),
                '.' if self.rest.starts_with("..") => {
                    if nodes.last() == Some(&Node::Recursive) {
                        return Err("two recursive descents follow each other".to_owned());
                    }
                    self.take(2);
                    nodes.push(Node::Recursive);
                    if self.rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '*') {
                        nodes.push(self.field()?);
                    }
                }
                '.' => {
                    self.take(1);
                    // `.[0]` and a lone `.` are the object itself.
                    if !(self.rest.is_empty() || self.rest.starts_with(['[', ' ', '}', '.'])) {
                        nodes.push(self.field()?);
                    }
                }
                '+' | '-' | '0'..='9' => nodes.push(self.number()?),
                _ if next.is_alphanumeric() || next == '_' => {
                    let length = self
                        .rest
                        .find(|c: char| !(c.is_alphanumeric() || c == '_'))
                        .unwrap_or(self.rest.len());
                    match self.take(length) {
                        "true" => nodes.push(Node::Literal(Value::Bool(true))),
                        "false" => nodes.push(Node::Literal(Value::Bool(false))),
                        word => return Err(format!("unrecognized identifier {word}")),
                    }
                }
                _ => return Err(format!("unrecognized character {next:?}")),
            }
        }
    }

    /// Parses a name after a dot; a backslash makes the next character part of the name.
    fn field(&mut self) -> Result<Node, String> {
        let mut name = String::new();
        let mut length = self.rest.len();
        let mut letters = self.rest.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => name.extend(letters.next().map(|(_, letter)| letter)),
                '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}' | ' ' | '\t' | '\n' | '\r' => {
                    length = at;
                    break;
                }
                _ => name.push(letter),
            }
        }
        self.take(length);
        match name.as_str() {
            "" => Err("a name is missing after a dot".to_owned()),
            "*" => Ok(Node::Wildcard),
            _ => Ok(Node::Field(name)),
        }
    }

    fn number(&mut self) -> Result<Node, String> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let digits = self.rest.get(sign..).unwrap_or_default();
        let length = digits.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(digits.len());
        let text = self.take(sign + length);
        let bare = text.strip_prefix('+').unwrap_or(text);
        let value = bare.parse::<i64>().map(Value::from).or_else(|_| bare.parse::<f64>().map(Value::from));
        value.map(Node::Literal).map_err(|_| format!("{text} is not a number"))
    }

    /// Parses a quoted string with Go's escapes.
    fn quoted(&mut self) -> Result<String, String> {
        let mut letters = self.rest.char_indices();
        let quote = letters.next().map(|(_, quote)| quote);
        let mut text = String::new();
        while let Some((at, letter)) = letters.next() {
            if Some(letter) == quote {
                self.take(at + letter.len_utf8());
                return Ok(text);
            }
            match letter {
                '\\' => match letters.next().map(|(_, letter)| letter) {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some(other @ ('\\' | '"' | '\'' | '/')) => text.push(other),
                    Some('u') => {
                        let digits: String = letters.by_ref().take(4).map(|(_, digit)| digit).collect();
                        let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                        text.push(code.ok_or("\\u requires four hexadecimal digits")?);
                    }
                    _ => return Err("unknown escape in quotes".to_owned()),
                },
                letter => text.push(letter),
            }
        }
        Err("a quote is not closed".to_owned())
    }

    /// Parses `[…]`: a filter, a union, a name, a wildcard, an index or a slice.
    fn brackets(&mut self) -> Result<Node, String> {
        let length = closing(self.rest).ok_or("a bracket is not closed")?;
        let inside = self.take(length + 1);
        let inside = inside.get(1..length).unwrap_or_default().trim();
        if let Some(filter) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
            return self.filter(filter.trim()).map(|filter| Node::Filter(Box::new(filter)));
        }
        let members = split_outside_quotes(inside, ',');
        if members.len() > 1 {
            let member = |text: &str| single(text.trim()).map(|node| vec![node]);
            return members.into_iter().map(member).collect::<Result<_, _>>().map(Node::Union);
        }
        single(inside)
    }

    /// Parses the content of `[?(…)]`.
    fn filter(&self, text: &str) -> Result<Filter, String> {
        let depth = self.depth + 1;
        if depth > MAX_DEPTH {
            return Err(format!("ranges and filters are nested more than {MAX_DEPTH} levels deep"));
        }
        let whole = |text: &str| Reader { rest: text.trim(), depth }.nodes(None);
        let mut quote = None;
        let operator = text.char_indices().find(|(_, letter)| {
            match quote {
                Some(open) if *letter == open => quote = None,
                None if matches!(letter, '\'' | '"') => quote = Some(*letter),
                _ => {}
            }
            quote.is_none() && matches!(letter, '!' | '<' | '>' | '=')
        });
        let Some((at, _)) = operator else {
            return Ok(Filter { left: whole(text)?, compared: None });
        };
        let (left, rest) = text.split_at(at);
        let length = rest.find(|c: char| !matches!(c, '!' | '<' | '>' | '=')).unwrap_or(rest.len());
        let (sign, right) = rest.split_at(length);
        let operator = match sign {
            "==" | "=" => Operator::Equal,
            "!=" => Operator::NotEqual,
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            ">" => Operator::Greater,
            ">=" => Operator::GreaterOrEqual,
            _ => return Err(format!("unrecognized filter operator {sign}")),
        };
        Ok(Filter { left: whole(left)?, compared: Some((operator, whole(right)?)) })
    }

    fn take(&mut self, length: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        taken
    }
}

/// Where the bracket at the start of the text closes, ignoring quotes and inner brackets.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote, mut escaped) = (0_usize, None, false);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            _ if escaped => escaped = false,
            (_, '\\') => escaped = true,
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            (None, _) => {}
        }
    }
    None
}

fn split_outside_quotes(text: &str, separator: char) -> Vec<&str> {
    let mut quote = None;
    text.split(|letter: char| {
        match quote {
            Some(open) if letter == open => quote = None,
            None if matches!(letter, '\'' | '"') => quote = Some(letter),
            _ => {}
        }
        quote.is_none() && letter == separator
    })
    .collect()
}

/// Parses one member of brackets.
fn single(text: &str) -> Result<Node, String> {
    if text == "*" {
        return Ok(Node::Wildcard);
    }
    let quote = text.chars().next().filter(|letter| matches!(letter, '\'' | '"'));
    if let Some(quote) = quote {
        let name = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        let name = name.ok_or_else(|| format!("the quotes of {text} do not match"))?;
        return Ok(Node::Field(name.replace("\\.", ".")));
    }
    let wrong = || format!("invalid array index {text}");
    let bound = |text: &str| match text.trim() {
        "" => Ok(None),
        text => text.parse::<i64>().map(Some).map_err(|_| wrong()),
    };
    let bounds = text.split(':').map(bound).collect::<Result<Vec<_>, _>>()?;
    let slice = match bounds[..] {
        [Some(at)] => Slice { from: Some(at), to: To::One, step: None },
        [from, to] => Slice { from, to: to.map_or(To::End, To::Before), step: None },
        [from, to, step] => Slice { from, to: to.map_or(To::End, To::Before), step },
        _ => return Err(wrong()),
    };
    Ok(Node::Slice(slice))
}
