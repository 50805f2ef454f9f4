//! Allocates cluster IPs and node ports to Services.
//!
//! Allocations are read from the stored Services, so nothing has to be released or repaired. [`Services`]
//! additionally reserves what belongs to writes that aren't committed yet. Rules:
//! `pkg/registry/core/service/storage/alloc.go` and the allocators in `service/{ipallocator,portallocator}`:
//! dynamic allocation uses the upper part of a range first, which leaves the lower part for static
//! allocation.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::request_context::RequestContext;
use super::status::{self, StatusError};
use crate::store::{Key, Resource};
use objects::FieldFault;
use objects::services::{self, PortWish, Wants};

/// The range of cluster IPs: base address and prefix length (`--service-cluster-ip-range`).
pub const RANGE: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 96, 0, 0), 16);
pub use kubelet::{OWN_ADDRESS, OWN_PORT};

/// The number of addresses reserved for static allocation (`calculateRangeOffset`).
const NAMED_ADDRESSES: u32 = 256;
/// The range of node ports (`--service-node-port-range`), inclusive.
const PORTS: (i64, i64) = (30_000, 32_767);
/// The number of ports reserved for static allocation.
const NAMED_PORTS: i64 = 86;
/// The first port that a dry run shows in place of an allocated one.
const DRY_PORT: i64 = 32_769;

/// The allocations of uncommitted writes.
#[derive(Default)]
pub struct Services {
    promised: Mutex<Promised>,
}

#[derive(Default)]
struct Promised {
    addresses: BTreeSet<u32>,
    ports: BTreeSet<i64>,
}

/// The allocations of one write, reserved until dropped. Dropped after the commit, when the stored Service
/// shows them.
#[derive(Default)]
pub struct Promise<'a> {
    services: Option<&'a Services>,
    addresses: BTreeSet<u32>,
    ports: BTreeSet<i64>,
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        let Some(services) = self.services else { return };
        let mut promised = services.promised.lock().unwrap_or_else(PoisonError::into_inner);
        promised.addresses.retain(|address| !self.addresses.contains(address));
        promised.ports.retain(|port| !self.ports.contains(port));
    }
}

/// Completes a Service to be written. Leaves objects of other kinds, and a Service's status, alone.
///
/// # Errors
/// 422 for an allocation that isn't possible, 500 if a range is exhausted.
pub fn allocate<'a>(
    context: &'a RequestContext<'_>,
    new: &mut Value,
    old: Option<&Value>,
) -> Result<Promise<'a>, StatusError> {
    let kind = &context.entry.kind;
    if !kind.is("", "Service") || !context.action.subresource.is_empty() {
        return Ok(Promise::default());
    }
    let name = new["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let invalid = |faults: Vec<FieldFault>| status::invalid_object(kind, &name, &faults);
    let wants = services::prepare(new, old).map_err(invalid)?;
    let promise = if wants == Wants::default() {
        Promise::default()
    } else {
        let all = &context.server.services;
        let mut promised = all.promised.lock().unwrap_or_else(PoisonError::into_inner);
        let mut promise = Promise { services: Some(all), addresses: BTreeSet::new(), ports: BTreeSet::new() };
        let mut taken = taken(context, &promised);
        let given = give(context.query.dry_run, &wants, new, &mut taken, &mut promise);
        // Unlock before the promise is dropped on failure, because its drop takes the lock.
        promised.addresses.extend(&promise.addresses);
        promised.ports.extend(&promise.ports);
        drop(promised);
        given.map_err(|failure| match failure {
            Failure::Field(fault) => status::invalid_object(kind, &name, &[*fault]),
            Failure::Full(text) => status::internal(text),
        })?;
        promise
    };
    if let Some(old) = old {
        if let Some(port) = services::shared_port(new) {
            return Err(StatusError::new(500, "", format!("duplicate nodePort: {port}")));
        }
        services::drop_dependent(new, old);
    }
    services::drop_unused(new);
    Ok(promise)
}

enum Failure {
    Field(Box<FieldFault>),
    Full(String),
}

/// Returns all allocations, committed or not.
fn taken(context: &RequestContext<'_>, promised: &Promised) -> Promised {
    let mut taken = Promised { addresses: promised.addresses.clone(), ports: promised.ports.clone() };
    for record in context.server.store.list(&Resource::new("", "services"), None).records {
        let service = record.value();
        let addresses = services::addresses(&service).filter_map(|text| text.parse::<Ipv4Addr>().ok());
        taken.addresses.extend(addresses.map(u32::from));
        taken.ports.extend(services::held_ports(&service));
    }
    taken
}

fn give(
    dry_run: bool,
    wants: &Wants,
    service: &mut Value,
    taken: &mut Promised,
    promise: &mut Promise<'_>,
) -> Result<(), Failure> {
    if let Some(wish) = &wants.address {
        let name = service["metadata"]["name"].as_str().unwrap_or_default();
        let is_own = name == "kubernetes" && service["metadata"]["namespace"] == "default";
        let address = match wish {
            Some(text) => named_address(dry_run, text, is_own, service, taken)?,
            None if dry_run => u32::from(RANGE.0),
            None => any_address(taken).ok_or_else(|| {
                Failure::Full(format!("failed to allocate a serviceIP for Service {name:?}: range is full"))
            })?,
        };
        if name.is_empty() && !dry_run {
            return Err(nameless(address, wish.as_deref(), service));
        }
        promise.addresses.insert(address);
        services::give_address(service, &Ipv4Addr::from(address).to_string());
    }
    let mut given = BTreeSet::new();
    let mut port = |wish: Option<i64>| give_port(dry_run, wish, &mut taken.ports, &mut given);
    for (index, wish) in &wants.ports {
        let (number, refused) = match wish {
            PortWish::Any => (0, port(None)),
            PortWish::This(number) => (*number, port(Some(*number))),
            PortWish::As(first) => {
                (0, Ok(service["spec"]["ports"][first]["nodePort"].as_i64().unwrap_or_default()))
            }
        };
        let got = refused.map_err(|why| match number {
            0 => Failure::Full(format!("failed to allocate a nodePort: {why}")),
            _ => {
                let at = format!("spec.ports[{index}].nodePort");
                Failure::Field(Box::new(FieldFault::invalid(at, number, why)))
            }
        })?;
        services::give_port(service, *index, got);
    }
    if let Some(wish) = wants.health {
        let got = port(wish).map_err(|why| {
            Failure::Full(match wish {
                Some(number) => format!("failed to allocate requested HealthCheck NodePort {number}: {why}"),
                None => format!("failed to allocate a HealthCheck NodePort {why}"),
            })
        })?;
        service["spec"]["healthCheckNodePort"] = json!(got);
    }
    promise.ports.extend(given);
    Ok(())
}

/// Rejects a Service without a name. Kubernetes notices this when it allocates the address, before
/// validation.
fn nameless(address: u32, wish: Option<&str>, service: &Value) -> Failure {
    let wish = wish.map(|wish| format!(" {wish}")).unwrap_or_default();
    let why = format!(
        "failed to allocate IP{wish}: IPAddress.networking.k8s.io \"{}\" is invalid: spec.parentRef.name: Required value",
        Ipv4Addr::from(address)
    );
    let list = service["spec"]["clusterIPs"].clone();
    Failure::Field(Box::new(FieldFault::invalid("spec.clusterIPs", list, why)))
}

/// Returns the address that a Service requests, if it is available.
fn named_address(
    dry_run: bool,
    text: &str,
    is_own: bool,
    service: &Value,
    taken: &Promised,
) -> Result<u32, Failure> {
    let (base, bits) = (u32::from(RANGE.0), RANGE.1);
    let last = base | (u32::MAX >> bits);
    let refuse = |why: String| {
        let list = service["spec"]["clusterIPs"].clone();
        let why = format!("failed to allocate IP {text}: {why}");
        Failure::Field(Box::new(FieldFault::invalid("spec.clusterIPs", list, why)))
    };
    let address = text.parse::<Ipv4Addr>().map(u32::from).unwrap_or_default();
    if !(base..=last).contains(&address) {
        return Err(refuse("the provided network does not match the current range".into()));
    }
    if address == base || address == last {
        return Err(refuse(format!(
            "the provided IP ({text}) is not in the valid range. The range of valid IPs is {}/{bits}",
            RANGE.0
        )));
    }
    let is_others = address == u32::from(OWN_ADDRESS) && !is_own;
    if !dry_run && (taken.addresses.contains(&address) || is_others) {
        return Err(refuse("provided IP is already allocated".into()));
    }
    Ok(address)
}

/// Returns a free address, starting at a random one; statically allocated ones come last.
fn any_address(taken: &Promised) -> Option<u32> {
    let (base, size) = (u32::from(RANGE.0), 1_u32 << (32 - RANGE.1));
    let free = |address: &u32| !taken.addresses.contains(address) && *address != u32::from(OWN_ADDRESS);
    let from = random() % (size - 1 - NAMED_ADDRESSES);
    let upper =
        (NAMED_ADDRESSES..size - 1).cycle().skip(from as usize).take((size - 1 - NAMED_ADDRESSES) as usize);
    upper.chain(1..NAMED_ADDRESSES).map(|offset| base + offset).find(free)
}

/// Allocates the requested port, or any free one.
fn give_port(
    dry_run: bool,
    wish: Option<i64>,
    taken: &mut BTreeSet<i64>,
    given: &mut BTreeSet<i64>,
) -> Result<i64, String> {
    let (first, last) = PORTS;
    let port = match wish {
        Some(port) if !(first..=last).contains(&port) && !dry_run => {
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {first}-{last}"
            ));
        }
        Some(port) if taken.contains(&port) => return Err("provided port is already allocated".into()),
        Some(port) => port,
        None if dry_run => given.last().map_or(DRY_PORT, |last| last + 1),
        None => any_port(taken).ok_or("range is full")?,
    };
    taken.insert(port);
    given.insert(port);
    Ok(port)
}

fn any_port(taken: &BTreeSet<i64>) -> Option<i64> {
    let (lowest, end) = (PORTS.0 + NAMED_PORTS, PORTS.1 + 1);
    let from = i64::from(random()) % (end - lowest);
    let upper = (lowest + from..end).chain(lowest..lowest + from);
    upper.chain(PORTS.0..lowest).find(|port| !taken.contains(port))
}

fn random() -> u32 {
    // A random UUID has 122 random bits.
    uuid::Uuid::new_v4().as_fields().0
}

/// Creates or corrects the Service `kubernetes`, through which pods find the API
/// (`pkg/controlplane/controller/kubernetesservice`).
///
/// # Errors
/// If the store cannot persist the write.
pub async fn keep_own(server: &super::ApiServer, port: u16) -> Result<(), crate::store::Error> {
    let (resource, key) = (Resource::new("", "services"), Key::new(Some("default"), "kubernetes"));
    let ports = json!([{"name": "https", "port": OWN_PORT, "protocol": "TCP", "targetPort": port}]);
    let own = OWN_ADDRESS.to_string();
    let written = match server.store.get(&resource, &key) {
        Some(present)
            if present.value()["spec"]["ports"] == ports && present.value()["spec"]["clusterIP"] == own =>
        {
            Ok(present)
        }
        Some(present) => {
            let mut next = present.to_value();
            next["spec"]["ports"] = ports;
            (next["spec"]["clusterIP"], next["spec"]["clusterIPs"]) = (json!(own), json!([own]));
            server.store.replace(&resource, &key, present.revision, next).await
        }
        None => {
            let service = json!({"apiVersion": "v1", "kind": "Service",
                "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"component": "apiserver", "provider": "kubernetes"},
                    "uid": uuid::Uuid::new_v4().to_string(), "creationTimestamp": objects::timestamp(jiff::Timestamp::now())},
                "spec": {"type": "ClusterIP", "clusterIP": own, "clusterIPs": [own], "ipFamilies": ["IPv4"],
                    "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None", "ports": ports},
                "status": {"loadBalancer": {}}});
            server.store.create(&resource, key, service).await
        }
    };
    match written {
        // No client is served yet. If another write came first, its result is kept.
        Ok(_)
        | Err(crate::store::Error::Exists | crate::store::Error::Changed(_) | crate::store::Error::Missing) => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}
