//! Slows an address down that fails to prove itself again and again.
//!
//! Attempts of a slowed address wait in line: each takes the next free moment, so many connections at once gain nothing.
//! Success doesn't help either: who knows one password could else guess another's between. Only time does.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failures that cost nothing: people mistype.
pub const FREE: u32 = 5;
/// What the first failure beyond costs; each further one twice as much.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// The most that one costs.
const MAX_DELAY: Duration = Duration::from_secs(16);
/// Who would wait longer than this in line is turned away.
const MAX_WAIT: Duration = Duration::from_secs(32);
/// After so long without a failure an address is forgotten.
const FORGET: Duration = Duration::from_secs(600);
/// Addresses that are remembered; the one that failed least recently goes first.
const MOST: usize = 4096;

/// Remembers who failed.
#[derive(Debug, Default)]
pub struct Throttle {
    addresses: Mutex<BTreeMap<IpAddr, Failures>>,
}

#[derive(Debug)]
struct Failures {
    count: u32,
    last: Instant,
    /// When the next attempt may be made.
    free_at: Instant,
}

impl Failures {
    fn delay(&self) -> Duration {
        match self.count.checked_sub(FREE) {
            None | Some(0) => Duration::ZERO,
            Some(n) => FIRST_DELAY.saturating_mul(1 << (n - 1).min(16)).min(MAX_DELAY),
        }
    }
}

impl Throttle {
    /// How long an attempt from an address has to wait. `None`: too many wait already.
    pub fn attempt(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(failures) = addresses.get_mut(&network(address)) else { return Some(Duration::ZERO) };
        let delay = failures.delay();
        if delay.is_zero() || now.duration_since(failures.last) > FORGET {
            return Some(Duration::ZERO);
        }
        let start = failures.free_at.max(now) + delay;
        let wait = start.duration_since(now);
        if wait > MAX_WAIT {
            return None;
        }
        failures.free_at = start;
        Some(wait)
    }

    /// An attempt has failed.
    pub fn failed(&self, address: IpAddr, now: Instant) {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let network = network(address);
        if addresses.len() >= MOST && !addresses.contains_key(&network) {
            addresses.retain(|_, failures| now.duration_since(failures.last) <= FORGET);
            let oldest = addresses.iter().min_by_key(|(_, failures)| failures.last).map(|(address, _)| *address);
            if let Some(oldest) = oldest.filter(|_| addresses.len() >= MOST) {
                addresses.remove(&oldest);
            }
        }
        let failures = addresses.entry(network).or_insert(Failures { count: 0, last: now, free_at: now });
        if now.duration_since(failures.last) > FORGET {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
    }
}

/// What counts as one client's address: a client of IPv6 has a whole network to itself.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[test]
    fn each_failure_beyond_the_free_ones_costs_twice_as_much() {
        let (throttle, mut now) = (Throttle::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..13 {
            let wait = throttle.attempt(HOME, now).unwrap();
            waits.push(wait.as_millis());
            now += wait;
            throttle.failed(HOME, now);
        }
        assert_eq!(waits, [0, 0, 0, 0, 0, 0, 250, 500, 1000, 2000, 4000, 8000, 16000]);
    }

    #[test]
    fn many_at_once_wait_in_line_and_then_are_turned_away() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        (0..10).for_each(|_| throttle.failed(HOME, now));
        let waits: Vec<_> = (0..9).map(|_| throttle.attempt(HOME, now).map(|wait| wait.as_secs())).collect();
        assert_eq!(waits, [Some(4), Some(8), Some(12), Some(16), Some(20), Some(24), Some(28), Some(32), None]);
    }

    #[test]
    fn others_are_not_slowed_and_time_heals() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        (0..20).for_each(|_| throttle.failed(HOME, now));
        assert_eq!(throttle.attempt("192.0.2.2".parse().unwrap(), now), Some(Duration::ZERO));
        assert_ne!(throttle.attempt(HOME, now + FORGET), Some(Duration::ZERO));
        assert_eq!(throttle.attempt(HOME, now + FORGET + Duration::from_secs(60)), Some(Duration::ZERO));
    }

    #[test]
    fn a_network_of_ipv6_is_one_client_and_a_mapped_address_is_that_of_ipv4() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        (0..10).for_each(|n| throttle.failed(format!("2001:db8::{n}").parse().unwrap(), now));
        assert_ne!(throttle.attempt("2001:db8::ffff".parse().unwrap(), now), Some(Duration::ZERO));
        assert_eq!(throttle.attempt("2001:db8:0:1::1".parse().unwrap(), now), Some(Duration::ZERO));
        (0..10).for_each(|_| throttle.failed("::ffff:192.0.2.1".parse().unwrap(), now));
        assert_ne!(throttle.attempt(HOME, now), Some(Duration::ZERO));
    }

    #[test]
    fn memory_is_bounded_and_who_failed_last_is_kept() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        (0..10).for_each(|_| throttle.failed(HOME, now + Duration::from_secs(1)));
        for n in 0..u32::try_from(2 * MOST).unwrap() {
            throttle.failed(std::net::Ipv4Addr::from_bits(n).into(), now);
        }
        assert_eq!(throttle.addresses.lock().unwrap().len(), MOST);
        assert_ne!(throttle.attempt(HOME, now + Duration::from_secs(1)), Some(Duration::ZERO));
    }
}
