//! Promotion at the access: bytes that are read or written are in memory, so that moving them needs no read.

use super::Reorganizer;
use crate::tier::tuned::Tuned;
use crate::tier::{Location, Move, Reason, Tier};
use crate::time::Time;

/// Most waiting promotions at the access, in multiples of the limit on moves under way.
const URGENT_PER_MOVE: usize = 8;

/// A move that is made at once or not at all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Urgent {
    pub of: Move,
    /// Bytes that the slow tier has to read or write for it.
    pub slow_bytes: u64,
}

impl Reorganizer {
    /// Considers a promotion after an access to `bytes` of a location on the slow tier.
    pub(super) fn arrive(&mut self, now: Time, location: Location, bytes: u64) {
        let Some(tuned) = &self.tuned else { return };
        if !self.config.on_access
            || self.urgent.len() >= self.config.moves_max.saturating_mul(URGENT_PER_MOVE)
            || self.moving.contains_key(&location)
            || self.is_away(location)
            || self.urgent.iter().any(|urgent| urgent.of.location == location)
        {
            return;
        }
        let (rest, block_bytes) = (self.config.block_bytes.saturating_sub(bytes), self.config.block_bytes as f64);
        let offer = tuned.at_hand(location, rest as f64, block_bytes);
        if offer.saves_ns <= offer.costs_ns || offer.now_ns <= 0.0 {
            return;
        }
        let waiting = self.urgent.iter().filter(|urgent| urgent.of.to == Tier::Fast).count() as u64;
        let leaving = self.urgent.iter().filter(|urgent| urgent.of.to == Tier::Slow).count()
            + self.moving.values().filter(|of| of.to == Tier::Slow).count();
        if self.room() + leaving as u64 <= waiting {
            let Some((loss, victim)) = self.victim(now) else { return };
            if offer.now_ns <= loss {
                self.victims.push_front(victim);
                return;
            }
            let of = Move { location: victim, to: Tier::Slow, reason: Reason::Room { worth_ns: loss as u64 } };
            let slow_bytes = if self.copies.contains(victim) { 0 } else { self.config.block_bytes };
            self.urgent.push_back(Urgent { of, slow_bytes });
        }
        let reason = Reason::AtHand { saves_ns: offer.saves_ns as u64, costs_ns: offer.costs_ns as u64 };
        self.urgent.push_back(Urgent { of: Move { location, to: Tier::Fast, reason }, slow_bytes: rest });
    }

    /// Returns the location on the fast tier with the least loss, and the loss. Excludes locations accessed since the
    /// ranking.
    fn victim(&mut self, now: Time) -> Option<(f64, Location)> {
        // Ranking costs as much as one pass over all locations: at most once per change of a quarter of them.
        if self.ranked.1 * 4 >= self.fast.len() as u64 {
            self.rank(now);
        }
        while let Some(at) = self.victims.pop_front() {
            let since = |last: Time| last > self.ranked.0;
            let touched = [&self.read, &self.write].iter().any(|t| t.get(at).is_some_and(|e| since(e.last())));
            if !touched && self.fast.contains(&at) && !self.is_moving(at) && !self.is_away(at) {
                let loss = |tuned: &Tuned| tuned.loss(at, self.copies.contains(at), self.config.block_bytes as f64);
                return Some((self.tuned.as_ref().map_or(0.0, loss), at));
            }
        }
        None
    }

    /// Ranks the locations that may leave the fast tier.
    pub(super) fn rank(&mut self, now: Time) {
        if let (true, Some(tuned)) = (self.config.on_access, &self.tuned) {
            self.victims = tuned.by_loss(&self.fast, self.copies.held(), self.config.block_bytes as f64).into();
            self.ranked = (now, 0);
        }
    }

    /// Returns the next move that is made at once, if it is permitted.
    pub(super) fn poll_urgent(&mut self, now: Time) -> Option<Move> {
        while let Some(&Urgent { of, slow_bytes }) = self.urgent.front() {
            let pointless = self.tier(of.location) == of.to || self.is_moving(of.location) || self.is_away(of.location);
            let leaving = self.moving.values().any(|of| of.to == Tier::Slow);
            if pointless || (of.to == Tier::Fast && self.room() == 0 && !leaving) {
                self.urgent.pop_front();
                continue;
            }
            if of.to == Tier::Fast && self.room() == 0
                || self.moving.len() >= self.config.moves_max.saturating_mul(URGENT_PER_MOVE)
            {
                return None;
            }
            if slow_bytes > 0 {
                if now < self.may_at()? {
                    return None;
                }
                self.spend(now, slow_bytes);
            }
            self.urgent.pop_front();
            return Some(of);
        }
        None
    }
}
