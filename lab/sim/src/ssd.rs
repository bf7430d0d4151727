//! A solid-state drive: parallel channels, cheap reads, and reads delayed by concurrent writes.
//!
//! Pages are striped over the channels. A channel handles one page at a time; a change between reading and writing
//! costs a pause. After every `erase_every_pages` written pages a channel is busy erasing. The interface transfers
//! all bytes serially.

use policy::time::Time;
use serde::Deserialize;

/// Parameters of a solid-state drive.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdModel {
    /// Name on the command line, or of the file.
    #[serde(skip)]
    pub name: String,
    /// Capacity in sectors of 512 bytes.
    pub sectors: u64,
    /// Number of parallel channels.
    pub channels: u32,
    /// Maximum of concurrent requests.
    pub slots: u32,
    /// Sectors in a page.
    pub page_sectors: u64,
    /// Time to read a page.
    pub read_ns: u64,
    /// Time to write a page.
    pub write_ns: u64,
    /// Time to change between reading and writing on a channel.
    pub turn_ns: u64,
    /// Pages written on a channel between two erasures.
    pub erase_every_pages: u64,
    /// Time of an erasure.
    pub erase_ns: u64,
    /// Time of the command overhead.
    pub overhead_ns: u64,
    /// Time of the interface, per sector.
    pub bus_sector_ns: u64,
}

/// State of a drive.
#[derive(Debug)]
pub struct Ssd {
    model: &'static SsdModel,
    channels: Vec<Channel>,
    bus_free_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    free_ns: u64,
    wrote: bool,
    written: u64,
}

impl SsdModel {
    /// Checks what the simulation takes for granted.
    pub(crate) fn check(&self) -> Result<(), String> {
        let above_0 = [
            (self.sectors, "sectors"),
            (self.channels.into(), "channels"),
            (self.slots.into(), "slots"),
            (self.page_sectors, "page_sectors"),
            (self.erase_every_pages, "erase_every_pages"),
        ];
        let wrong = above_0.iter().find(|(number, _)| *number == 0);
        wrong.map_or(Ok(()), |(_, name)| Err(format!("{name} of a solid-state drive are more than 0")))
    }
}

impl Ssd {
    /// Creates an idle drive.
    pub fn new(model: &'static SsdModel) -> Ssd {
        Ssd { model, channels: vec![Channel::default(); model.channels as usize], bus_free_ns: 0 }
    }

    /// Parameters of the drive.
    pub fn model(&self) -> &'static SsdModel {
        self.model
    }

    /// Begins a request; returns the time of its completion. Requests may overlap.
    pub fn serve(&mut self, now: Time, sector: u64, count: u64, write: bool) -> Time {
        let model = self.model;
        let start = now.0 + model.overhead_ns;
        let bus = |at: u64, free: &mut u64| {
            *free = at.max(*free) + count * model.bus_sector_ns;
            *free
        };
        // Written data crosses the interface before it is stored, read data after.
        let begin = if write { bus(start, &mut self.bus_free_ns) } else { start };
        let pages = sector / model.page_sectors..=(sector + count - 1) / model.page_sectors;
        let stored = pages.map(|page| self.page(begin, page, write)).max().unwrap_or(begin);
        Time(if write { stored } else { bus(stored, &mut self.bus_free_ns) })
    }

    fn page(&mut self, at: u64, page: u64, write: bool) -> u64 {
        let model = self.model;
        let count = self.channels.len() as u64;
        let channel = &mut self.channels[(page % count) as usize];
        let turn = if channel.wrote == write { 0 } else { model.turn_ns };
        channel.wrote = write;
        let took = turn + if write { model.write_ns } else { model.read_ns };
        let done = at.max(channel.free_ns) + took;
        channel.free_ns = done;
        if write {
            channel.written += 1;
            if channel.written.is_multiple_of(model.erase_every_pages) {
                channel.free_ns += model.erase_ns;
            }
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sata() -> Ssd {
        let file = crate::disk::devices::find("ssd-sata").expect("no file is read").expect("it is built in");
        Ssd::new(file.ssd.as_ref().expect("a solid-state drive"))
    }

    #[test]
    fn pages_on_different_channels_overlap_and_on_one_channel_do_not() {
        let mut ssd = sata();
        let one = ssd.serve(Time::ZERO, 0, 8, false);
        let mut ssd = sata();
        let eight = ssd.serve(Time::ZERO, 0, 64, false);
        let mut ssd = sata();
        let sixteen = ssd.serve(Time::ZERO, 0, 128, false);
        assert_eq!(one, Time(20_000 + 50_000 + 8_000));
        assert_eq!(eight, Time(20_000 + 50_000 + 64_000));
        assert_eq!(sixteen, Time(20_000 + 100_000 + 128_000));
    }

    #[test]
    fn a_read_behind_a_write_on_its_channel_waits_and_turns() {
        let mut ssd = sata();
        let write = ssd.serve(Time::ZERO, 0, 8, true);
        let read = ssd.serve(Time::ZERO, 64, 8, false);
        assert!(write > Time(200_000));
        assert_eq!(read, write + Time(20_000 + 50_000 + 8_000));
        let elsewhere = sata().serve(Time::ZERO, 8, 8, false);
        assert!(elsewhere < write);
    }

    #[test]
    fn erasing_falls_to_those_who_come_after() {
        let mut ssd = sata();
        let mut now = Time::ZERO;
        let mut longest = 0;
        for n in 0..600 {
            let done = ssd.serve(now, n % 8 * 64, 8, true);
            longest = longest.max((done - now).0);
            now = done;
        }
        assert!(longest > 2_000_000);
    }
}
