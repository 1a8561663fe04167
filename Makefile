# Transect: build, test, demonstrate, install.

CARGO ?= cargo
PREFIX ?= /usr/local
BIN := target/release/transect
AGENT := target/release/libtransect_agent.so
PROBE_AGENT := target/release/libtransect_probe_agent.so
PACKAGES := bc python3-venv gcc g++ make python3 xz-utils zstd sqlite3 curl clang libelf-dev zlib1g-dev pkg-config

.PHONY: all build demo test test-vm bench install packages test-packages vm-packages bench-packages toolchain fmt lint doc clean

all: build

## Compilers and the programs that the demo profiles; does nothing where they are present.
packages:
	@dev/install-packages.sh $(PACKAGES)

test-packages:
	@dev/install-packages.sh $(PACKAGES) $$(dev/package-list.sh tests/packages.txt)

# QEMU's file server is a package of its own only in newer releases.
vm-packages:
	@dev/install-packages.sh $$(dev/package-list.sh tests/vm/packages.txt)
	@[ -x /usr/lib/qemu/virtiofsd ] || dev/install-packages.sh virtiofsd

bench-packages:
	@dev/install-packages.sh $(PACKAGES) $$(dev/package-list.sh benches/packages.txt)

toolchain:
	@dev/install-toolchain.sh

build: packages toolchain
	@. dev/toolchain.env.sh; $(CARGO) build --release --locked -p transect-cli -p transect-agent -p transect-c-library -p transect-probe-agent

## Profiles a real program and a bundled workload, prints the views, writes target/demo/demo.html.
demo: build
	@dev/demo.sh

## Everything that can fail, tests of the real programs included.
test: test-packages vm-packages build
	@dev/test.sh

## Scheduler collector under Debian's kernels 6.1 and 6.12, in QEMU; needs no KVM. Part of `make test` too.
test-vm: packages vm-packages build
	@. dev/toolchain.env.sh; python3 tests/vm/run.py --transect $(BIN)

bench: bench-packages build
	@. dev/toolchain.env.sh; python3 benches/run.py --transect $(BIN)

install: build
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/transect
	install -D -m 755 $(AGENT) $(DESTDIR)$(PREFIX)/lib/transect/libtransect_agent.so
	install -D -m 755 $(PROBE_AGENT) $(DESTDIR)$(PREFIX)/lib/transect/libtransect_probe_agent.so
	crates/c-library/stage.sh target/release $(DESTDIR)$(PREFIX) $(PREFIX)
	@mkdir -p $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(BIN) man $(DESTDIR)$(PREFIX)/share/man/man1
	$(BIN) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/transect

fmt:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

clean:
	$(CARGO) clean
