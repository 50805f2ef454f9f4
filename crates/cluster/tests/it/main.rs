//! Integration tests of the embedded cluster, with real processes and sockets.

#[cfg(test)]
mod access;
#[cfg(test)]
mod admission;
#[cfg(test)]
mod admission_policies;
#[cfg(test)]
mod api;
#[cfg(test)]
mod budgets;
#[cfg(test)]
mod claims;
#[cfg(test)]
mod control;
#[cfg(test)]
mod cron_jobs;
#[cfg(test)]
mod hardening;
#[cfg(test)]
mod kubectl;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod personas;
#[cfg(test)]
mod pods;
#[cfg(test)]
mod policies;
#[cfg(test)]
mod sandbox;
#[cfg(test)]
mod scheduling;
#[cfg(test)]
mod served;
#[cfg(test)]
mod services;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod trouble;
#[cfg(test)]
mod webhooks;
