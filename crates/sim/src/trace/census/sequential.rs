//! Sequentiality: whether a request starts where the one before ended, or where a recent stream ended.

use crate::trace::Record;

/// As many interleaved streams are followed, the same number that published figures of traces use.
const STREAMS: usize = 32;

/// Counts sequential requests, strictly and within streams.
#[derive(Debug, Default)]
pub struct Sequential {
    /// Ends of recent streams, latest first.
    ends: Vec<(u64, u64)>,
    strict: u64,
    in_streams: u64,
}

impl Sequential {
    /// Adds a read or write.
    pub fn add(&mut self, record: &Record) {
        let start = (record.space(), record.offset);
        let end = (record.space(), record.end());
        let found = self.ends.iter().position(|e| *e == start);
        if let Some(at) = found {
            self.strict += u64::from(at == 0);
            self.in_streams += 1;
            self.ends.remove(at);
        } else if self.ends.len() == STREAMS {
            self.ends.pop();
        }
        self.ends.insert(0, end);
    }

    /// Requests that start where the one before ended.
    pub fn strict(&self) -> u64 {
        self.strict
    }

    /// Requests that start where one of the recent streams ended.
    pub fn in_streams(&self) -> u64 {
        self.in_streams
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(streams: u64, rounds: u64) -> (u64, u64) {
        let mut s = Sequential::default();
        for round in 0..rounds {
            for stream in 0..streams {
                s.add(&Record { offset: (stream << 32) + round * 4096, length: 4096, ..Record::default() });
            }
        }
        (s.strict(), s.in_streams())
    }

    #[test]
    fn one_stream_is_strict_many_are_streams_too_many_are_random() {
        assert_eq!(shares(1, 10), (9, 9));
        assert_eq!(shares(32, 10), (0, 9 * 32));
        assert_eq!(shares(33, 10), (0, 0));
    }
}
