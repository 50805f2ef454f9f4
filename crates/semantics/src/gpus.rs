//! Which resources are GPUs.
//!
//! Only whole devices count: slices (`nvidia.com/mig-1g.5gb`) and shares of different sizes cannot be summed.

use crate::{Amounts, Quantity};

/// The resource of NVIDIA's device plugin.
pub const NVIDIA_GPU: &str = "nvidia.com/gpu";
/// The suffix of a vendor's GPUs, after its name: `nvidia.com/gpu`, `amd.com/gpu`.
pub const GPU_SUFFIX: &str = "/gpu";
/// The resources of Intel's device plugin, one for each kernel driver.
pub const INTEL_GPUS: [&str; 2] = ["gpu.intel.com/i915", "gpu.intel.com/xe"];

/// Returns whether a resource is a GPU, of any vendor.
pub fn is_gpu(resource: &str) -> bool {
    resource.ends_with(GPU_SUFFIX) || INTEL_GPUS.contains(&resource)
}

/// Returns the number of GPUs among these amounts.
pub fn gpus(amounts: &Amounts) -> u64 {
    let gpus = amounts.iter().filter(|(name, _)| is_gpu(name));
    gpus.filter_map(|(_, amount)| u64::try_from(amount.count_of(Quantity::ONE)?).ok()).sum()
}

/// Returns whether a text names a GPU resource, e.g. the scheduler's `3 Insufficient nvidia.com/gpu.`.
pub fn names_gpu(text: &str) -> bool {
    let is_separator = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '/' | '.' | '-' | '_');
    text.split(is_separator).any(|word| is_gpu(word.trim_end_matches('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_of_every_vendor_are_counted() {
        for (resource, expected) in [
            ("nvidia.com/gpu", true),
            ("amd.com/gpu", true),
            ("gpu.intel.com/i915", true),
            ("gpu.intel.com/xe", true),
            ("gpu.intel.com/i915_monitoring", false),
            ("nvidia.com/mig-1g.5gb", false),
            ("cpu", false),
        ] {
            assert_eq!(is_gpu(resource), expected, "{resource}");
            let message = format!("0/3 nodes are available: 1 node had a taint, 2 Insufficient {resource}.");
            assert_eq!(names_gpu(&message), expected, "{message}");
        }
        let given = [("amd.com/gpu", "4"), ("gpu.intel.com/xe", "2"), ("cpu", "64")];
        let given: Amounts = given.map(|(name, text)| (name.to_owned(), text.parse().unwrap())).into();
        assert_eq!(gpus(&given), 6);
    }
}
