//! Arm and spindle: time at which a run of sectors passes under the head, given the arm's position.
//!
//! The spindle never stops, so the angle is the time modulo one revolution, and the arm's position is the only state.
//! All times are in whole nanoseconds.
//!
//! A head that continues at its position only crosses to the next track when it must. Any other access, even on the
//! same track, must settle first: it takes at least a seek to the next cylinder, which is mostly settling.

use super::geometry::{Geometry, Place};
use super::model::Model;
use super::seek::SeekCurve;

/// Moving parts of a drive.
#[derive(Debug)]
pub struct Mechanics {
    geometry: Geometry,
    seeks: SeekCurve,
    revolution_ns: u64,
    head_switch_ns: u64,
    write_settle_ns: u64,
}

/// Position of the arm: a cylinder, the active head, and the next sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arm {
    /// Number of the cylinder.
    pub cylinder: u32,
    /// Number of the active head.
    pub surface: u32,
    /// Sector behind the last one that passed.
    pub next: u64,
}

/// Sectors that pass under one head without a pause.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// First sector of the pass.
    pub sector: u64,
    /// Number of sectors.
    pub count: u64,
    /// Time at which the first one begins to pass.
    pub start_ns: u64,
    /// Duration of the arm's movement.
    pub seek_ns: u64,
    /// Wait for the first sector after that.
    pub rotation_ns: u64,
    /// Sectors of the same track before the first one.
    pub track_before: u64,
    cylinder: u32,
    surface: u32,
    revolution_ns: u64,
    track_sectors: u64,
}

impl Mechanics {
    /// Creates the moving parts of `model`.
    pub fn new(model: &Model) -> Mechanics {
        Mechanics {
            geometry: Geometry::new(model),
            seeks: SeekCurve::new(model),
            revolution_ns: model.revolution_ns(),
            head_switch_ns: model.head_switch_ns,
            write_settle_ns: model.write_settle_ns,
        }
    }

    /// Number of sectors that a host can address.
    pub fn sectors(&self) -> u64 {
        self.geometry.sectors()
    }

    /// Positions for `sector`, from `at_ns` on with the arm at `arm`, and passes over the part of `count` sectors
    /// that is on one track.
    pub fn pass(&self, at_ns: u64, arm: Arm, sector: u64, count: u64, write: bool) -> Pass {
        let place = self.geometry.place(sector);
        let seek_ns = self.move_ns(arm, place, sector, write);
        let ready = at_ns + seek_ns;
        let target = u64::from(place.angle_sectors) * self.revolution_ns / u64::from(place.track_sectors);
        let rotation_ns = (target + self.revolution_ns - ready % self.revolution_ns) % self.revolution_ns;
        Pass {
            sector,
            count: count.min(self.geometry.run(sector)),
            start_ns: ready + rotation_ns,
            seek_ns,
            rotation_ns,
            track_before: u64::from(place.sector),
            cylinder: place.cylinder,
            surface: place.surface,
            revolution_ns: self.revolution_ns,
            track_sectors: u64::from(place.track_sectors),
        }
    }

    fn move_ns(&self, arm: Arm, place: Place, sector: u64, write: bool) -> u64 {
        let goes_on = arm.next == sector;
        if goes_on && arm.cylinder == place.cylinder && arm.surface == place.surface {
            return 0;
        }
        let head = if arm.surface == place.surface { 0 } else { self.head_switch_ns };
        let settle = if goes_on { 0 } else { self.seeks.ns(1) };
        let write_settle = if write { self.write_settle_ns } else { 0 };
        self.seeks.ns(arm.cylinder.abs_diff(place.cylinder)).max(head).max(settle) + write_settle
    }
}

impl Pass {
    /// Returns the time at which `count` sectors have passed.
    pub fn passed_ns(&self, count: u64) -> u64 {
        self.start_ns + count * self.revolution_ns / self.track_sectors
    }

    /// Returns the arm's position after `count` sectors.
    pub fn arm_after(&self, count: u64) -> Arm {
        Arm { cylinder: self.cylinder, surface: self.surface, next: self.sector + count }
    }

    /// Returns the arm's position at the end.
    pub fn arm(&self) -> Arm {
        self.arm_after(self.count)
    }

    /// Returns the number of sectors that passed between the arm's arrival and the first one.
    pub fn passed_before(&self) -> u64 {
        (self.rotation_ns * self.track_sectors / self.revolution_ns).min(self.track_before)
    }

    /// Returns the time at which the last sector has passed.
    pub fn end_ns(&self) -> u64 {
        self.passed_ns(self.count)
    }

    /// Returns the sector behind the last one.
    pub fn next(&self) -> u64 {
        self.sector + self.count
    }

    /// Returns the number of sectors that have passed at `now_ns`.
    pub fn passed(&self, now_ns: u64) -> u64 {
        if now_ns <= self.start_ns {
            return 0;
        }
        let mut count = ((now_ns - self.start_ns) * self.track_sectors / self.revolution_ns).min(self.count);
        // The end of a sector is rounded down, so the division may be one too low.
        if count < self.count && self.passed_ns(count + 1) <= now_ns {
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::model::CHEETAH9LP;

    #[test]
    fn one_revolution_is_the_published_one() {
        assert_eq!(Mechanics::new(&CHEETAH9LP).revolution_ns, 5_973_121);
        assert!((CHEETAH9LP.revolution_ns() as f64 / 1e6 - 5.9731).abs() < 0.0001);
    }

    #[test]
    fn a_track_takes_a_revolution_and_the_skew_hides_the_head_switch() {
        let mechanics = Mechanics::new(&CHEETAH9LP);
        let first = mechanics.pass(0, Arm::default(), 0, 1000, false);
        assert_eq!((first.start_ns, first.count, first.end_ns()), (0, 254, mechanics.revolution_ns));
        let second = mechanics.pass(first.end_ns(), first.arm(), first.next(), 1000, false);
        let skew_ns = 97 * mechanics.revolution_ns / 254;
        assert_eq!(second.start_ns, first.end_ns() + skew_ns);
        assert_eq!(second.seek_ns, 30_000);
        assert_eq!(second.seek_ns + second.rotation_ns, skew_ns);
    }

    #[test]
    fn whoever_does_not_go_on_has_to_settle() {
        let mechanics = Mechanics::new(&CHEETAH9LP);
        let first = mechanics.pass(0, Arm::default(), 0, 8, false);
        assert_eq!(mechanics.pass(first.end_ns(), first.arm(), 8, 8, false).seek_ns, 0);
        for sector in [0, 7, 9, 254 + 100] {
            assert_eq!(mechanics.pass(first.end_ns(), first.arm(), sector, 8, false).seek_ns, 831_000, "{sector}");
            assert_eq!(mechanics.pass(first.end_ns(), first.arm(), sector, 8, true).seek_ns, 831_000 + 461_000);
        }
    }

    #[test]
    fn what_passed_before_ends_at_the_arrival_and_at_the_tracks_first_sector() {
        let mechanics = Mechanics::new(&CHEETAH9LP);
        let pass = mechanics.pass(0, Arm::default(), 100, 8, false);
        let arrived = 831_000 * 254 / CHEETAH9LP.revolution_ns();
        assert_eq!(pass.passed_before(), 100 - arrived - 1);
        assert_eq!(mechanics.pass(0, Arm::default(), 20, 8, false).passed_before(), 20, "nearly a revolution");
    }

    #[test]
    fn media_rate_falls_from_the_outer_to_the_inner_zone() {
        let mechanics = Mechanics::new(&CHEETAH9LP);
        let rate = |sector: u64| {
            let pass = mechanics.pass(0, Arm::default(), sector, 1000, false);
            pass.count as f64 * 512.0 / (pass.end_ns() - pass.start_ns) as f64 * 1e3
        };
        assert!((rate(0) - 21.8).abs() < 0.1, "{}", rate(0));
        assert!((rate(17_783_240 - 167 * 20) - 14.3).abs() < 0.1);
    }

    #[test]
    fn what_has_passed_agrees_with_when_it_passes() {
        let pass = Mechanics::new(&CHEETAH9LP).pass(1_000_000, Arm::default(), 777_777, 500, false);
        for count in 1..=pass.count {
            assert_eq!(pass.passed(pass.passed_ns(count)), count);
            assert_eq!(pass.passed(pass.passed_ns(count) - 1), count - 1);
        }
    }
}
