//! What jobs cost, by the prices that the caller may read.

use history::usage::Used;
use jobs::overview::model_of;
use jobs::preflight::PATIENCE;
use jobs::prices::{self, Found, Money, Price, Prices};
use plan::Asked;
use semantics::Amounts;

use crate::contract::{CostEstimate, CostPart};
use crate::identity::Caller;

/// The digits after the point of a cost.
const DIGITS: u32 = 4;

/// Reads the prices. Those that are not read in time are as if not set.
pub async fn prices(caller: &Caller) -> Found {
    tokio::time::timeout(PATIENCE, prices::read(&caller.client)).await.unwrap_or(Found::Nothing)
}

/// Returns what an hour of these amounts costs, with GPUs of this model; `None` without prices.
pub fn estimate(prices: &Found, amounts: &Amounts, model: &str) -> Option<CostEstimate> {
    let Found::Prices(prices) = prices else { return None };
    let cost = prices.hourly(amounts, model)?;
    let part = |part: &prices::Part| CostPart {
        resource: part.resource.clone(),
        amount: part.amount.clone(),
        price: part.price.map(Price::text).unwrap_or_default(),
        per_hour: part.price.map(|_| part.cost.rounded(DIGITS)).unwrap_or_default(),
    };
    Some(CostEstimate {
        message: cost.words(),
        per_hour: cost.per_hour.rounded(DIGITS),
        parts: cost.parts.iter().map(part).collect(),
        currency: cost.currency,
    })
}

/// Returns the model of GPUs that a job's pods ask for; empty if they name none.
pub fn model<'a>(asked: &'a Asked<'_>) -> &'a str {
    asked.groups.iter().filter_map(|group| group.pod.as_deref()).find_map(model_of).unwrap_or_default()
}

/// Returns the currency of the costs, and what they rest on or what is wrong with the prices; both empty without prices.
pub fn basis(prices: &Found) -> (String, String) {
    let place = format!("ConfigMap {} in namespace {}", prices::NAME, prices::NAMESPACE);
    match prices {
        Found::Nothing => (String::new(), String::new()),
        Found::Prices(prices) => (
            prices.currency.clone(),
            format!(
                "{} ({place}). Costs are those of what jobs held, used or not; a GPU counts by the model that the job's node selector names.",
                prices.words()
            ),
        ),
        Found::Fault(fault) => (String::new(), format!("No costs: {fault} ({place})")),
    }
}

/// Returns what a resource of a sum cost; `None` if some of it has no price.
pub fn of_used(prices: &Prices, used: &Used, resource: &str) -> Option<Money> {
    match resource {
        "cpu" => prices.cost(resource, "", used.cpu_millicore_seconds),
        "memory" => prices.cost(resource, "", used.memory_byte_seconds),
        _ => {
            let models = used.gpu_model_seconds.iter().filter(|((name, _), _)| name == resource);
            models
                .map(|((_, model), amount)| prices.cost(resource, model, *amount))
                .try_fold(Money::default(), |sum, cost| Some(sum.plus(cost?)))
        }
    }
}

/// Returns it as a text.
pub fn text(cost: Money) -> String {
    cost.rounded(DIGITS)
}
