//! Fetches in flight, waiting requests, and the edges between them, all in reused arrays.

use super::event::{FetchId, Outcome};
use crate::block::RequestId;
use crate::block::Span;
use crate::block::slab::NIL;
use crate::precedence::Class;
use crate::time::Time;

/// Number of a fetch's bits that are its place. With the generation a fetch's number stays below 2^48, so that drivers
/// have room beside it.
const AT_BITS: u32 = 28;

/// Returns the place of a fetch.
pub(super) fn place(id: FetchId) -> u32 {
    (id.0 & ((1 << AT_BITS) - 1)) as u32
}

/// Number of fetches in one place until a number repeats.
const GENERATIONS: u32 = 1 << (48 - AT_BITS);

/// Fetch in flight below.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flying {
    pub(crate) span: Span,
    pub(crate) wanted_len: u32,
    pub(crate) issued_at: Time,
    /// First of its pages, linked through their nodes; NIL if no block is kept.
    pub(crate) first_page: u32,
    /// Whether a request waits for the first block after the `wanted_len` ones.
    pub(crate) waited: bool,
    pub(crate) class: Class,
    edges: u32,
    generation: u32,
    live: bool,
}

/// Request that waits for fetches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) id: RequestId,
    pub(crate) span: Span,
    pub(crate) outcome: Outcome,
    pub(crate) failed: bool,
    /// Whether an application waits for it, as far as known here.
    awaited: bool,
    pending: u32,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    request: u32,
    next: u32,
}

/// Outstanding fetches and waiting requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flight {
    fetches: Vec<Flying>,
    free_fetches: Vec<u32>,
    requests: Vec<Waiting>,
    free_requests: Vec<u32>,
    edges: Vec<Edge>,
    free_edges: Vec<u32>,
    /// Number of waiting requests that an application waits for.
    awaited: usize,
}

fn put<T>(items: &mut Vec<T>, free: &mut Vec<u32>, item: T) -> u32 {
    match free.pop() {
        Some(at) => {
            items[at as usize] = item;
            at
        }
        None => {
            items.push(item);
            (items.len() - 1) as u32
        }
    }
}

impl Flight {
    /// Adds a fetch. Returns its place.
    pub(crate) fn depart(&mut self, span: Span, wanted_len: u32, class: Class, issued_at: Time) -> u32 {
        let generation = match self.free_fetches.last() {
            Some(&at) => (self.fetches[at as usize].generation + 1) % GENERATIONS,
            None => 0,
        };
        let flying = Flying {
            span,
            wanted_len,
            issued_at,
            first_page: NIL,
            waited: false,
            class,
            edges: NIL,
            generation,
            live: true,
        };
        let at = put(&mut self.fetches, &mut self.free_fetches, flying);
        assert!(at < 1 << AT_BITS, "more than 2^{AT_BITS} fetches are outstanding");
        at
    }

    /// Returns the fetch at a place.
    pub(crate) fn fetch_mut(&mut self, at: u32) -> &mut Flying {
        &mut self.fetches[at as usize]
    }

    /// Returns the fetch's number for the driver.
    pub(crate) fn name(&self, at: u32) -> FetchId {
        FetchId(u64::from(self.fetches[at as usize].generation) << AT_BITS | u64::from(at))
    }

    /// Adds a request that waits for these fetches, at least one.
    pub(crate) fn wait(&mut self, id: RequestId, span: Span, outcome: Outcome, awaited: bool, fetches: &[u32]) {
        self.awaited += usize::from(awaited);
        let waiting = Waiting { id, span, outcome, failed: false, awaited, pending: fetches.len() as u32 };
        let request = put(&mut self.requests, &mut self.free_requests, waiting);
        for &fetch in fetches {
            let next = self.fetches[fetch as usize].edges;
            self.fetches[fetch as usize].edges = put(&mut self.edges, &mut self.free_edges, Edge { request, next });
        }
    }

    /// Marks a request and its fetches as awaited: `hurry` is called for each fetch that was a prefetch.
    pub(crate) fn hurry(&mut self, request: RequestId, mut hurry: impl FnMut(FetchId)) {
        let is_it = |of: &&mut Waiting| of.id == request && of.pending > 0 && !of.awaited;
        if let Some(waiting) = self.requests.iter_mut().find(is_it) {
            waiting.awaited = true;
            self.awaited += 1;
        }
        for at in 0..self.fetches.len() {
            let Flying { live: true, class: Class::Prefetch, mut edges, .. } = self.fetches[at] else { continue };
            while edges != NIL {
                let edge = self.edges[edges as usize];
                if self.requests[edge.request as usize].id == request {
                    self.fetches[at].class = Class::Awaited;
                    hurry(self.name(at as u32));
                    break;
                }
                edges = edge.next;
            }
        }
    }

    /// Ends a fetch. `None` if no outstanding one has this number.
    pub(crate) fn arrive(&mut self, id: FetchId) -> Option<Flying> {
        let at = place(id);
        let flying = self.fetches.get_mut(at as usize)?;
        if !flying.live || u64::from(flying.generation) != id.0 >> AT_BITS {
            return None;
        }
        flying.live = false;
        self.free_fetches.push(at);
        Some(*flying)
    }

    /// Detaches the requests from a finished fetch, and returns in `out` those that wait for no other.
    pub(crate) fn release(&mut self, flying: &Flying, failed: bool, out: &mut Vec<Waiting>) {
        let mut at = flying.edges;
        let start = out.len();
        while at != NIL {
            let Edge { request, next } = self.edges[at as usize];
            self.free_edges.push(at);
            let waiting = &mut self.requests[request as usize];
            waiting.pending -= 1;
            waiting.failed |= failed;
            if waiting.pending == 0 {
                self.awaited -= usize::from(waiting.awaited);
                out.push(*waiting);
                self.free_requests.push(request);
            }
            at = next;
        }
        // Edges are stacked: reversed, the first waiting request is answered first.
        out[start..].reverse();
    }

    /// Number of waiting requests that an application waits for, as far as known here.
    pub(crate) fn awaited(&self) -> usize {
        self.awaited
    }

    /// Numbers of outstanding fetches and of waiting requests.
    pub(crate) fn outstanding(&self) -> (usize, usize) {
        (self.fetches.len() - self.free_fetches.len(), self.requests.len() - self.free_requests.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_48_bits_and_an_old_one_is_no_fetch() {
        let mut flight = Flight::default();
        let span = Span::new(0, 0, 1);
        let mut last = None;
        for _ in 0..GENERATIONS + 10 {
            let at = flight.depart(span, 0, Class::Prefetch, Time::ZERO);
            let name = flight.name(at);
            assert!(name.0 < 1 << 48 && Some(name) != last);
            assert!(last.is_none_or(|last| flight.arrive(last).is_none()));
            assert!(flight.arrive(name).is_some());
            assert!(flight.arrive(name).is_none(), "it is over");
            last = Some(name);
        }
    }

    #[test]
    fn a_prefetch_is_awaited_from_its_hurry_to_its_end() {
        let mut flight = Flight::default();
        let span = Span::new(0, 0, 1);
        let at = flight.depart(span, 1, Class::Prefetch, Time::ZERO);
        for (id, awaited) in [(1, true), (2, false), (3, false)] {
            flight.wait(RequestId(id), span, Outcome::default(), awaited, &[at]);
        }
        assert_eq!(flight.awaited(), 1);
        for id in [2, 2, 1, 77] {
            flight.hurry(RequestId(id), |_| {});
        }
        assert_eq!((flight.awaited(), flight.outstanding()), (2, (1, 3)));
        let flying = flight.arrive(flight.name(at)).unwrap();
        flight.release(&flying, false, &mut Vec::new());
        assert_eq!((flight.awaited(), flight.outstanding()), (0, (0, 0)));
    }
}
