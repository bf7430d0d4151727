//! The sizes of Linux's read-ahead windows: the first one of a stream, and the next after a given one (section 3.3).

/// Returns the first window for a request of `asked` blocks.
pub fn initial(asked: u32, max: u32) -> u32 {
    let rounded = asked.max(1).checked_next_power_of_two().unwrap_or(max);
    if rounded <= max / 32 {
        rounded * 4
    } else if rounded <= max / 4 {
        rounded * 2
    } else {
        max
    }
}

/// Returns the window after one of `size` blocks.
pub fn next(size: u32, max: u32) -> u32 {
    let grown = if size < max / 16 { size.saturating_mul(4) } else { size.saturating_mul(2) };
    grown.min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sizes() {
        let sizes = [(1, 4), (2, 4), (3, 8), (4, 8), (5, 16), (8, 16), (9, 32), (10, 32), (16, 32), (32, 32)];
        for (asked, size) in sizes {
            assert_eq!(initial(asked, 32), size, "for a request of {asked}");
        }
        let growth: Vec<u32> = std::iter::successors(Some(4), |&size| (size < 32).then(|| next(size, 32))).collect();
        assert_eq!(growth, [4, 8, 16, 32]);
    }
}
