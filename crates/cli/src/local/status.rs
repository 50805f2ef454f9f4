//! `odh local status` and `odh local kubeconfig`.

use jiff::Timestamp;
use jobs::{Class, view};
use serde_json::json;

use super::disk::{self, Room};
use super::home::Home;
use super::state::{Failures, State, resident_kib};
use crate::arguments::{Kubeconfig, Status};
use crate::console::{Console, GOOD, styled};
use crate::failure::Failure;
use crate::{object, table};

/// `odh local status`: exit code 0 if it is up, 3 if not.
pub fn status(console: &Console, status: &Status) -> Result<u8, Failure> {
    let home = Home::find()?;
    let state = State::alive(&home);
    let room = disk::room(&home);
    if status.output.shows_objects() {
        let value = match &state {
            Some(state) => {
                let mut value = serde_json::to_value(state).unwrap_or_default();
                if let Some(fields) = value.as_object_mut() {
                    fields.insert("up".to_owned(), true.into());
                    fields.insert("kubeconfig".to_owned(), home.kubeconfig().display().to_string().into());
                    fields.insert("residentKiB".to_owned(), json!(resident_kib(state.pid)));
                    let bytes = |room: Room| json!({ "freeBytes": room.free, "totalBytes": room.total });
                    fields.insert("disk".to_owned(), json!(room.map(bytes)));
                }
                value
            }
            None => json!({ "up": false }),
        };
        console.data(&object::text(&value, status.output)?)?;
    } else {
        console.data(&match &state {
            Some(state) => text(&home, state, Timestamp::now(), resident_kib(state.pid), room),
            None => "The local cluster is not up; start it with: odh local up\n".to_owned(),
        })?;
    }
    if let Some(warning) = room.and_then(|room| room.warning(&home)) {
        console.warn(&warning);
    }
    Ok(if state.is_some() { 0 } else { Class::NotFound.exit_code() })
}

fn text(home: &Home, state: &State, now: Timestamp, resident_kib: Option<u64>, room: Option<Room>) -> String {
    let up = u64::try_from(now.as_second() - state.since.as_second()).unwrap_or(0);
    let mode = match &state.mode_reason {
        Some(reason) => format!("{} ({reason})", state.mode),
        None => state.mode.clone(),
    };
    let limits = state
        .limits_not_enforced
        .as_ref()
        .map_or_else(|| "enforced".to_owned(), |why| format!("not enforced ({why})"));
    let images: Vec<String> =
        state.images.iter().map(|(name, directory)| format!("{name} = {}", directory.display())).collect();
    let mut fields = vec![
        ("State", styled(GOOD, "up")),
        ("Address", format!("https://{}", state.address)),
        ("Service", state.service.as_ref().map_or_else(|| "-".to_owned(), |service| service.url.clone())),
        ("Up for", view::duration(std::time::Duration::from_secs(up))),
        ("Mode", mode),
        ("Limits", limits),
        (
            "Nodes",
            format!("{}, {} GPU{} each", state.nodes, state.gpus, if state.gpus == 1 { "" } else { "s" }),
        ),
        ("Process", state.pid.to_string()),
    ];
    fields.extend(resident_kib.map(|kib| ("Memory", format!("{:.1} MiB", kib as f64 / 1024.0))));
    fields.extend(room.map(|room| ("Disk", room.text())));
    fields.extend((!images.is_empty()).then(|| ("Images", images.join("\n"))));
    let failures: Vec<String> = state.failures.iter().map(|(part, how)| failed(part, how, now)).collect();
    fields.extend((!failures.is_empty()).then(|| ("Failures", failures.join("\n"))));
    fields.push(("Kubeconfig", home.kubeconfig().display().to_string()));
    fields.push(("Log", home.log().display().to_string()));
    table::fields(&fields)
}

/// A line about a part that failed and was restarted.
fn failed(part: &str, how: &Failures, now: Timestamp) -> String {
    let ago = u64::try_from(now.as_second() - how.last.as_second()).unwrap_or(0);
    let ago = view::duration(std::time::Duration::from_secs(ago));
    let times = if how.count == 1 { "once".to_owned() } else { format!("{} times", how.count) };
    format!("{part} failed {times}, last {ago} ago: {}", how.message)
}

/// `odh local kubeconfig`
pub fn kubeconfig(console: &Console, kubeconfig: &Kubeconfig) -> Result<u8, Failure> {
    let home = Home::find()?;
    if State::alive(&home).is_none() {
        return Err(Failure::new(Class::NotFound, "NotUp", "the local cluster is not up")
            .with_hint("start it with: odh local up"));
    }
    let path = home.kubeconfig();
    if kubeconfig.path {
        console.data(&format!("{}\n", path.display()))?;
        return Ok(0);
    }
    let text = std::fs::read_to_string(&path).map_err(|error| super::home::unusable(&path, &error))?;
    console.data(&text)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_failed_is_named_with_its_last_failure() {
        let last: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let now: Timestamp = "2026-01-01T00:02:00Z".parse().unwrap();
        let how = |count| Failures { count, last, message: "it panicked: no".to_owned() };
        assert_eq!(
            failed("job-controller", &how(1), now),
            "job-controller failed once, last 2m ago: it panicked: no"
        );
        assert!(failed("job-controller", &how(3), now).contains("failed 3 times"));
    }
}
