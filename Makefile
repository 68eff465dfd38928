# One verb a job; `make help` lists them. Needs a Rust toolchain (rustup.rs); `make setup` brings the rest.
CARGO ?= cargo
SEED ?= 1
SECONDS_A_TARGET ?= 30
TARGET := $(or $(CARGO_TARGET_DIR),target)
HEADRACE := $(TARGET)/release/headrace
FIGURE ?=
JOBS ?= 2
FIGURES = $(wildcard testbed/scenarios/*/*fig$(FIGURE)*.toml $(if $(FIGURE),,testbed/scenarios/failures/*.toml testbed/scenarios/mlcc/mlcc-int-room.toml))
MATRICES := $(wildcard testbed/scenarios/quickstart/*.cm)
PACKAGES := build-essential pkg-config libdpdk-dev dpdk-dev dpdk clang libclang-dev tshark iproute2 librsvg2-bin fonts-dejavu-core
SUDO := $(if $(filter-out 0,$(shell id -u)),sudo)
TESTS := unit swarm system
NO_DPDK := --workspace --no-default-features --all-targets# two packages have that feature; no other is checked again
RUST_FILES := find dpdk-sys transport testbed apps tests -name '*.rs' -not -path '*/target/*'
SYSTEM := $(CARGO) test --workspace# never -p: dependencies would have other features, and all be built again

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12

setup: ## install libdpdk and the tools to bind it (Debian and Ubuntu; root or sudo); no-op when present
	@command -v apt-get >/dev/null || { echo "no apt-get here: dnf install dpdk-devel dpdk clang-devel gcc-c++ pkgconf" >&2; exit 1; }
	@dpkg -s $(PACKAGES) >/dev/null 2>&1 || { $(SUDO) apt-get update -q && \
	  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $(PACKAGES); }
	@pkg-config --atleast-version=22.11 libdpdk || { echo "libdpdk 22.11 or newer is needed" >&2; exit 1; }

build: ; $(CARGO) build --release -p headrace ## the headrace command, optimised

run: build ## the quick start: every matrix of testbed/scenarios/quickstart through DPDK virtual devices
	$(HEADRACE) run $(MATRICES) --world vdev

nic-demo: build ; docs/nic/pair.sh $(HEADRACE) ## two hosts of the nic world on this machine: two processes, shared memory as their network
dci-demo: build ; docs/nic/sites.sh $(HEADRACE) ## two sites on this machine, with MLCC's border switches between them: six processes
fig16-nic: build ; docs/nic/fig16.sh $(HEADRACE) $(TARGET)/results/fig16-nic ## figure 16 of MLCC's paper over these six processes, and in sim beside it; wants a core for each process
sim: build ; $(HEADRACE) run $(MATRICES) --world sim ## the same matrices in virtual time

test: build-tests ## everything, step by step with durations; dpdk-test, which mostly waits, and check run beside the other steps
	@$(MAKE) --no-print-directory -j3 dpdk-test-beside test-steps check-beside
build-tests: ; $(SYSTEM) --no-run
test-steps: # one lane, which gives way to dpdk-test: with several steps at once, the test `adding` waits longer for cargo's lock, which check holds
	@set -e; for step in $(TESTS); do echo "== $$step"; from=$$(date +%s); \
	  MAKEFLAGS= nice $(MAKE) --no-print-directory $$step; echo "== $$step: $$(($$(date +%s) - from)) s"; done
dpdk-test-beside check-beside: %-beside: # its output comes in one piece; check, which compiles, gives way to all others
	@mkdir -p $(TARGET); from=$$(date +%s); MAKEFLAGS= nice -n $(if $(filter check,$*),19,0) $(MAKE) --no-print-directory $* >$(TARGET)/$*.txt 2>&1 || failed=yes; echo "== $*"; \
	  cat $(TARGET)/$*.txt; echo "== $*: $$(($$(date +%s) - from)) s"; [ -z "$$failed" ]

check: ## style: format, lints, docs, tidy, and the build without DPDK
	$(CARGO) fmt --all --check
	@$(RUST_FILES) | xargs rustfmt --edition 2024 --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy $(NO_DPDK) -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --lib --examples # with examples, dependencies have the features of tests and are not built again
	$(SYSTEM) --test tidy

fmt: ## formats every file, those of policies too: cargo fmt does not find modules that registries declare
	$(CARGO) fmt --all
	@$(RUST_FILES) | xargs rustfmt --edition 2024

unit: ; $(CARGO) test --workspace --exclude system-tests && $(SYSTEM) --lib -- cases:: process:: ## tests and examples of the crates, golden curves, and how tests without libtest report their cases and end their processes

golden: ; $(SYSTEM) --test golden ## golden curves of every controller and balancer; UPDATE_GOLDEN=1 rewrites them

swarm: ; SEED=$(SEED) $(SYSTEM) --test swarm ## random scenarios against invariants, from SEED

system: ; $(SYSTEM) --test cli --test adding --test variants --test tools --test makefile --test lies --test sim --test allocations --test forecast --test replay --test capture --test dissector ## the command line, lies in its inputs, virtual time against the paper, allocations, replay, captures, the dissector

dpdk-test: ## real DPDK virtual devices: loopback, and virtual time against real time
	$(SYSTEM) --test dpdk_loopback --test processes --test differential --test nic --test attack -- --test-threads=1

attack: ## every attack of tests/attack for two minutes on the optimised build (root), hosts that stand still for as long
	$(SYSTEM) --release --test attack -- --seconds 60 && $(SYSTEM) --test nic -- still_for_long --stall 60
soak: ; HOURS=$${HOURS:-10} $(SYSTEM) --test allocations -- hours && $(SYSTEM) --test attack -- --soak $${SOAK:-3600} ## HOURS of network time take the memory of a tenth; a server under every attack in turn for SOAK seconds: clients that pause and are killed, one restart; memory and descriptors stay (root)
mutants: ; tests/mutants/run --sharding round-robin --shard $${SHARD:-0/1} ## cargo-mutants, installed where it is missing, over the checks of packets and blocks; SHARD=0/16 is a sixteenth
crash: ## processes killed 50 times at random instants, stopped for 1, 12 and 60 s, links that flap, full disks (root)
	CRASHES=50 STALLS=1,12,60 $(SYSTEM) --test processes -- killed still link full little reader && CRASHES=50 STALLS=1,12,60 $(SYSTEM) --test nic -- killed first_host link begins && $(SYSTEM) --test c_api -- killed --include-ignored
slurm-test: build ; HEADRACE=$(HEADRACE) tests/slurm/run ## a sweep as a job array of Slurm's own daemons on this machine, gathered, beside one command (root)
vm-setup: ; tests/vm/setup ## what vm-test needs: qemu, busybox, cpio, and a kernel that is unpacked, not installed
vm-test: ; tests/vm/test ## two workers at emulated PCI network cards of a virtual machine: the drivers of real ones
perf-compare: build ## throughput and round trips between two network namespaces beside iperf3 and fi_pingpong (root)
	HEADRACE=$(HEADRACE) tests/compare/run

bench: ## ns, instructions (with valgrind) and bytes of the core; what keys and checks cost; ns a hop of the fabric (plain, lossless, mixed) and of full simulations; ns a cell of a pod, with trains and without; GB/s of the erasure code; ns and instructions a decision of the pod scheduler
	for part in "" --instructions --secrets; do $(CARGO) bench -p transport --bench endpoint -- $$part || exit 1; done
	$(CARGO) bench -p experiments --bench fabric_hops --bench pod_trains
	$(CARGO) bench -p transport-gf --features simd-accel --bench erasure
	for part in "" --instructions; do $(CARGO) bench -p fabric --bench scheduler -- $$part || exit 1; done

fuzz: ## every fuzz target for SECONDS_A_TARGET seconds
	@set -e; for target in $(notdir $(basename $(wildcard tests/fuzz/targets/*.rs))); do \
	  echo "== $$target"; tests/fuzz/run $$target -max_total_time=$(SECONDS_A_TARGET); done
results: build ## the papers' figures into docs/results, pictures and tables; FIGURE=07 makes one, JOBS=2 at a time
	@set -e; for file in $(FIGURES); do name=$$(basename $$file .toml); others=$$(ls $$(dirname $$file)/*.json 2>/dev/null || true); echo "== $$name" >&2; \
	  $(HEADRACE) run $$file --out $(TARGET)/results/$$name --jobs $(JOBS) >$(TARGET)/$$name.txt || [ $$? = 1 ]; \
	  $(HEADRACE) report $(TARGET)/results/$$name -o docs/results --page docs/RESULTS.md $${others:+--reference $$others}; done
tournament: build ; $(HEADRACE) tournament --purpose $${PURPOSE:-tuning} --seed $(SEED) --mixes $${MIXES:-1} --scale $${SCALE:-0.5} --jobs $(JOBS) --out $(TARGET)/tournament/$${PURPOSE:-tuning}-$(SEED) ## transports of the papers of Uno and SMaRTT on mixes that SEED draws; PURPOSE=checking judges settings, MIXES=1 a family, SCALE=1 is at most 200 MB of a port
docs-setup: ; command -v mdbook >/dev/null || $(CARGO) install mdbook --version '^0.5' --locked ## mdbook, which make docs needs
docs: ; $(CARGO) doc --workspace --no-deps && mdbook build docs ## API documentation in target/doc, docs as a site in target/book (make docs-setup once before)
docs-test: build ; DOCUMENTED=whole HEADRACE=$(HEADRACE) $(SYSTEM) --test documented --test published -- --nocapture ## every command of README.md and docs; TESTING.md says what it shortens; run again, it leaves out what passed (make test runs a sample)

.PHONY: help setup build run nic-demo dci-demo fig16-nic sim test build-tests test-steps dpdk-test-beside check-beside attack soak mutants crash check unit golden swarm system dpdk-test slurm-test vm-setup vm-test bench perf-compare fuzz results tournament docs docs-setup docs-test
