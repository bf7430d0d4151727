//! A state as one number of 64 bits: two of a few million states hardly ever share one.

use super::*;

/// Hash over words.
struct Mix(u64);

impl Mix {
    fn word(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(23) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 29;
    }
}

fn packed(bytes: [u8; 8]) -> u64 {
    u64::from_le_bytes(bytes)
}

fn of_mark(mark: Option<(u8, u8, u8)>) -> [u8; 3] {
    mark.map_or([0; 3], |(kind, first, second)| [kind + 1, first, second])
}

impl State {
    /// Hash of the state; never 0.
    pub fn fingerprint(&self) -> u64 {
        let mut mix = Mix(0);
        for host in &self.hosts {
            host.mix(&mut mix);
        }
        for (n, layout) in self.layouts.iter().enumerate() {
            let (by, objects, (node, drains)) = (layout.by, layout.objects, self.claims[n]);
            if by > 0 || node > 0 {
                mix.word(packed([n as u8, by, objects[0], objects[1], node, u8::from(drains), 0, 0]));
            }
        }
        for bytes in [self.writers[..8].try_into(), self.writers[8..].try_into(), self.objects[..8].try_into()] {
            mix.word(packed(bytes.unwrap()));
        }
        let [o8, o9, o10, o11] = self.objects[8..] else { unreachable!() };
        let [kind, first, second] = of_mark(self.late);
        mix.word(packed([o8, o9, o10, o11, kind, first, second, self.next_object]));
        for marks in [&self.grows[..8], &self.grows[8..]] {
            mix.word(packed(marks.try_into().unwrap()));
        }
        let [c0, c1] = self.cuts.to_le_bytes();
        mix.word(packed([self.size, self.gone, c0, c1, self.faults.fails, self.stray, self.shortened, 0]));
        mix.word(packed(self.before));
        let faults = &self.faults;
        let [lapses, expulsions, crashes, bells] = [faults.lapses, faults.expulsions, faults.crashes, faults.bells];
        let [silent, doubts, late, give_ups] = [faults.silent, faults.doubts, faults.late, faults.give_ups];
        mix.word(packed([lapses, expulsions, crashes, bells, silent, doubts, late, give_ups]));
        let ([o0, o1], [h0, h1]) = (self.over.to_le_bytes(), self.happened.to_le_bytes());
        mix.word(packed([o0, o1, h0, h1, self.begun, self.acknowledged, self.broken, 0]));
        (mix.0 ^ (mix.0 >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93) | 1
    }
}

impl Host {
    fn mix(&self, mix: &mut Mix) {
        let [first, second] = self.layout;
        mix.word(packed([
            self.at as u8,
            self.number,
            self.op,
            self.entry,
            first,
            second,
            self.generation,
            self.loaded,
        ]));
        let bits = [self.crashed, self.lapsed, self.registered, self.bell, self.gives_up];
        let bits = bits.iter().fold(0, |bits, bit| bits << 1 | u8::from(*bit));
        let (node, generation, drains) = self.claim.unwrap_or_default();
        let ([r0, r1], exists) = (self.ring.to_le_bytes(), self.exists.map_or(0, |exists| 1 + u8::from(exists)));
        mix.word(packed([bits, node, generation, u8::from(drains), r0, r1, exists, self.fresh]));
        let [kind, first, second] = of_mark(self.mark);
        let then = self.then.map_or(0, |then| 1 + then as u8);
        mix.word(packed([kind, first, second, then, self.since, 0, 0, 0]));
        self.sizes.mix(mix);
    }
}

impl Sizes {
    fn mix(&self, mix: &mut Mix) {
        let bits = [self.cleans, self.marked, self.asks, self.was_cut];
        let bits = bits.iter().fold(0, |bits, bit| bits << 1 | u8::from(*bit));
        let [c0, c1] = self.cuts.to_le_bytes();
        mix.word(packed([bits, self.known, self.basis, c0, c1, self.gone, self.looks, 0]));
    }
}
