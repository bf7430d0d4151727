//! The last requests of a file, in a ring of [`WINDOW`] entries.

use policy::pattern::Request;
use policy::pattern::features::WINDOW;
use std::collections::VecDeque;

/// Last requests of a file, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    requests: VecDeque<Request>,
}

impl Recent {
    /// Adds a request; the oldest makes room.
    pub fn add(&mut self, request: Request) {
        if self.requests.len() == WINDOW {
            self.requests.pop_front();
        }
        self.requests.push_back(request);
    }

    /// Returns the window, oldest request first.
    pub fn window(&mut self) -> &[Request] {
        self.requests.make_contiguous()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_makes_room() {
        let mut recent = Recent::default();
        (0..100).for_each(|offset| recent.add(Request { write: false, offset, len: 1 }));
        let window = recent.window();
        assert_eq!((window.len(), window[0].offset, window[WINDOW - 1].offset), (WINDOW, 36, 99));
    }
}
