//! Numbers from a seed: the same in every run, others with `ENTREPOT_SEED`.

/// Where they start.
pub fn seed() -> u64 {
    let seed = std::env::var("ENTREPOT_SEED").map_or(1, |seed| seed.parse().expect("ENTREPOT_SEED is a number"));
    println!("seed {seed}");
    seed
}

/// The numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}
