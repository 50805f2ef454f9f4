//! Writes the Rust code that connects each method of the contract to both protocols. A method that
//! `crate::methods` lacks does not compile, and a method that is in the contract is served over both.

use std::fmt::Write;

use crate::contract::{Contract, FieldKind, Message, Method};

/// Returns the code.
pub fn code(contract: &Contract) -> String {
    let mut code = String::new();
    table(&mut code, contract);
    for method in &contract.methods {
        if let Some(message) = contract.message(&method.input) {
            addressed(&mut code, message);
        }
    }
    grpc(&mut code, contract);
    rest(&mut code, contract);
    code
}

fn table(code: &mut String, contract: &Contract) {
    let _ = writeln!(code, "/// Every method of the contract.\npub static METHODS: &[Method] = &[");
    for method in &contract.methods {
        let fields = contract.message(&method.input).map(|message| &message.fields[..]).unwrap_or_default();
        let _ = writeln!(
            code,
            "Method {{ name: {:?}, verb: {:?}, path: {:?}, body: {}, streams: {}, access_verb: {:?}, access_resource: {:?}, example: {:?}, fields: &[",
            method.name,
            method.verb,
            method.path,
            method.body,
            method.streams,
            method.access_verb,
            method.access_resource,
            method.example
        );
        for field in fields {
            let kind = match (&field.kind, field.map) {
                (FieldKind::Text, false) => "Text",
                (FieldKind::Number, false) => "Number",
                (FieldKind::Flag, false) => "Flag",
                _ => "Object",
            };
            let _ = writeln!(
                code,
                "Field {{ name: {:?}, kind: FieldKind::{kind}, list: {}, required: {}, values: &{:?} }},",
                field.json, field.list, field.required, field.values
            );
        }
        let _ = writeln!(code, "] }},");
    }
    let _ = writeln!(code, "];");
}

fn addressed(code: &mut String, message: &Message) {
    let has = |name: &str| message.fields.iter().find(|field| field.name == name);
    let _ = writeln!(code, "impl Addressed for {} {{", message.name);
    if has("namespace").is_some() {
        let _ = writeln!(code, "fn namespace(&self) -> &str {{ &self.namespace }}");
    }
    match has("kind") {
        Some(field) if field.list => {
            let _ = writeln!(
                code,
                "fn kinds(&self) -> Vec<&str> {{ self.kind.iter().map(String::as_str).collect() }}"
            );
        }
        Some(_) => {
            let _ = writeln!(code, "fn kinds(&self) -> Vec<&str> {{ vec![self.kind.as_str()] }}");
        }
        None => {}
    }
    if has("name").is_some() {
        let _ = writeln!(code, "fn name(&self) -> Option<&str> {{ Some(&self.name) }}");
    }
    if has("dry_run").is_some() {
        let _ = writeln!(code, "fn is_dry_run(&self) -> bool {{ self.dry_run }}");
    }
    let _ = writeln!(code, "}}");
}

fn grpc(code: &mut String, contract: &Contract) {
    let _ = writeln!(code, "#[tonic::async_trait]\nimpl training_server::Training for grpc::Adapter {{");
    for (at, method) in contract.methods.iter().enumerate() {
        let Method { name, input, output, .. } = method;
        let function = snake(name);
        if method.streams {
            let _ = writeln!(
                code,
                "type {name}Stream = grpc::Items<{output}>;
                async fn {function}(&self, request: tonic::Request<{input}>) -> Result<tonic::Response<Self::{name}Stream>, tonic::Status> {{
                    grpc::stream(&self.0, &METHODS[{at}], request, methods::{function}).await
                }}"
            );
        } else {
            let _ = writeln!(
                code,
                "async fn {function}(&self, request: tonic::Request<{input}>) -> Result<tonic::Response<{output}>, tonic::Status> {{
                    grpc::unary(&self.0, &METHODS[{at}], request, methods::{function}).await
                }}"
            );
        }
    }
    let _ = writeln!(code, "}}");
}

fn rest(code: &mut String, contract: &Contract) {
    for (at, method) in contract.methods.iter().enumerate() {
        let function = snake(&method.name);
        let adapter = match (method.file, method.streams) {
            (true, _) => format!("file::<{}, _, _>", method.input),
            (_, true) => format!("stream::<{}, {}, _, _, _>", method.input, method.output),
            _ => format!("unary::<{}, {}, _, _, _>", method.input, method.output),
        };
        let _ = writeln!(
            code,
            "fn route_{function}(router: axum::Router, service: &Arc<Service>) -> axum::Router {{
                let shared = service.clone();
                router.route(METHODS[{at}].path, axum::routing::on(axum::routing::MethodFilter::{}, move |request: axum::extract::Request| {{
                    let shared = shared.clone();
                    async move {{ rest::{adapter}(&shared, &METHODS[{at}], request, methods::{function}).await }}
                }}))
            }}",
            method.verb
        );
    }
    let routes: Vec<String> =
        contract.methods.iter().map(|method| format!("route_{}", snake(&method.name))).collect();
    let _ = writeln!(
        code,
        "/// Returns the routes of all methods.
        pub fn routes(service: &Arc<Service>) -> axum::Router {{
            let routes: [fn(axum::Router, &Arc<Service>) -> axum::Router; {}] = [{}];
            routes.into_iter().fold(axum::Router::new(), |router, route| route(router, service))
        }}",
        routes.len(),
        routes.join(", ")
    );
}

/// `ListJobs` → `list_jobs`.
fn snake(name: &str) -> String {
    let mut text = String::new();
    for (at, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && at > 0 {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}
