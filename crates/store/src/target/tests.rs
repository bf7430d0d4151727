//! Targets under hung, failing and returning media.
