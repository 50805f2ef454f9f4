//! Keeps glibc's allocator from holding what bursts of work needed. Of 76 MiB that it held after 300 jobs had started, 24 were
//! in use: each thread's arena keeps its own peak, and freed pages between objects that live on stay resident.

#![cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "mallopt and malloc_trim have no safe wrapper")
)]

use std::time::Duration;

use crate::vitals::Vitals;

/// Work is looked for this often.
const PAUSE: Duration = Duration::from_secs(5);

/// Lets all threads share one arena. Has to be called before there is a second thread.
pub fn share_one_arena() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it changes a setting of the allocator and nothing else, under the allocator's lock.
    unsafe {
        nix::libc::mallopt(nix::libc::M_ARENA_MAX, 1);
    }
}

/// Returns freed memory to the system while passes over jobs end, and once more after the last. It keeps the peak of a burst low.
pub async fn return_freed(vitals: Vitals) {
    trim_when(vitals, |ended, before, _| ended != before).await;
}

/// Returns freed memory to the system once passes over jobs have ended and no more do. It takes no time from a burst, and is for
/// programs that do more than these passes.
pub async fn return_freed_when_quiet(vitals: Vitals) {
    trim_when(vitals, |ended, before, returned| ended == before && ended != returned).await;
}

/// Trims when it is due by the number of passes that have ended, had ended at the last look, and at the last trim.
async fn trim_when(vitals: Vitals, is_due: impl Fn(u64, u64, u64) -> bool) {
    let mut pause = tokio::time::interval(PAUSE);
    pause.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut before, mut returned) = (0, 0);
    loop {
        pause.tick().await;
        let ended = vitals.metrics.passes_ended();
        if is_due(ended, before, returned) {
            trim();
            returned = ended;
        }
        before = ended;
    }
}

fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it returns pages that hold no allocation, under the allocator's lock.
    unsafe {
        nix::libc::malloc_trim(0);
    }
}
