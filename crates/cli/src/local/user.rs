//! `odh local user`: users of the local cluster, each with an expiring token, a kubeconfig, and roles.
//!
//! The token's digest is stored in the cluster's users file, which the API server watches; the token itself only in
//! the kubeconfig. Roles are bound by RoleBindings with a label, by which they are found again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cluster::apiserver::auth;
use cluster::apiserver::auth::users::{self, Person};
use jiff::{SignedDuration, Timestamp};
use jobs::Class;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, Kubeconfig, NamedAuthInfo};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::home::{Home, make_private, unusable};
use super::state::{State, write_private};
use crate::arguments::{Global, Role, User};
use crate::connect::connect_local;
use crate::console::{Console, STRONG, styled};
use crate::failure::Failure;
use crate::{object, table};

/// The label of the bindings created here.
const LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "odh-local-user");
/// The longest name, in bytes.
const MAX_NAME: usize = 100;
/// The maximum validity of a token, in hours.
const MAX_HOURS: u64 = 366 * 24;
/// The minimum, in seconds.
const MIN_SECONDS: u64 = 600;

/// `odh local user`
pub async fn run(console: &Console, global: &Global, user: &User) -> Result<u8, Failure> {
    let home = Home::find()?;
    if State::alive(&home).is_none() {
        return Err(Failure::new(Class::NotFound, "NotUp", "the local cluster is not up")
            .with_hint("start it with: odh local up"));
    }
    let client = connect_local(&home, None).await?.client;
    match (&user.name, user.delete) {
        (Some(name), true) => delete(console, &home, &client, name).await,
        (Some(name), false) => make(console, global, &home, &client, user, name).await,
        (None, true) => Err(Failure::usage("--delete requires a user name", "odh local user NAME --delete")),
        (None, false) => list(console, &home, &client, user).await,
    }
}

/// Where a role applies.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RoleScope {
    Everywhere,
    In(Vec<String>),
}

fn role_scope(global: &Global, user: &User) -> Result<RoleScope, Failure> {
    let given = global.namespace.as_deref().unwrap_or_default();
    let namespaces: Vec<String> =
        given.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let everywhere = user.all_namespaces || user.role == Role::ClusterAdmin;
    match (everywhere, namespaces.is_empty()) {
        (true, true) => Ok(RoleScope::Everywhere),
        (true, false) => {
            Err(Failure::usage("a role in all namespaces cannot be combined with -n", "omit one of them"))
        }
        (false, true) => Ok(RoleScope::In(vec!["default".to_owned()])),
        (false, false) => Ok(RoleScope::In(namespaces)),
    }
}

fn check(name: &str, user: &User) -> Result<(), Failure> {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-._@".contains(c));
    let begins = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if !plain || !begins || name.len() > MAX_NAME {
        return Err(Failure::usage(
            format!("\"{name}\" is not a valid user name"),
            format!("use at most {MAX_NAME} letters, digits and - . _ @, beginning with a letter or digit"),
        ));
    }
    if let Some(group) = user.groups.iter().find(|group| group.starts_with("system:") || group.is_empty()) {
        return Err(Failure::usage(
            format!("\"{group}\" is not a valid group: it is empty or reserved by Kubernetes"),
            "for a cluster administrator, use --role cluster-admin",
        ));
    }
    let seconds = user.expires.as_secs();
    if !(MIN_SECONDS..=MAX_HOURS * 3600).contains(&seconds) {
        return Err(Failure::usage(
            format!("--expires is out of range: {seconds} s"),
            format!("give a time between 10m and {MAX_HOURS}h, e.g. 720h for thirty days"),
        ));
    }
    Ok(())
}

async fn make(
    console: &Console,
    global: &Global,
    home: &Home,
    client: &Client,
    user: &User,
    name: &str,
) -> Result<u8, Failure> {
    check(name, user)?;
    let scope = role_scope(global, user)?;
    let role = user.role.name();
    match &scope {
        RoleScope::Everywhere => bind_everywhere(client, name, role).await?,
        RoleScope::In(namespaces) => {
            for namespace in namespaces {
                make_namespace(console, client, namespace).await?;
                bind(client, namespace, name, role).await?;
            }
        }
    }
    let token = auth::new_token()
        .map_err(|error| Failure::new(Class::Error, "Random", format!("cannot create a token: {error}")))?;
    let expires = Timestamp::now() + SignedDuration::try_from(user.expires).unwrap_or_default();
    let file = users_file(home);
    let mut people = people(home)?;
    people.retain(|person| person.name != name);
    people.push(Person::new(name, user.groups.clone(), &token, expires));
    let namespace = namespace_to_use(home, client, name, &scope).await?;
    let path = write_kubeconfig(home, name, &token, namespace.as_deref())?;
    users::save(&file, &people).map_err(|error| unusable(&file, &error))?;
    let caution = State::alive(home).and_then(|state| caution(user.role, &state.mode));
    let said = json!({"name": name, "caution": caution, "groups": user.groups, "role": role, "namespaces": match &scope {
        RoleScope::Everywhere => json!("*"),
        RoleScope::In(namespaces) => json!(namespaces),
    }, "expires": format!("{expires:.0}"), "kubeconfig": path.display().to_string()});
    if user.output.shows_objects() {
        console.data(&object::text(&said, user.output)?)?;
        return Ok(0);
    }
    let rights = match &scope {
        RoleScope::Everywhere => format!("has the role {role} in all namespaces"),
        RoleScope::In(namespaces) => format!("has the role {role} in {}", namespaces.join(", ")),
    };
    console.data(&format!(
        "{} {rights}, until {expires:.0}.\n{}\nUse it:\n  export KUBECONFIG={}\n  kubectl auth whoami\nRevoke it:\n  \
         odh local user {name} --delete\n",
        styled(STRONG, name),
        caution.map(|text| format!("{text}\n")).unwrap_or_default(),
        super::up::shell_word(&path),
    ))?;
    Ok(0)
}

/// A warning about what a role cannot prevent if its user may create pods; `None` for roles that only read.
fn caution(role: Role, mode: &str) -> Option<String> {
    let reach = match mode {
        _ if role == Role::View => return None,
        "plain" => {
            "in mode plain a pod is a process of yours and can read whatever you can, including the administrator's token"
        }
        "root" => "in mode root a pod can run as this machine's root user and so control the machine",
        _ => {
            "a pod runs as you on this machine's files; it cannot access the cluster's own folder, the home folders of other \
             users or known places of credentials in yours, but it can access everything else that you can"
        }
    };
    Some(format!(
        "Give it only to people who may use your account on this machine: creating pods amounts to that.\n\
         {}{}. See docs/guides/users.md.",
        reach[..1].to_uppercase(),
        &reach[1..]
    ))
}

fn users_file(home: &Home) -> PathBuf {
    home.cluster().join(users::FILE)
}

fn people(home: &Home) -> Result<Vec<Person>, Failure> {
    let file = users_file(home);
    users::load(&file).map_err(|error| unusable(&file, &error))
}

/// The default namespace of a user's kubeconfig: that of the existing one, as long as the user has a role that may create
/// jobs there, else the first in which the user has such a role, else the first of this role.
async fn namespace_to_use(
    home: &Home,
    client: &Client,
    name: &str,
    scope: &RoleScope,
) -> Result<Option<String>, Failure> {
    let former = Kubeconfig::read_from(kubeconfig_of(home, name)).ok().and_then(|kubeconfig| {
        kubeconfig.contexts.into_iter().find_map(|context| context.context?.namespace)
    });
    let mut bound: Vec<Bound> = bound(client).await?.into_iter().filter(|bound| bound.user == name).collect();
    bound.sort_by(|a, b| a.namespace.cmp(&b.namespace));
    Ok(chosen_namespace(former, &bound, scope))
}

fn chosen_namespace(former: Option<String>, bound: &[Bound], scope: &RoleScope) -> Option<String> {
    let given: &[String] = match scope {
        RoleScope::Everywhere => &[],
        RoleScope::In(namespaces) => namespaces,
    };
    let may_create = |namespace: &str| -> bool {
        let applies = |bound: &&Bound| bound.namespace.is_empty() || bound.namespace == namespace;
        bound.iter().filter(applies).any(|bound| bound.role != Role::View.name())
    };
    let others = bound.iter().map(|bound| &bound.namespace).filter(|namespace| !namespace.is_empty());
    let found = former.iter().chain(given).chain(others).find(|namespace| may_create(namespace)).cloned();
    found.or_else(|| given.first().cloned()).or(former)
}

fn kubeconfig_of(home: &Home, name: &str) -> PathBuf {
    home.users().join(format!("{name}.kubeconfig"))
}

fn write_kubeconfig(
    home: &Home,
    name: &str,
    token: &str,
    namespace: Option<&str>,
) -> Result<PathBuf, Failure> {
    let own = home.kubeconfig();
    let broken = |error: &dyn std::fmt::Display| {
        Failure::new(Class::Error, "Kubeconfig", format!("cannot use {}: {error}", own.display()))
    };
    let mut kubeconfig = Kubeconfig::read_from(&own).map_err(|error| broken(&error))?;
    let auth = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
    kubeconfig.auth_infos =
        vec![NamedAuthInfo { name: name.to_owned(), auth_info: Some(auth), ..NamedAuthInfo::default() }];
    for context in kubeconfig.contexts.iter_mut().filter_map(|context| context.context.as_mut()) {
        context.user = Some(name.to_owned());
        if let Some(namespace) = namespace {
            context.namespace = Some(namespace.to_owned());
        }
    }
    let text = serde_saphyr::to_string(&kubeconfig).map_err(|error| broken(&error))?;
    let folder = home.users();
    make_private(&folder).map_err(|error| unusable(&folder, &error))?;
    let path = kubeconfig_of(home, name);
    write_private(&path, text.as_bytes())?;
    Ok(path)
}

async fn make_namespace(console: &Console, client: &Client, name: &str) -> Result<(), Failure> {
    let api: Api<Namespace> = Api::all(client.clone());
    if api.get_opt(name).await.map_err(refused)?.is_some() {
        return Ok(());
    }
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    api.create(&PostParams::default(), &namespace).await.map_err(refused)?;
    console.note(&format!("namespace {name} created"));
    Ok(())
}

fn binding(kind: &str, name: &str, role: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": {"name": format!("odh-local-user-{name}-{role}"), "labels": {(LABEL.0): LABEL.1}},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}]})
}

fn binding_name(binding: &Value) -> String {
    binding["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

async fn bind(client: &Client, namespace: &str, name: &str, role: &str) -> Result<(), Failure> {
    let binding = binding("RoleBinding", name, role);
    let api: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
    let parameters = PatchParams::apply("odh").force();
    api.patch(&binding_name(&binding), &parameters, &Patch::Apply(&binding)).await.map_err(refused)?;
    Ok(())
}

async fn bind_everywhere(client: &Client, name: &str, role: &str) -> Result<(), Failure> {
    let binding = binding("ClusterRoleBinding", name, role);
    let api: Api<ClusterRoleBinding> = Api::all(client.clone());
    let parameters = PatchParams::apply("odh").force();
    api.patch(&binding_name(&binding), &parameters, &Patch::Apply(&binding)).await.map_err(refused)?;
    Ok(())
}

/// A binding created here.
struct Bound {
    /// The binding's own name.
    name: String,
    /// The namespace in which it applies; empty for all.
    namespace: String,
    role: String,
    user: String,
}

async fn bound(client: &Client) -> Result<Vec<Bound>, Failure> {
    let ours = ListParams::default().labels(&format!("{}={}", LABEL.0, LABEL.1));
    let in_namespaces = Api::<RoleBinding>::all(client.clone()).list(&ours).await.map_err(refused)?;
    let everywhere = Api::<ClusterRoleBinding>::all(client.clone()).list(&ours).await.map_err(refused)?;
    let subject = |subjects: Option<Vec<k8s_openapi::api::rbac::v1::Subject>>| {
        subjects.into_iter().flatten().next().map(|subject| subject.name).unwrap_or_default()
    };
    let mut found: Vec<Bound> = everywhere
        .items
        .into_iter()
        .map(|binding| Bound {
            name: binding.name_any(),
            namespace: String::new(),
            role: binding.role_ref.name,
            user: subject(binding.subjects),
        })
        .collect();
    found.extend(in_namespaces.items.into_iter().map(|binding| Bound {
        name: binding.name_any(),
        namespace: binding.namespace().unwrap_or_default(),
        role: binding.role_ref.name,
        user: subject(binding.subjects),
    }));
    Ok(found)
}

async fn delete(console: &Console, home: &Home, client: &Client, name: &str) -> Result<u8, Failure> {
    let file = users_file(home);
    let mut people = people(home)?;
    let before = people.len();
    people.retain(|person| person.name != name);
    let bindings: Vec<Bound> = bound(client).await?.into_iter().filter(|bound| bound.user == name).collect();
    if people.len() == before && bindings.is_empty() {
        let known: Vec<&str> = people.iter().map(|person| person.name.as_str()).collect();
        let hint = if known.is_empty() {
            "there are no users yet".to_owned()
        } else {
            format!("existing users: {}", known.join(", "))
        };
        return Err(
            Failure::new(Class::NotFound, "NoSuchUser", format!("user {name} not found")).with_hint(hint)
        );
    }
    // The token goes first: without it, whatever is left gives no access.
    users::save(&file, &people).map_err(|error| unusable(&file, &error))?;
    for bound in bindings {
        let gone = if bound.namespace.is_empty() {
            let api: Api<ClusterRoleBinding> = Api::all(client.clone());
            api.delete(&bound.name, &DeleteParams::default()).await.map(|_| ())
        } else {
            let api: Api<RoleBinding> = Api::namespaced(client.clone(), &bound.namespace);
            api.delete(&bound.name, &DeleteParams::default()).await.map(|_| ())
        };
        match gone {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            result => result.map_err(refused)?,
        }
    }
    let _ = std::fs::remove_file(kubeconfig_of(home, name));
    console.data(&format!("User {name} deleted; its token is revoked.\n"))?;
    Ok(0)
}

async fn list(console: &Console, home: &Home, client: &Client, user: &User) -> Result<u8, Failure> {
    let mut roles: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for bound in bound(client).await? {
        let place = if bound.namespace.is_empty() { "*" } else { &bound.namespace };
        roles.entry(bound.user).or_default().push(format!("{}:{place}", bound.role));
    }
    let people = people(home)?;
    let now = Timestamp::now();
    if user.output.shows_objects() {
        let users: Vec<Value> = people
            .iter()
            .map(|person| {
                json!({"name": person.name, "groups": person.groups, "expires": format!("{:.0}", person.expires),
                    "roles": roles.get(&person.name).cloned().unwrap_or_default()})
            })
            .collect();
        console.data(&object::text(&json!({ "users": users }), user.output)?)?;
        return Ok(0);
    }
    if people.is_empty() {
        console.data("There are no users yet; create one: odh local user NAME --role edit -n NAMESPACE\n")?;
        return Ok(0);
    }
    let rows: Vec<Vec<String>> = people
        .iter()
        .map(|person| {
            let expires = format!("{:.0}", person.expires);
            let expires = if person.expires <= now { format!("{expires} (expired)") } else { expires };
            let roles = roles.get(&person.name).map(|roles| roles.join(", ")).unwrap_or_default();
            vec![person.name.clone(), roles, person.groups.join(", "), expires]
        })
        .collect();
    console.data(&table::table(&["NAME", "ROLES", "GROUPS", "EXPIRES"], &rows))?;
    Ok(0)
}

fn refused(error: kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) if status.code == 422 => {
            Failure::usage(status.message.clone(), "choose another name")
        }
        kube::Error::Api(status) => Failure::new(Class::Error, "Refused", status.message.clone()),
        error => {
            Failure::new(Class::Error, "NoAnswer", format!("the local cluster does not respond: {error}"))
                .with_hint("check it with: odh local status")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    use crate::arguments::{Arguments, Command, LocalVerb};

    fn parsed(line: &str) -> (Global, User) {
        let arguments = Arguments::try_parse_from(line.split(' ')).unwrap();
        match arguments.command {
            Command::Local { verb: LocalVerb::User(user) } => (arguments.global, user),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn roles_that_may_create_pods_are_given_with_a_warning() {
        assert_eq!(caution(Role::View, "rootless"), None);
        for (mode, words) in [
            ("rootless", "A pod runs as you"),
            ("root", "In mode root a pod can run as this machine's root user"),
            ("plain", "including the administrator's token"),
        ] {
            let text = caution(Role::Edit, mode).unwrap();
            assert!(text.starts_with("Give it only to people") && text.contains(words), "{text}");
        }
    }

    #[test]
    fn another_role_does_not_move_a_user_to_a_namespace_without_the_right_to_create() {
        let bound = |places: &[(&str, &str)]| -> Vec<Bound> {
            let of = |(namespace, role): &(&str, &str)| Bound {
                name: String::new(),
                namespace: (*namespace).to_owned(),
                role: (*role).to_owned(),
                user: "anna".to_owned(),
            };
            places.iter().map(of).collect()
        };
        let within = |name: &str| RoleScope::In(vec![name.to_owned()]);
        let former = || Some("team".to_owned());
        let chosen =
            |former, places: &[(&str, &str)], scope| chosen_namespace(former, &bound(places), &scope);
        let both = [("default", "view"), ("team", "edit")];
        assert_eq!(chosen(former(), &both, within("default")).as_deref(), Some("team"));
        assert_eq!(chosen(None, &both, within("default")).as_deref(), Some("team"));
        let viewer = [("default", "view"), ("team", "view")];
        assert_eq!(chosen(former(), &viewer, within("default")).as_deref(), Some("default"));
        let moved = [("a", "edit"), ("team", "view")];
        assert_eq!(chosen(former(), &moved, within("a")).as_deref(), Some("a"));
        assert_eq!(chosen(former(), &[("", "view")], RoleScope::Everywhere).as_deref(), Some("team"));
        assert_eq!(chosen(None, &[("default", "view")], within("default")).as_deref(), Some("default"));
        assert_eq!(chosen(None, &[("", "admin")], RoleScope::Everywhere), None);
    }

    #[test]
    fn a_role_applies_where_it_was_requested() {
        let scope_of = |line: &str| {
            let (global, user) = parsed(line);
            role_scope(&global, &user).map_err(|failure| failure.message)
        };
        let within =
            |names: &[&str]| Ok(RoleScope::In(names.iter().map(|name| (*name).to_owned()).collect()));
        assert_eq!(scope_of("odh local user anna"), within(&["default"]));
        assert_eq!(scope_of("odh local user anna -n a,b"), within(&["a", "b"]));
        assert_eq!(scope_of("odh local user anna --role view -A"), Ok(RoleScope::Everywhere));
        assert_eq!(scope_of("odh local user anna --role cluster-admin"), Ok(RoleScope::Everywhere));
        assert!(scope_of("odh local user anna -A -n a").is_err());
    }

    #[test]
    fn users_with_reserved_names_or_invalid_options_are_refused() {
        let fault = |line: &str| {
            let (_, user) = parsed(line);
            check(user.name.as_deref().unwrap_or_default(), &user).err().map(|failure| failure.message)
        };
        assert_eq!(fault("odh local user anna@example.com --group team"), None);
        for line in [
            "odh local user system:admin",
            "odh local user ../anna",
            "odh local user .anna",
            "odh local user anna --group system:masters",
            "odh local user anna --expires 1m",
            "odh local user anna --expires 9000h",
        ] {
            assert!(fault(line).is_some(), "{line}");
        }
    }
}
