//! Numbers for names of files, hosts and disks, in the order of appearance, up to a limit.

use super::Reason;
use std::collections::HashMap;

/// Maximum of bytes of names; more suggest a wrong format.
const BYTES_MAX: usize = 256 << 20;

/// Numbers assigned to names.
#[derive(Debug)]
pub struct Names {
    numbers: HashMap<Box<[u8]>, u32>,
    /// Name of the last line: consecutive lines mostly have the same.
    last: Option<(Box<[u8]>, u32)>,
    first: u32,
    count_max: usize,
    bytes: usize,
}

impl Names {
    /// Creates a table of at most `count_max` numbers from `first` on.
    pub fn new(first: u32, count_max: usize) -> Names {
        Names { numbers: HashMap::new(), last: None, first, count_max, bytes: 0 }
    }

    /// Creates a table of files, numbered from 1.
    pub fn of_files() -> Names {
        Names::new(1, 16 << 20)
    }

    /// Creates a table of devices, numbered from 0, in 16 bits.
    pub fn of_devices() -> Names {
        Names::new(0, 1 << 16)
    }

    /// Returns the number of a name.
    pub fn number(&mut self, name: &[u8]) -> Result<u32, Reason> {
        if let Some((last, number)) = &self.last
            && **last == *name
        {
            return Ok(*number);
        }
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None if self.numbers.len() >= self.count_max || self.bytes + name.len() > BYTES_MAX => {
                return Err(Reason::TooManyNames);
            }
            None => {
                let number = self.first + self.numbers.len() as u32;
                self.numbers.insert(name.into(), number);
                self.bytes += name.len();
                number
            }
        };
        self.last = Some((name.into(), number));
        Ok(number)
    }

    /// Returns the number of a device.
    pub fn device(&mut self, name: &[u8]) -> Result<u16, Reason> {
        u16::try_from(self.number(name)?).map_err(|_| Reason::TooManyNames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_appearance_and_end() {
        let mut names = Names::new(1, 2);
        let numbers = [&b"a"[..], b"b", b"a", b"a"].map(|n| names.number(n));
        assert_eq!(numbers, [Ok(1), Ok(2), Ok(1), Ok(1)]);
        assert_eq!(names.number(b"c"), Err(Reason::TooManyNames));
        assert_eq!(names.number(b"b"), Ok(2));
        let mut devices = Names::of_devices();
        for n in 0..=u16::MAX {
            assert_eq!(devices.device(&n.to_le_bytes()), Ok(n));
        }
        assert_eq!(devices.device(b"one more"), Err(Reason::TooManyNames));
    }
}
