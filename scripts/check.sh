#!/usr/bin/env bash
# The fast check before a commit: format, clippy, unit tests and house rules, docs.
set -euo pipefail
cd "$(dirname "$0")/.."
if cargo fmt --version >/dev/null 2>&1; then
    cargo fmt --all --check
    cargo fmt --manifest-path lab/python/Cargo.toml --check
else
    echo "check: no rustfmt here, format not checked"
fi
if cargo clippy --version >/dev/null 2>&1; then
    cargo clippy --workspace --all-targets --locked -- -D warnings
else
    echo "check: no clippy here, lints not checked"
fi
cargo test --workspace --locked --lib --bins
# The whole workspace again: one package alone has other features, and all would be built anew.
cargo test --workspace --locked --test house
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --locked --no-deps
