# Thin on purpose: what a target does is in scripts/, in cargo and in the Python package.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

TARGET := $(or $(CARGO_TARGET_DIR),target)
VENV := .venv
PYTHON := $(VENV)/bin/python
RUST := Cargo.toml Cargo.lock $(shell find crates bpf -name '*.rs' -o -name '*.toml' -o -name '*.json' -o -name '*.[ch]')
# Read anew each time: the packages that decide it may have been installed by the same make.
FEATURES = $(shell scripts/system-packages features)
OUT := out

.PHONY: help
help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 20

.PHONY: run
run: native ## set up, build, run the quick edition of the tuning paper and write its report
	@$(PYTHON) -m headend.papers run tuning --quick --out $(OUT)/report --resume
	@echo "Open file://$(CURDIR)/$(OUT)/report/index.html"

.PHONY: report
report: native ## the full edition of the tuning paper: every run the published figures took
	@$(PYTHON) -m headend.papers run tuning --out $(OUT)/report-full --resume
	@echo "Open file://$(CURDIR)/$(OUT)/report-full/index.html"

.PHONY: validation
validation: native ## write the tables of docs/validation.md that a simulation makes: ns-2's curves and the claims of all papers
	@for paper in tuning proxies; do $(PYTHON) -m headend.papers validate $$paper --worst 0 --page docs/validation.md; done
	@for paper in tuning proxies fast; do $(PYTHON) -m headend.papers run $$paper --quick --page docs/validation.md; done
	@$(PYTHON) -m headend.papers run decoupling --page docs/validation.md

.PHONY: test
test: test-packages native $(VENV)/.dev ## set up, build and run every test
	python3 scripts/test.py --locked $(FEATURES)
	$(PYTHON) -m pytest

.PHONY: check
check: test-packages native $(VENV)/.dev ## formatting, lints, types and docs with warnings denied, then make test
	cargo fmt --check
	cargo clippy --workspace --all-targets --locked $(FEATURES) -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked $(FEATURES)
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/ruff check
	$(VENV)/bin/mypy
	MYPYPATH=python $(VENV)/bin/stubtest headend._native
	$(VENV)/bin/sphinx-build -q -W --keep-going -b html docs build/docs
	@if command -v tsc >/dev/null; then tsc -p python/headend/report/static/jsconfig.json && tsc -p crates/cli/src/proxy/admin/page/jsconfig.json; \
	 else echo "No tsc on the PATH: the types of the pages' scripts are not checked (npm install -g typescript)"; fi
	@if cargo deny --version >/dev/null 2>&1; then cargo deny --offline --log-level error check bans licenses sources; \
	 else echo "No cargo-deny on the PATH: licences and sources of what is linked are not checked (cargo install cargo-deny)"; fi
	@$(PYTHON) bench/instructions.py --binary $(TARGET)/release/headend
	@$(MAKE) test

# Apart from check: what it finds is of the day, and a change that passed yesterday must pass today.
.PHONY: audit
audit: $(VENV)/.run ## known holes in what headend is made of, by cargo-deny and pip-audit: needs the network
	cargo deny check advisories
	pip-audit --path $$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

.PHONY: bench
bench: bench-packages native ## packages per CPU second, instructions per packet and memory per flow, beside ns-2 (and HTSIM=PROGRAM, a driver of htsim); and a ring of trunks
	@$(PYTHON) bench/run.py --binary $(TARGET)/release/headend --out $(OUT)/bench.json $(if $(HTSIM),--htsim $(HTSIM))

.PHONY: bench-size
bench-size: native ## what a star of 5,000 homes costs beside one of 100, and the memory of 10,000 flows (some minutes)
	@$(PYTHON) bench/size.py --binary $(TARGET)/release/headend --out $(OUT)/bench-size $(if $(PAGE),--page $(PAGE))

.PHONY: bench-cluster
bench-cluster: native $(VENV)/.dev ## what a Dask cluster costs a large study, and that killed workers change nothing in it (some minutes)
	@$(PYTHON) bench/cluster.py

.PHONY: bench-lab
bench-lab: bench-packages build-packages $(TARGET)/release/headend ## as root: how exact and how fast the emulator is, judged by the kernel's time stamps and beside its own forwarding
	@python3 bench/delay.py --binary $(TARGET)/release/headend --out $(OUT)/bench-delay.json $(if $(PAGE),--page $(PAGE))
	@cargo bench --quiet --locked -p headend-host --bench emulator -- --json $(abspath $(OUT))/bench-lab.json

.PHONY: bench-docsis
bench-docsis: build-packages ## cable modems that contend, beside theory, and what 500 of them cost
	@cargo bench --quiet --locked -p headend-engine --bench docsis $(if $(PAGE),| tee /dev/stderr | python3 bench/page.py $(PAGE) docsis)

.PHONY: conform
conform: conform-packages build-packages $(TARGET)/release/headend ## 10,000 schedules through our proxy in each way in, and through others; as root the transparent way as well
	@python3 bench/conform.py --binary $(TARGET)/release/headend --out $(OUT)/conform.json $(if $(PAGE),--page $(PAGE))

.PHONY: bench-proxy
bench-proxy: conform-packages build-packages $(TARGET)/release/headend ## as root: our proxy's throughput, CPU, latency and memory, beside HAProxy's
	@python3 bench/proxy.py --binary $(TARGET)/release/headend --out $(OUT)/bench-proxy.json $(if $(PAGE),--page $(PAGE))

.PHONY: bench-pages
bench-pages: conform-packages build-packages $(TARGET)/release/headend ## as root: a page of 40 objects through our proxy, squid and tinyproxy, over a line that loses packets; CHROMIUM=1 in a browser
	@python3 bench/pages.py $(TARGET)/release/headend --beside squid tinyproxy $(if $(CHROMIUM),--chromium --runs 5) $(if $(PAGE),--page $(PAGE))

.PHONY: bench-share
bench-share: conform-packages build-packages $(TARGET)/release/headend ## as root: what the proxy's local side leaves to a neighbour on a line that loses packets, by congestion control
	@python3 bench/share.py $(TARGET)/release/headend $(if $(PAGE),--page $(PAGE))

.PHONY: bench-control
bench-control: bench-packages build-packages $(TARGET)/release/headend ## as root, after `headend cc install backfill`: what Backfill in the kernel costs beside CUBIC, and what its connections leave
	@python3 bench/control.py $(if $(PAGE),--page $(PAGE))

.PHONY: bench-transparent
bench-transparent: conform-packages build-packages $(TARGET)/release/headend ## as root: what holding SYNs costs the transparent proxy and its clients
	@python3 bench/transparent.py --binary $(TARGET)/release/headend --out $(OUT)/bench-transparent.json $(if $(PAGE),--page $(PAGE))

.PHONY: bench-quic
bench-quic: conform-packages build-packages $(VENV)/.run $(TARGET)/release/headend ## as root: HTTP/3 past the transparent proxy, HTTP/2 through it, over a line that loses packets
	@$(VENV)/bin/pip install --quiet aioquic
	@$(VENV)/bin/python bench/quic.py --binary $(TARGET)/release/headend --out $(OUT)/bench-quic.json $(if $(PAGE),--page $(PAGE))

.PHONY: bench-trunk
bench-trunk: bench-packages $(TARGET)/release/headend ## as root: a trunk's throughput, CPU and latency, beside plain forwarding and wireguard-go, and what repair gives; ONLY="stream latency repair" for parts
	@$(if $(filter-out repair,$(or $(ONLY),all)),python3 bench/trunk.py --binary $(TARGET)/release/headend $(foreach part,$(filter-out repair,$(ONLY)),--only $(part)) $(if $(PAGE),--page $(PAGE)))
	@$(if $(or $(filter repair,$(ONLY)),$(if $(ONLY),,all)),python3 bench/repair.py --binary $(TARGET)/release/headend $(if $(PAGE),--page $(PAGE)))

.PHONY: bench-socket
bench-socket: bench-packages $(TARGET)/release/headend ## as root: a tunnel's goodput on damaged lines, its share beside CUBIC, its CPU and memory, beside the kernel's TCPs, kcptun and quinn; ONLY="loss bursts acks reorder share cpu idle" for parts
	@python3 bench/tunnel.py --binary $(TARGET)/release/headend $(foreach part,$(ONLY),--only $(part)) $(if $(PAGE),--page $(PAGE))

.PHONY: bench-media
bench-media: bench-packages $(TARGET)/release/headend ## as root: pictures on time over frames, plain UDP, TCP and SRT, with a CUBIC beside; LOSS=2 percent
	@cargo build --quiet --release --locked -p headend-socket --example media
	@python3 bench/media.py --binary $(TARGET)/release/headend --media $(TARGET)/release/examples/media \
		--loss $(or $(LOSS),2) $(if $(PAGE),--page $(PAGE))

.PHONY: bench-copying
bench-copying: build-packages $(TARGET)/release/headend ## as root: splice beside reads and writes of several sizes, from socket to socket
	@cargo build --quiet --release --locked -p headend-host --example copying
	@python3 bench/copying.py --binary $(TARGET)/release/headend --relay $(TARGET)/release/examples/copying \
		--out $(OUT)/bench-copying.json $(if $(PAGE),--page $(PAGE))

.PHONY: fuzz
fuzz: ## fuzz the reader of scenarios, the TCP, its codec and the readers of a proxy's clients for FUZZ_SECONDS each (60); needs a nightly compiler
	@scripts/fuzz

.PHONY: fuzz-random
fuzz-random: ## random and damaged input for the parsers of bytes from outside, CASES=200000 of each kind; any compiler will do
	@PROPTEST_CASES=$(or $(CASES),200000) cargo test --release --locked -p headend-host --lib -- trunk::wire trunk::mss trunk::classify trunk::runs nfqueue:: syn::
	@PROPTEST_CASES=$(or $(CASES),200000) cargo test --release --locked -p headend-engine --lib -- codec:: in_band::
	@PROPTEST_CASES=$(or $(CASES),200000) cargo test --release --locked -p headend-datagram -p headend-socket --lib -- replay wire frame ranges unreliable

.PHONY: lab
lab: native ## the simulator beside Linux over a grid of scenarios, in real time: needs root and 20 minutes, and writes a page
	@$(PYTHON) -m headend.lab run scenarios/lab/[0-9]*.toml --binary $(TARGET)/release/headend --out $(OUT)/lab $(if $(PAGE),--page $(PAGE))
	@echo "Open file://$(CURDIR)/$(OUT)/lab/index.html"

.PHONY: lab-random
lab-random: native ## the same over 20 scenarios drawn at random (SEED=1), flow by flow as well: needs root and 5 minutes
	@$(PYTHON) -m headend.lab random --binary $(TARGET)/release/headend --seed $(or $(SEED),1) --out $(OUT)/lab-random

.PHONY: live
live: native ## the proxies paper between real hosts, through the real proxy, beside the simulator; then pages: needs root and 25 minutes
	@$(PYTHON) -m headend.lab live --binary $(TARGET)/release/headend --out $(OUT)/live $(if $(PAGE),--page $(PAGE))
	@python3 bench/pages.py $(TARGET)/release/headend
	@echo "Open file://$(CURDIR)/$(OUT)/live/index.html"

.PHONY: live-trunk
live-trunk: native ## the decoupling thesis's experiments TT1 and TT2's web users between real trunks, beside the simulator: needs root and 6 minutes
	@$(PYTHON) -m headend.lab trunks --binary $(TARGET)/release/headend $(if $(PAGE),--page $(PAGE))

.PHONY: live-socket
live-socket: native ## the decoupling thesis's suites RS1 and RS2 through real sockets, the kernel's Reno and the simulator beside: needs root and 10 minutes
	@$(PYTHON) -m headend.lab sockets --binary $(TARGET)/release/headend $(if $(PAGE),--page $(PAGE))

.PHONY: lab-fast
lab-fast: native ## FAST in the kernel, judged, in real time: needs root, what `headend cc` needs, and 20 minutes
	@$(PYTHON) -m headend.lab fast --binary $(TARGET)/release/headend --out $(OUT)/lab-fast $(if $(PAGE),--page $(PAGE))
	@echo "Open file://$(CURDIR)/$(OUT)/lab-fast/index.html"

PREFIX := /usr/local
DIR = $(DESTDIR)$(PREFIX)
SONAME := libheadend-socket.so.0
.PHONY: install-socket
install-socket: build-packages ## headend-socket for C: library, header and pkg-config file, into PREFIX=/usr/local
	cargo rustc --release --locked -p headend-socket-c --lib --crate-type cdylib,staticlib -- -C link-arg=-Wl,-soname,$(SONAME)
	install -d $(DIR)/lib/pkgconfig $(DIR)/include
	install -m 755 $(TARGET)/release/libheadend_c.so $(DIR)/lib/$(SONAME)
	ln -sf $(SONAME) $(DIR)/lib/libheadend-socket.so
	install -m 644 $(TARGET)/release/libheadend_c.a $(DIR)/lib/libheadend-socket.a
	install -m 644 crates/socket-c/include/headend_socket.h $(DIR)/include
	version=$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1); \
	sed "s|@PREFIX@|$(PREFIX)|; s|@VERSION@|$$version|" crates/socket-c/headend-socket.pc.in >$(DIR)/lib/pkgconfig/headend-socket.pc

.PHONY: dist
dist: dist-packages $(TARGET)/release/headend $(VENV)/.dist ## pack it: a wheel, a Debian package and a static command, each with its licences and what it is made of, into dist
	@PYTHON=$(PYTHON) scripts/dist tools static wheel deb

.PHONY: check-dist
check-dist: check-dist-packages ## as root: install each of dist in a clean place, up to a first plot; ONLY="wheel deb static cargo image" for parts
	@scripts/check-dist $(or $(ONLY),wheel deb static cargo)

.PHONY: docs
docs: native $(VENV)/.dev ## the book, into build/docs
	$(VENV)/bin/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo "file://$(CURDIR)/build/docs/index.html"

.PHONY: docs-rust
docs-rust: build-packages ## the crates' own documentation, beside the book in build/docs/rust
	cargo doc --workspace --no-deps --locked --quiet
	@mkdir -p build/docs && rm -rf build/docs/rust && cp -r $(TARGET)/doc build/docs/rust
	@echo "file://$(CURDIR)/build/docs/rust/headend_engine/index.html"

.PHONY: clean
clean: ## remove everything that was built, set up or written
	cargo clean --quiet
	rm -rf $(VENV) $(OUT) build dist python/headend/*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis

# ---- set-up, none of which does anything a second time

.PHONY: native build-packages test-packages bench-packages conform-packages dist-packages check-dist-packages
native: build-packages $(TARGET)/release/headend $(VENV)/.native
build-packages test-packages bench-packages conform-packages dist-packages check-dist-packages:
	@scripts/rust-version
	@scripts/system-packages $(@:-packages=)

$(TARGET)/release/headend: $(RUST) $(TARGET)/.features | build-packages
	cargo build --release --locked $(FEATURES)
	@touch $@

# Changes only when what can be built does.
$(TARGET)/.features: build-packages
	@mkdir -p $(@D)
	@echo "$(FEATURES)" | cmp -s - $@ || echo "$(FEATURES)" >$@

# The package is installed in place: an edited Python file needs nothing, an edited Rust file this.
$(VENV)/.native: $(RUST) $(VENV)/.run
	scripts/python-environment native
	@touch $@

$(VENV)/.run: pyproject.toml scripts/python-environment | build-packages
	scripts/python-environment run
	@touch $@

$(VENV)/.dist: $(VENV)/.run
	scripts/python-environment dist
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	scripts/python-environment dev
	@touch $@
