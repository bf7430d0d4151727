//! A hidden Markov model of the steps between requests: learns loops of steps that no single stride describes, and
//! predicts the next ranges.
//!
//! ```text
//!   observed: the step from the end of one request to the start of the next, with its length: one of 12 symbols
//!   hidden:   position of the program in the loop
//! ```
//! Every [`LEARN_EVERY`] requests, a few rounds of Baum-Welch learn from the last [`HISTORY`] symbols, starting with
//! the previous result. After each request the forward step gives the distribution over the hidden states. The next
//! ranges are the most probable symbols of the most probable path, as long as their probability is at least [`SURE`].
//!
//! Bounded: 8 states, 12 symbols, 128 steps. Deterministic: the first model is a loop with the symbols assigned in
//! turn.
//!
//! Source: L. Rabiner, "A Tutorial on Hidden Markov Models" (1989) for the recurrences. The use for offsets is Simitci
//! & Reed's future work, after Madhyastha & Reed. States, symbols and bounds are ours.

use super::Request;
use std::collections::VecDeque;

const STATES: usize = 8;
const SYMBOLS: usize = 12;
/// Number of last steps to learn from.
pub const HISTORY: usize = 128;
/// Number of requests between two lessons.
pub const LEARN_EVERY: usize = 32;
const ROUNDS: usize = 6;
/// Smallest probability of a prediction.
pub const SURE: f64 = 0.6;
/// Smallest probability of any event, since an event without samples is not impossible.
const FLOOR: f64 = 1e-4;

type Row = [f64; STATES];

/// Step to a request, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Symbol {
    step: i64,
    len: u64,
}

/// Model of one stream of requests.
#[derive(Clone, Debug)]
pub struct Hmm {
    first: Row,
    moves: [Row; STATES],
    shows: [[f64; SYMBOLS]; STATES],
    /// Step of each symbol; the last symbol stands for all other steps.
    symbols: Vec<Symbol>,
    history: VecDeque<u8>,
    /// Distribution over states after the last request.
    now: Row,
    last: Option<Request>,
    since_lesson: usize,
    lessons: usize,
}

fn normalise(row: &mut [f64]) -> f64 {
    let sum: f64 = row.iter().sum();
    if sum > 0.0 {
        row.iter_mut().for_each(|x| *x /= sum);
    }
    sum
}

impl Default for Hmm {
    fn default() -> Hmm {
        let mut moves = [[0.05; STATES]; STATES];
        let mut shows = [[0.02; SYMBOLS]; STATES];
        for state in 0..STATES {
            // A loop with a slight tendency to stay, so that runs are learned too.
            moves[state][(state + 1) % STATES] = 1.0;
            moves[state][state] = 0.3;
            shows[state][state % SYMBOLS] = 0.2;
            normalise(&mut moves[state]);
            normalise(&mut shows[state]);
        }
        let even = [1.0 / STATES as f64; STATES];
        Hmm {
            first: even,
            moves,
            shows,
            symbols: Vec::new(),
            history: VecDeque::new(),
            now: even,
            last: None,
            since_lesson: 0,
            lessons: 0,
        }
    }
}

impl Hmm {
    /// Creates an untrained model.
    pub fn new() -> Hmm {
        Hmm::default()
    }

    /// Records a request, and updates the model at times.
    pub fn observe(&mut self, request: Request) {
        let Some(last) = self.last.replace(request) else { return };
        let end = last.offset.saturating_add(last.len);
        let symbol = Symbol { step: (i128::from(request.offset) - i128::from(end)) as i64, len: request.len };
        let known = self.symbols.iter().position(|one| *one == symbol);
        let symbol = known.unwrap_or_else(|| {
            if self.symbols.len() < SYMBOLS - 1 {
                self.symbols.push(symbol);
                return self.symbols.len() - 1;
            }
            SYMBOLS - 1
        });
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(symbol as u8);
        self.step(symbol);
        self.since_lesson += 1;
        if self.since_lesson >= LEARN_EVERY {
            self.since_lesson = 0;
            self.forget_rare();
            self.learn();
        }
    }

    /// Makes the forward step.
    fn step(&mut self, symbol: usize) {
        let mut next = self.ahead(&self.now);
        for (state, x) in next.iter_mut().enumerate() {
            *x *= self.shows[state][symbol];
        }
        if normalise(&mut next) <= 0.0 {
            next = self.first;
        }
        self.now = next;
    }

    fn ahead(&self, now: &Row) -> Row {
        let mut next = [0.0; STATES];
        for (from, p) in now.iter().enumerate() {
            for (to, x) in next.iter_mut().enumerate() {
                *x += p * self.moves[from][to];
            }
        }
        next
    }

    /// Returns the next ranges, at most `count`, nearest first; fewer if unsure.
    pub fn predict(&self, count: usize) -> Vec<Request> {
        let Some(last) = self.last.filter(|_| self.lessons > 0) else { return Vec::new() };
        let (mut now, mut end, mut all) = (self.now, last.offset.saturating_add(last.len), Vec::new());
        let mut sure = 1.0;
        while all.len() < count {
            let mut next = self.ahead(&now);
            let chance = |symbol: usize| (0..STATES).map(|state| next[state] * self.shows[state][symbol]).sum::<f64>();
            let best = (0..SYMBOLS).map(|symbol| (chance(symbol), symbol)).max_by(|a, b| a.0.total_cmp(&b.0));
            let Some((p, symbol)) = best.filter(|(_, symbol)| *symbol < self.symbols.len()) else { break };
            sure *= p;
            let Symbol { step, len } = self.symbols[symbol];
            let Some(offset) = end.checked_add_signed(step).filter(|_| sure >= SURE) else { break };
            all.push(Request { write: last.write, offset, len });
            end = offset.saturating_add(len);
            for (state, x) in next.iter_mut().enumerate() {
                *x *= self.shows[state][symbol];
            }
            normalise(&mut next);
            now = next;
        }
        all
    }

    /// Drops symbols that are rare in the history, to make room for new ones.
    fn forget_rare(&mut self) {
        if self.symbols.len() < SYMBOLS - 1 {
            return;
        }
        let mut kept = Vec::new();
        let mut names = [(SYMBOLS - 1) as u8; SYMBOLS];
        for (old, symbol) in self.symbols.iter().enumerate() {
            if self.history.iter().filter(|seen| **seen as usize == old).count() > 1 {
                names[old] = kept.len() as u8;
                kept.push(*symbol);
            }
        }
        let shows = self.shows;
        for (state, row) in self.shows.iter_mut().enumerate() {
            row.fill(FLOOR);
            for (old, name) in names.iter().enumerate() {
                row[*name as usize] += shows[state][old];
            }
            normalise(row);
        }
        self.history.iter_mut().for_each(|seen| *seen = names[*seen as usize]);
        self.symbols = kept;
    }

    /// Runs a few rounds of Baum-Welch over the history.
    fn learn(&mut self) {
        let seen: Vec<usize> = self.history.iter().map(|symbol| *symbol as usize).collect();
        if seen.len() < LEARN_EVERY.min(HISTORY) {
            return;
        }
        for _ in 0..ROUNDS {
            self.round(&seen);
        }
        self.lessons += 1;
        self.now = self.first;
        let mut began = false;
        for symbol in seen {
            if began {
                self.step(symbol);
                continue;
            }
            began = true;
            for (state, x) in self.now.iter_mut().enumerate() {
                *x *= self.shows[state][symbol];
            }
            normalise(&mut self.now);
        }
    }

    fn round(&mut self, seen: &[usize]) {
        let n = seen.len();
        // Forward, scaled to sum 1 at each step; backward with the same scales.
        let mut forward = vec![[0.0; STATES]; n];
        let mut scales = vec![1.0; n];
        for t in 0..n {
            let before = if t == 0 { self.first } else { self.ahead(&forward[t - 1]) };
            for state in 0..STATES {
                forward[t][state] = before[state] * self.shows[state][seen[t]];
            }
            scales[t] = normalise(&mut forward[t]).max(1e-300);
        }
        let mut backward = vec![[1.0; STATES]; n];
        for t in (0..n - 1).rev() {
            for from in 0..STATES {
                let way = |to: usize| self.moves[from][to] * self.shows[to][seen[t + 1]] * backward[t + 1][to];
                backward[t][from] = (0..STATES).map(way).sum::<f64>() / scales[t + 1];
            }
        }
        let mut moves = [[FLOOR; STATES]; STATES];
        let mut shows = [[FLOOR; SYMBOLS]; STATES];
        for t in 0..n {
            for state in 0..STATES {
                shows[state][seen[t]] += forward[t][state] * backward[t][state];
                if t + 1 < n {
                    for to in 0..STATES {
                        let there = self.shows[to][seen[t + 1]] * backward[t + 1][to] / scales[t + 1];
                        moves[state][to] += forward[t][state] * self.moves[state][to] * there;
                    }
                }
            }
        }
        for row in &mut moves {
            normalise(row);
        }
        for row in &mut shows {
            normalise(row);
        }
        let mut first = [0.0; STATES];
        for (state, x) in first.iter_mut().enumerate() {
            *x = forward[0][state] * backward[0][state] + FLOOR;
        }
        normalise(&mut first);
        (self.first, self.moves, self.shows) = (first, moves, shows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Repeats reads with these steps from end to start. Returns how many of the last hundred were predicted.
    fn predicted(steps: &[(i64, u64)]) -> usize {
        let (mut hmm, mut at, mut hits) = (Hmm::new(), 1u64 << 40, 0);
        for n in 0..400 {
            let (step, len) = steps[n % steps.len()];
            at = at.checked_add_signed(step).unwrap();
            let request = Request { write: false, offset: at, len };
            if n >= 300 && hmm.predict(1).first() == Some(&request) {
                hits += 1;
            }
            hmm.observe(request);
            at += len;
        }
        hits
    }

    #[test]
    fn sequences_strides_and_loops_of_steps_are_learned() {
        assert!(predicted(&[(0, 4096)]) >= 95, "sequential");
        assert!(predicted(&[(60_000, 4096)]) >= 95, "strided");
        assert!(predicted(&[(0, 4096), (0, 4096), (1 << 20, 65536)]) >= 90, "two pages of a record and its body");
        assert!(predicted(&[(0, 512), (8192, 4096), (-20_480, 512), (1 << 22, 1 << 20)]) >= 90, "a loop of four");
    }

    #[test]
    fn random_requests_are_not_predicted() {
        let (mut hmm, mut state, mut said) = (Hmm::new(), 1u64, 0);
        for n in 0..600 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if n > 200 && !hmm.predict(1).is_empty() {
                said += 1;
            }
            hmm.observe(Request { write: false, offset: (state >> 30) * 4096, len: 4096 });
        }
        assert!(said < 20, "{said} of 400");
        assert!(hmm.symbols.len() < SYMBOLS && hmm.history.len() == HISTORY, "bounded");
    }

    #[test]
    fn several_ranges_ahead_as_far_as_it_is_sure() {
        let mut hmm = Hmm::new();
        (0..200u64).for_each(|n| hmm.observe(Request { write: false, offset: n * 10_000, len: 5000 }));
        let next = hmm.predict(4);
        assert_eq!(next.iter().map(|r| r.offset).collect::<Vec<_>>(), [2_000_000, 2_010_000, 2_020_000, 2_030_000]);
        assert!(Hmm::new().predict(4).is_empty());
    }
}
