//! Sequentiality: whether a request starts at the end of the previous request, or of one of the previous 32, on its
//! device.

use crate::trace::Record;
use std::collections::HashMap;

/// Number of previous requests that are compared: the one that published figures use for interleaved streams.
const LOOK_BACK: usize = 32;

/// An address space and an offset in it.
type Place = (u64, u64);

/// Counts sequential requests, strictly and within interleaved streams.
#[derive(Debug, Default)]
pub struct Sequential {
    devices: HashMap<u16, Ends>,
    strict: u64,
    in_streams: u64,
}

/// Ends of the last requests to a device, as a ring.
#[derive(Debug, Default)]
struct Ends {
    ring: Vec<Place>,
    latest: usize,
}

impl Ends {
    fn add(&mut self, end: Place) {
        if self.ring.len() < LOOK_BACK {
            self.latest = self.ring.len();
            self.ring.push(end);
        } else {
            self.latest = (self.latest + 1) % LOOK_BACK;
            self.ring[self.latest] = end;
        }
    }
}

impl Sequential {
    /// Adds a read or write.
    pub fn add(&mut self, record: &Record) {
        let ends = self.devices.entry(record.device).or_default();
        let start = (record.space(), record.offset);
        let strict = ends.ring.get(ends.latest) == Some(&start);
        self.strict += u64::from(strict);
        self.in_streams += u64::from(strict || ends.ring.contains(&start));
        ends.add((record.space(), record.end()));
    }

    /// Number of requests that start at the end of the previous one on the device.
    pub fn strict(&self) -> u64 {
        self.strict
    }

    /// Number of requests that start at the end of one of the previous 32 on the device.
    pub fn in_streams(&self) -> u64 {
        self.in_streams
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(streams: u64, rounds: u64, device: impl Fn(u64) -> u16) -> (u64, u64) {
        let mut s = Sequential::default();
        for round in 0..rounds {
            for stream in 0..streams {
                let (offset, device) = ((stream << 32) + round * 4096, device(stream));
                s.add(&Record { offset, length: 4096, device, ..Record::default() });
            }
        }
        (s.strict(), s.in_streams())
    }

    #[test]
    fn one_stream_is_strict_many_are_streams_too_many_are_random() {
        assert_eq!(shares(1, 10, |_| 0), (9, 9));
        assert_eq!(shares(32, 10, |_| 0), (0, 9 * 32));
        assert_eq!(shares(33, 10, |_| 0), (0, 0));
    }

    #[test]
    fn devices_do_not_disturb_each_other() {
        assert_eq!(shares(40, 10, |stream| stream as u16), (9 * 40, 9 * 40));
    }

    #[test]
    fn the_same_offset_of_another_file_is_another_place() {
        let mut s = Sequential::default();
        s.add(&Record { length: 10, file: 1, ..Record::default() });
        s.add(&Record { offset: 10, length: 10, file: 2, ..Record::default() });
        assert_eq!((s.strict(), s.in_streams()), (0, 0));
    }
}
