//! Decoder of the keys that a terminal sends.

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A printable ASCII character.
    Char(char),
    /// The tabulator key.
    Tab,
    /// Arrow key up.
    Up,
    /// Arrow key down.
    Down,
    /// A screenful up.
    PageUp,
    /// A screenful down.
    PageDown,
}

const ESCAPE: u8 = 0x1b;
/// Longer than the sequence of any key.
const SEQUENCE_BYTES_MAX: usize = 16;

/// Takes the next key from the typed bytes. An incomplete sequence stays until its rest comes; an unknown one is
/// dropped.
pub fn take(typed: &mut Vec<u8>) -> Option<Key> {
    loop {
        let (key, len) = match typed.as_slice() {
            [] => return None,
            [ESCAPE, rest @ ..] => match sequence(rest) {
                Some((key, len)) => (key, len + 1),
                None if typed.len() < SEQUENCE_BYTES_MAX => return None,
                None => (None, typed.len()),
            },
            [b'\t', ..] => (Some(Key::Tab), 1),
            [byte, ..] if byte.is_ascii_graphic() || *byte == b' ' => (Some(Key::Char(char::from(*byte))), 1),
            _ => (None, 1),
        };
        typed.drain(..len);
        if key.is_some() {
            return key;
        }
    }
}

/// Decodes an escape sequence without its escape: key and length; `None` while it is incomplete.
fn sequence(rest: &[u8]) -> Option<(Option<Key>, usize)> {
    match rest {
        [] | [b'[' | b'O'] => None,
        [b'[' | b'O', body @ ..] => {
            let end = body.iter().position(|byte| (0x40..=0x7e).contains(byte))?;
            let key = match &body[..=end] {
                b"A" => Some(Key::Up),
                b"B" => Some(Key::Down),
                b"5~" => Some(Key::PageUp),
                b"6~" => Some(Key::PageDown),
                _ => None,
            };
            Some((key, end + 2))
        }
        // A character with Alt, or the escape key and then another key.
        _ => Some((None, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(chunks: &[&[u8]]) -> Vec<Key> {
        let mut typed = Vec::new();
        let mut keys = Vec::new();
        for chunk in chunks {
            typed.extend_from_slice(chunk);
            keys.extend(std::iter::from_fn(|| take(&mut typed)));
        }
        keys
    }

    #[test]
    fn arrows_are_no_letters_however_slowly_they_come() {
        assert_eq!(all(&[b"1s\tq"]), [Key::Char('1'), Key::Char('s'), Key::Tab, Key::Char('q')]);
        assert_eq!(all(&[b"\x1b[A\x1bOB\x1b[5~\x1b[6~"]), [Key::Up, Key::Down, Key::PageUp, Key::PageDown]);
        assert_eq!(all(&[b"\x1b", b"[", b"6", b"~r"]), [Key::PageDown, Key::Char('r')]);
    }

    #[test]
    fn what_is_no_key_is_dropped_and_never_kept_for_ever() {
        // Home, F5 with Shift, Alt-x, UTF-8, a control character.
        assert_eq!(all(&[b"\x1b[1~\x1b[15;2~", "é\u{1}q".as_bytes()]), [Key::Char('q')]);
        assert_eq!(all(&[b"\x1b\x1b[A"]), [Key::Up]);
        assert_eq!(all(&[b"\x1bq"]), [Key::Char('q')]);
        assert_eq!(all(&[b"\x1b[", &[b'1'; 20], b"q"]), [Key::Char('q')]);
    }
}
