//! What resources cost: prices that an administrator set, and the cost of what jobs hold by them.
//!
//! Prices are the ConfigMap [`NAME`] in the namespace [`NAMESPACE`], so Kubernetes' access rules say who may change them and
//! who may see costs: it is read as the caller. [`read`] reads it; the rest is pure. Money is counted in millionths of the
//! currency's unit and rounded once, at the end. Without prices there are no costs; a resource without a price is named
//! and never counted as free of charge.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::Api;
use semantics::{Amounts, Quantity, is_gpu};

/// The namespace of the prices.
pub const NAMESPACE: &str = "odh-training-prices";
/// The name of their ConfigMap.
pub const NAME: &str = "prices";

const KEY_CURRENCY: &str = "currency";
const KEY_CPU: &str = "cpu-hour";
const KEY_MEMORY: &str = "memory-gib-hour";
const KEY_GPU: &str = "gpu-hour";
/// The prefix of the price of a model of GPUs: `gpu-hour.NVIDIA-H100-80GB-HBM3`, as the node's label names the model.
const KEY_GPU_PREFIX: &str = "gpu-hour.";

/// Millionths in one unit of a currency.
const MICROS: u128 = 1_000_000;
/// The longest name of a currency, in characters.
const LONGEST_CURRENCY: usize = 16;
/// The most digits before the point of a price.
const MOST_DIGITS: usize = 9;
const SECONDS: u128 = 3600;

/// A price for an hour, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Price(u128);

/// Money, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(u128);

impl Money {
    /// Adds.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns it with this many digits after the point, at most six, rounded half up.
    pub fn rounded(self, digits: u32) -> String {
        let step = MICROS / 10_u128.pow(digits.min(6));
        let steps = self.0.saturating_add(step / 2) / step;
        let whole = MICROS / step;
        match digits {
            0 => steps.to_string(),
            _ => format!("{}.{:0width$}", steps / whole, steps % whole, width = digits as usize),
        }
    }
}

impl Price {
    /// Returns it as it was written, without zeros at the end.
    pub fn text(self) -> String {
        let text = Money(self.0).rounded(6);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// What an administrator set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// The currency, as written: `EUR`, or `credits`.
    pub currency: String,
    /// One CPU core for an hour.
    pub cpu: Option<Price>,
    /// One GiB of memory for an hour.
    pub memory: Option<Price>,
    /// One GPU of a model without a price of its own, or of an unknown one, for an hour.
    pub gpu: Option<Price>,
    /// One GPU for an hour, by its model.
    pub gpus: BTreeMap<String, Price>,
}

/// What was found where prices are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// None are set, or the caller may not read them.
    Nothing,
    /// Prices.
    Prices(Prices),
    /// Something that is no price: what is wrong, with its key.
    Fault(String),
}

/// Reads the prices as the caller. Prices that cannot be read are as if not set.
pub async fn read(client: &Client) -> Found {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let Ok(Some(map)) = maps.get_opt(NAME).await else { return Found::Nothing };
    match parse(&map.data.unwrap_or_default()) {
        Ok(None) => Found::Nothing,
        Ok(Some(prices)) => Found::Prices(prices),
        Err(fault) => Found::Fault(fault),
    }
}

/// Reads a ConfigMap's data; `None` if it has no price.
///
/// # Errors
/// The key that is wrong, and why.
pub fn parse(data: &BTreeMap<String, String>) -> Result<Option<Prices>, String> {
    let mut prices = Prices::default();
    for (key, text) in data {
        let text = text.trim();
        let price = || price(text).ok_or_else(|| format!("{key}: \"{}\" is not a price", shortened(text)));
        match key.as_str() {
            KEY_CURRENCY => prices.currency = currency(text)?,
            KEY_CPU => prices.cpu = Some(price()?),
            KEY_MEMORY => prices.memory = Some(price()?),
            KEY_GPU => prices.gpu = Some(price()?),
            other => {
                let model = other.strip_prefix(KEY_GPU_PREFIX).filter(|model| !model.is_empty());
                let model = model.ok_or_else(|| format!("{} is not a key of prices", shortened(other)))?;
                prices.gpus.insert(model.to_owned(), price()?);
            }
        }
    }
    let Prices { currency, cpu, memory, gpu, gpus } = &prices;
    if cpu.is_none() && memory.is_none() && gpu.is_none() && gpus.is_empty() {
        return Ok(None);
    }
    if currency.is_empty() {
        return Err(format!("{KEY_CURRENCY} is missing"));
    }
    Ok(Some(prices))
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect::<String>().escape_debug().to_string()
}

fn currency(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty()
        && text.chars().count() <= LONGEST_CURRENCY
        && text.chars().all(|c| c.is_alphabetic() || matches!(c, '€' | '$' | '£' | '¥'));
    is_name
        .then(|| text.to_owned())
        .ok_or_else(|| format!("{KEY_CURRENCY}: \"{}\" is not a currency, e.g. EUR", shortened(text)))
}

/// Reads a decimal number that is not negative: at most six digits after the point.
fn price(text: &str) -> Option<Price> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) || whole.len() > MOST_DIGITS || fraction.len() > 6 {
        return None;
    }
    let (whole, fraction): (u128, u128) = (whole.parse().ok()?, format!("{fraction:0<6}").parse().ok()?);
    Some(Price(whole * MICROS + fraction))
}

/// What a cost rests on: one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The resource.
    pub resource: String,
    /// How much of it, in words: `8 GPUs`, `16 CPUs`, `64Gi`.
    pub amount: String,
    /// The price of one for an hour; `None` if it has none.
    pub price: Option<Price>,
    /// The cost; zero without a price.
    pub cost: Money,
}

/// What a job costs while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HourlyCost {
    /// The currency.
    pub currency: String,
    /// The cost of an hour.
    pub per_hour: Money,
    /// What it rests on; GPUs first.
    pub parts: Vec<Part>,
}

impl Prices {
    /// The price of one core, one GiB or one GPU for an hour. The model is empty if it is not known.
    pub fn of(&self, resource: &str, model: &str) -> Option<Price> {
        match resource {
            "cpu" => self.cpu,
            "memory" => self.memory,
            gpu if is_gpu(gpu) => self.gpus.get(model).copied().or(self.gpu),
            _ => None,
        }
    }

    /// The cost of holding a resource: `amount_seconds` is in thousandths of cores, in bytes or in GPUs, times seconds.
    pub fn cost(&self, resource: &str, model: &str, amount_seconds: u128) -> Option<Money> {
        let Price(price) = self.of(resource, model)?;
        let unit = match resource {
            "cpu" => 1000,
            "memory" => 1 << 30,
            _ => 1,
        };
        let divisor = unit * SECONDS;
        Some(Money(amount_seconds.saturating_mul(price).saturating_add(divisor / 2) / divisor))
    }

    /// Returns what an hour of these amounts costs, with GPUs of this model; `None` if nothing of it has a price.
    pub fn hourly(&self, amounts: &Amounts, model: &str) -> Option<HourlyCost> {
        let mut parts: Vec<Part> =
            amounts.iter().filter_map(|(name, amount)| self.part(name, model, *amount)).collect();
        parts.sort_by_key(|part| !is_gpu(&part.resource));
        parts.iter().any(|part| part.price.is_some()).then(|| HourlyCost {
            currency: self.currency.clone(),
            per_hour: parts.iter().fold(Money::default(), |sum, part| sum.plus(part.cost)),
            parts,
        })
    }

    fn part(&self, resource: &str, model: &str, amount: Quantity) -> Option<Part> {
        let (held, words) = match resource {
            "cpu" => (amount.millis(), counted(amount, "CPU")),
            "memory" => (amount.units(), format!("{} of memory", amount.in_bytes())),
            gpu if is_gpu(gpu) && self.gpus.contains_key(model) => {
                (amount.units(), counted(amount, &format!("{model} GPU")))
            }
            gpu if is_gpu(gpu) => (amount.units(), counted(amount, "GPU")),
            _ => return None,
        };
        let held = u128::try_from(held).ok().filter(|held| *held > 0)?;
        Some(Part {
            resource: resource.to_owned(),
            amount: words,
            price: self.of(resource, model),
            cost: self.cost(resource, model, held.saturating_mul(SECONDS)).unwrap_or_default(),
        })
    }

    /// Says which prices there are, for people.
    pub fn words(&self) -> String {
        let generic = [("GPU", self.gpu), ("CPU core", self.cpu), ("GiB of memory", self.memory)];
        let generic = generic.into_iter().filter_map(|(what, price)| Some((what, price?)));
        let named = self.gpus.iter().map(|(model, price)| (format!("{model} GPU"), *price));
        let generic = generic.map(|(what, price)| (what.to_owned(), price));
        let all: Vec<String> =
            named.chain(generic).map(|(what, price)| format!("{} for a {what}", price.text())).collect();
        format!("{} an hour: {}", self.currency, all.join(", "))
    }
}

/// `1 GPU`, `16.5 CPUs`.
fn counted(amount: Quantity, noun: &str) -> String {
    let millis = u128::try_from(amount.millis()).unwrap_or(0);
    let number = Price(millis * (MICROS / 1000)).text();
    if number == "1" { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

impl HourlyCost {
    /// Says what an hour costs and what that rests on.
    pub fn words(&self) -> String {
        let (priced, free): (Vec<&Part>, Vec<&Part>) =
            self.parts.iter().partition(|part| part.price.is_some());
        let at = |part: &&Part| {
            let price = part.price.map(Price::text).unwrap_or_default();
            let each = if part.resource == "memory" { " a GiB" } else { "" };
            format!("{} at {price}{each}", part.amount)
        };
        let priced: Vec<String> = priced.iter().map(at).collect();
        let free: Vec<&str> = free.iter().map(|part| part.amount.as_str()).collect();
        let without = match free.as_slice() {
            [] => String::new(),
            free => format!("; without a price: {}", free.join(", ")),
        };
        let cost = self.per_hour.rounded(2);
        format!("about {cost} {} per hour ({}{without})", self.currency, priced.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
    }

    fn prices(pairs: &[(&str, &str)]) -> Prices {
        parse(&data(pairs)).unwrap().unwrap()
    }

    fn amounts(pairs: &[(&str, &str)]) -> Amounts {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), Quantity::read(text).unwrap())).collect()
    }

    const ALL: [(&str, &str); 4] =
        [("currency", "EUR"), ("gpu-hour", "1.50"), ("cpu-hour", "0.02"), ("memory-gib-hour", "0.001")];

    #[test]
    fn an_hour_costs_the_sum_of_its_priced_parts_and_says_what_it_rests_on() {
        let job = amounts(&[("nvidia.com/gpu", "8"), ("cpu", "16500m"), ("memory", "64Gi"), ("pods", "9")]);
        let cost = prices(&ALL).hourly(&job, "").unwrap();
        assert_eq!(cost.per_hour.rounded(4), "12.3940");
        assert_eq!(
            cost.words(),
            "about 12.39 EUR per hour (8 GPUs at 1.5, 16.5 CPUs at 0.02, 64Gi of memory at 0.001 a GiB)"
        );
        let only_gpus = prices(&[("currency", "credits"), ("gpu-hour", "2")]).hourly(&job, "").unwrap();
        assert_eq!(
            only_gpus.words(),
            "about 16.00 credits per hour (8 GPUs at 2; without a price: 16.5 CPUs, 64Gi of memory)"
        );
        assert_eq!(
            prices(&[("currency", "EUR"), ("gpu-hour", "2")]).hourly(&amounts(&[("cpu", "4")]), ""),
            None
        );
    }

    #[test]
    fn a_model_of_gpus_may_have_a_price_of_its_own() {
        let prices = prices(&[("currency", "EUR"), ("gpu-hour", "2"), ("gpu-hour.NVIDIA-H100", "4.10")]);
        let of = |model: &str| prices.of("nvidia.com/gpu", model).unwrap().text();
        assert_eq!(
            (of("NVIDIA-H100"), of("Tesla-T4"), of("")),
            ("4.1".to_owned(), "2".to_owned(), "2".to_owned())
        );
        assert_eq!((prices.of("cpu", ""), prices.of("ephemeral-storage", "")), (None, None));
        assert_eq!(prices.words(), "EUR an hour: 4.1 for a NVIDIA-H100 GPU, 2 for a GPU");
        let eight = prices.hourly(&amounts(&[("nvidia.com/gpu", "8")]), "NVIDIA-H100").unwrap();
        assert_eq!(eight.words(), "about 32.80 EUR per hour (8 NVIDIA-H100 GPUs at 4.1)");
    }

    #[test]
    fn what_was_used_is_rounded_once() {
        let prices = prices(&ALL);
        assert_eq!(prices.cost("nvidia.com/gpu", "", 7380).unwrap().rounded(4), "3.0750");
        assert_eq!(prices.cost("cpu", "", 5_535_000).unwrap().rounded(4), "0.0308");
        assert_eq!(prices.cost("memory", "", (1 << 30) * 3600 * 1000).unwrap().rounded(2), "1.00");
        assert_eq!(Money(1_995_000).rounded(2), "2.00");
        assert!(prices.cost("memory", "", u128::MAX).is_some(), "an amount without bound overflows nothing");
    }

    #[test]
    fn nothing_is_set_without_a_price_and_a_mistake_is_named() {
        assert_eq!(parse(&data(&[])), Ok(None));
        assert_eq!(parse(&data(&[("currency", "EUR")])), Ok(None));
        for (pairs, fault) in [
            (&[("gpu-hour", "1")][..], "currency is missing"),
            (&[("currency", "EUR"), ("gpu-hour", "-1")], "gpu-hour: \"-1\" is not a price"),
            (&[("currency", "EUR"), ("cpu-hour", "1,5")], "cpu-hour: \"1,5\" is not a price"),
            (&[("currency", "EUR"), ("cpu-hour", "0.1234567")], "cpu-hour: \"0.1234567\" is not a price"),
            (&[("currency", "=1+1")], "currency: \"=1+1\" is not a currency, e.g. EUR"),
            (&[("currency", "EUR"), ("gpu", "1")], "gpu is not a key of prices"),
            (&[("currency", "EUR"), ("gpu-hour.", "1")], "gpu-hour. is not a key of prices"),
        ] {
            assert_eq!(parse(&data(pairs)), Err(fault.to_owned()));
        }
    }
}
