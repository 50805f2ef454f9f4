//! The queries to Prometheus about pods: text from names, without IO. A name cannot end its quotes, and a pattern of names
//! matches these names and nothing else.

use std::fmt::Write as _;

/// Steps shorter than this show each value as it was scraped; longer ones show averages.
const FINE_STEP: i64 = 60;
/// The time before a moment in which two scrapes must be, for a rate.
const RATE_WINDOW: i64 = 120;

/// What is asked about pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Bytes received a second.
    NetworkReceived,
    /// Bytes sent a second.
    NetworkSent,
    /// The utilization of each GPU, in percent.
    GpuUtilization,
    /// The used memory of each GPU, in MiB.
    GpuMemory,
    /// The power of each GPU, in watts.
    Power,
    /// CPU, in cores.
    Cpu,
    /// Memory, in bytes.
    Memory,
}

impl Quantity {
    /// What only Prometheus has in most clusters.
    pub const MORE: [Self; 5] =
        [Self::NetworkReceived, Self::NetworkSent, Self::GpuUtilization, Self::GpuMemory, Self::Power];
    /// What the metrics API has too.
    pub const BASIC: [Self; 2] = [Self::Cpu, Self::Memory];

    /// The metric of the kubelet's cAdvisor, or of NVIDIA's DCGM exporter.
    pub fn metric(self) -> &'static str {
        match self {
            Self::NetworkReceived => "container_network_receive_bytes_total",
            Self::NetworkSent => "container_network_transmit_bytes_total",
            Self::GpuUtilization => "DCGM_FI_DEV_GPU_UTIL",
            Self::GpuMemory => "DCGM_FI_DEV_FB_USED",
            Self::Power => "DCGM_FI_DEV_POWER_USAGE",
            Self::Cpu => "container_cpu_usage_seconds_total",
            Self::Memory => "container_memory_working_set_bytes",
        }
    }

    /// Whether there is a series for each GPU.
    pub fn is_of_gpus(self) -> bool {
        matches!(self, Self::GpuUtilization | Self::GpuMemory | Self::Power)
    }
}

/// Whether Prometheus has any metric of the DCGM exporter.
pub const HAS_DCGM: &str = "count({__name__=~\"DCGM_FI_DEV_(GPU_UTIL|FB_USED|POWER_USAGE)\"})";

/// Returns the query for a quantity of pods, in steps of so many seconds. Its series have the label `pod` or `exported_pod`
/// and, of GPUs, `gpu` and perhaps `GPU_I_ID`.
///
/// A cluster may have the same series more than once (replicas of Prometheus, a pod that was created again): the largest
/// counts.
pub fn query(quantity: Quantity, namespace: &str, pods: &[&str], step: i64) -> String {
    let (metric, namespace, pods) = (quantity.metric(), quoted(namespace), one_of(pods));
    let own = format!("namespace={namespace},pod=~{pods}");
    match quantity {
        Quantity::NetworkReceived | Quantity::NetworkSent => {
            format!("sum by (pod) (max by (pod, interface) ({}))", rate(metric, &own, step))
        }
        Quantity::Cpu => {
            let selected = format!("{own},container!=\"\",container!=\"POD\"");
            format!("sum by (pod) (max by (pod, container) ({}))", rate(metric, &selected, step))
        }
        Quantity::Memory => {
            let selected = format!("{own},container!=\"\",container!=\"POD\"");
            format!("sum by (pod) (max by (pod, container) ({}))", level(metric, &selected, step))
        }
        Quantity::GpuUtilization | Quantity::GpuMemory | Quantity::Power => {
            // Unless Prometheus honours the exporter's labels, `pod` is the exporter itself and what it measures is `exported_pod`.
            let exported = format!("exported_namespace={namespace},exported_pod=~{pods}");
            let honoured = format!("{own},exported_pod=\"\"");
            format!(
                "max by (exported_pod, gpu, GPU_I_ID) ({}) or max by (pod, gpu, GPU_I_ID) ({})",
                level(metric, &exported, step),
                level(metric, &honoured, step)
            )
        }
    }
}

fn rate(metric: &str, selected: &str, step: i64) -> String {
    if step < FINE_STEP {
        // A window does not notice that a series has ended; the series itself does.
        format!("irate({metric}{{{selected}}}[{RATE_WINDOW}s]) and {metric}{{{selected}}}")
    } else {
        format!("rate({metric}{{{selected}}}[{}s])", step.max(RATE_WINDOW))
    }
}

fn level(metric: &str, selected: &str, step: i64) -> String {
    if step < FINE_STEP {
        format!("{metric}{{{selected}}}")
    } else {
        format!("avg_over_time({metric}{{{selected}}}[{step}s])")
    }
}

/// A string of PromQL.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(char);
            }
            _ if char.is_control() => {
                // Writing to a text cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(char));
            }
            _ => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

/// A string of PromQL with a regular expression that matches one of these names. PromQL anchors it at both ends.
fn one_of(names: &[&str]) -> String {
    let literal = |name: &&str| {
        let mut literal = String::with_capacity(name.len());
        for char in name.chars() {
            if char.is_ascii_punctuation() && char != '-' && char != '_' {
                literal.push('\\');
            }
            literal.push(char);
        }
        literal
    };
    quoted(&names.iter().map(literal).collect::<Vec<_>>().join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_quotes_or_match_others() {
        assert_eq!(quoted("team-cv"), r#""team-cv""#);
        assert_eq!(quoted("a\"} or {b=\"\\\n"), r#""a\"} or {b=\"\\\u000a""#);
        assert_eq!(one_of(&["a-worker-0", "a.b-worker-1"]), r#""a-worker-0|a\\.b-worker-1""#);
        assert_eq!(one_of(&[".*", "a|b", "x\"})"]), r#""\\.\\*|a\\|b|x\\\"\\}\\)""#);
    }

    #[test]
    fn short_steps_show_values_and_long_ones_averages() {
        let asked = |quantity, step| query(quantity, "team", &["a-worker-0"], step);
        let pod = r#"namespace="team",pod=~"a-worker-0""#;
        let received = "container_network_receive_bytes_total";
        assert_eq!(
            asked(Quantity::NetworkReceived, 15),
            format!(
                "sum by (pod) (max by (pod, interface) (irate({received}{{{pod}}}[120s]) and {received}{{{pod}}}))"
            )
        );
        assert!(asked(Quantity::NetworkReceived, 60).contains(&format!("(rate({received}{{{pod}}}[120s]))")));
        assert!(asked(Quantity::Cpu, 600).contains("[600s]"));
        let power = asked(Quantity::Power, 90);
        for part in [
            r#"avg_over_time(DCGM_FI_DEV_POWER_USAGE{exported_namespace="team",exported_pod=~"a-worker-0"}[90s])"#,
            r#"avg_over_time(DCGM_FI_DEV_POWER_USAGE{namespace="team",pod=~"a-worker-0",exported_pod=""}[90s])"#,
        ] {
            assert!(power.contains(part), "{power}");
        }
        assert!(!asked(Quantity::Power, 15).contains("avg_over_time"));
    }
}
