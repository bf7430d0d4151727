# Two commands for a user: `make demo` and `make test`. Each does all its own set-up.
# For users of the source: `make build` (the program), `make lab` (the simulators).
# For developers: `make check` (fast), `make bench` (ratios, one run), `make bench-recovery` (an MPI program under failures),
# `make docs` (man pages, completions), `make deb`, `make rpm` and `make wheel` (packages), `make reference` (docs/reference, from what the programs say).

SHELL := /bin/bash
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: help install deb rpm wheel setup setup-test build lab demo demo-time test check bench bench-recovery bench-prefetch bench-burst bench-stripes bench-tier bench-predicted bench-connections bench-connections-small bench-cluster bench-sim docs reference clean

help:
	@sed -n 's/^# //p' Makefile | head -2

setup:
	@scripts/setup.sh build

setup-test:
	@scripts/setup.sh build test

demo-time:
	@if [ -x target/demo/entrepot ]; then echo "make demo: builds what changed, then 10 seconds of demo"; \
	else echo "make demo: about 3 minutes of processor time to build (2 minutes on two cores; here are $$(nproc)), then 10 seconds of demo"; fi

build: setup
	cargo build --release --locked -p entrepot-cli
	@scripts/split-debug.sh target/release/entrepot

# The simulators, target/release/entrepot-lab.
lab: setup
	cargo build --release --locked -p entrepot-lab
	@scripts/split-debug.sh target/release/entrepot-lab

# Programs, mount.entrepot for fstab, units of systemd, manual pages and completions; DESTDIR and PREFIX as everywhere.
PREFIX ?= /usr
install: build lab
	@packaging/install.sh "$(DESTDIR)" "$(PREFIX)"

# The same as packages of Debian, target/deb/entrepot_VERSION_ARCH.deb, and beside it entrepot-slurm.
deb: build lab
	@scripts/setup.sh deb
	@rm -f target/deb/entrepot*.deb
	@packaging/deb.sh

# The same as rpms, target/rpm/entrepot-VERSION.ARCH.rpm, and beside it entrepot-slurm.
rpm: build lab
	@scripts/setup.sh rpm
	@rm -f target/rpm/entrepot*.rpm
	@packaging/rpm.sh

# The laboratory for Python, target/wheels/entrepot_lab-*.whl; pip fetches maturin into target/.
wheel: setup
	@test -x target/wheel-tools/bin/maturin || \
	{ python3 -m venv target/wheel-tools && target/wheel-tools/bin/pip install --quiet 'maturin>=1.9,<2'; }
	@rm -f target/wheels/entrepot_lab-*.whl
	target/wheel-tools/bin/maturin build --release --locked --manifest-path lab/python/Cargo.toml --target-dir target/python --out target/wheels

# The demo's program alone and soon; `build` makes the fast ones.
demo: demo-time setup
	cargo build --profile demo --locked -p entrepot-cli
	@scripts/setup.sh demo
	@demo/run.sh target/demo/entrepot

test: setup-test
	@scripts/test.sh

check: setup
	@scripts/check.sh

bench: build
	@scripts/setup.sh bench
	cargo bench --locked -p entrepot-cli --bench mount
	@$(MAKE) --no-print-directory bench-sim
	@benches/burst/cost.sh target/release/entrepot

# Recovery and failover under an MPI program; a quarter of an hour; root, for a network namespace of its own.
bench-recovery: build
	@scripts/setup.sh bench
	@benches/recovery/run.sh target/release/entrepot

# Rate-aware trigger distances against fixed ones over emulated disks; six minutes; root or fusermount3.
bench-prefetch: build
	cargo bench --locked -p entrepot-cli --bench prefetch

# The burst buffer on limited loop devices against the simulator; four minutes; root.
bench-burst: build lab
	@scripts/setup.sh bench
	@benches/burst/run.sh target/release/entrepot

# Adaptive stripes against fixed widths, and forks, on eight emulated disks; about seven minutes; root or fusermount3.
bench-stripes: build
	cargo bench --locked -p entrepot-cli --bench stripes

# Hot data on the fast devices, live against the plain hybrid and the simulator; three minutes (QUICK=1: two); root, for loop devices.
bench-tier: build lab
	@scripts/setup.sh bench
	@benches/tier/run.sh target/release/entrepot
	@benches/tier/latency.sh target/release/entrepot

# Rates of the simulator and of the live system for the same loads, mechanism by mechanism; twelve minutes; root, for control groups.
bench-predicted: build lab
	@scripts/setup.sh bench
	@benches/predicted/run.py target/release/entrepot

# Several connections to one GlusterFS server; forty minutes; root, for a network namespace of its own. The small tables take three minutes.
bench-connections: build
	@scripts/setup.sh bench
	@benches/connections/run.sh target/release/entrepot

bench-connections-small: build
	@scripts/setup.sh bench
	@benches/connections/run.sh target/release/entrepot --small

# One volume on three hosts against plain mounts of the same GlusterFS; ten minutes; root, for namespaces, and Redis.
bench-cluster: setup-test
	ENTREPOT_BENCH_ROUNDS=$${ENTREPOT_BENCH_ROUNDS:-7} ENTREPOT_CLUSTER_SECONDS=3600 cargo test --release --locked -p entrepot-cli --test cluster bench:: -- --nocapture

# Replay speed of the simulator, beside libCacheSim (a Python package, fetched into target/ where that is possible); two minutes.
bench-sim: setup
	@test -x target/libcachesim/bin/python || python3 -m venv target/libcachesim || echo "no python3 with venv"
	@target/libcachesim/bin/python -c 'import libcachesim' 2>/dev/null || target/libcachesim/bin/pip install --quiet libcachesim || echo "libcachesim cannot be fetched: there will be no comparison"
	ENTREPOT_BENCH_PYTHON="$$(readlink -f target)/libcachesim/bin/python" cargo bench --locked -p entrepot-sim --bench replay

docs: build lab
	for program in entrepot entrepot-lab; do \
		target/release/$$program man target/man || exit 1; \
		for shell in bash zsh fish; do target/release/$$program completions $$shell > target/$$program.$$shell || exit 1; done; \
	done

reference:
	ENTREPOT_WRITE_REFERENCE=1 cargo test --locked -p entrepot-cli --test reference --test command_line the_reference
	ENTREPOT_WRITE_REFERENCE=1 cargo test --locked -p entrepot-lab --test command_line the_reference

clean:
	cargo clean
