//! Worlds small enough to be computed by hand, and random ones with every checker on.
