//! Queue of messages from other nodes.

use parking_lot::Mutex;
use std::collections::VecDeque;

/// Limit of the bytes in the queue; the oldest messages beyond it are dropped. A guess: the messages of a thousand busy
/// nodes in a second or two.
const BYTES_MAX: usize = 64 << 20;

/// Texts in the order of their arrival. Bounded.
#[derive(Default)]
pub struct Inbox(Mutex<Texts>);

#[derive(Default)]
struct Texts {
    texts: VecDeque<String>,
    bytes: usize,
}

impl Inbox {
    pub fn put(&self, text: &str) {
        let mut inbox = self.0.lock();
        inbox.bytes += text.len();
        inbox.texts.push_back(text.to_owned());
        while inbox.bytes > BYTES_MAX
            && let Some(oldest) = inbox.texts.pop_front()
        {
            inbox.bytes -= oldest.len();
        }
    }

    /// Takes all messages.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock()).texts.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_the_newest_stay() {
        let inbox = Inbox::default();
        let text = |n: usize| n.to_string().repeat(BYTES_MAX / 4);
        (1..=6).for_each(|n| inbox.put(&text(n)));
        assert!(inbox.take() == [3, 4, 5, 6].map(text));
        assert!(inbox.take().is_empty());
        inbox.put("a");
        assert_eq!(inbox.take(), ["a"]);
    }
}
