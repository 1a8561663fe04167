# Transect: build, test, demonstrate, install.

CARGO ?= cargo
PREFIX ?= /usr/local
BIN := target/release/transect
AGENT := target/release/libtransect_agent.so
PROBE_AGENT := target/release/libtransect_probe_agent.so
FLOW_AGENT := target/release/libtransect_flow_agent.so
REGION_RUNTIME := target/release/libtransect_region.a
COMPILER := target/release/transect-cc
PLUGINS := target/release/compiler-plugin
STAGE := target/packages/stage
PACKAGES := bc python3-venv gcc g++ make python3 xz-utils zstd sqlite3 curl clang libelf-dev zlib1g-dev pkg-config \
	clang-19 lld-19 llvm-19-dev libclang-rt-19-dev clang-16 lld-16 llvm-16-dev

MDBOOK := 0.5.4

.PHONY: all build plugin demo guide check test test-all test-oldest bench case-studies install packages test-packages vm-packages bench-packages package-packages toolchain nextest readers spark deny stage tarball deb rpm clean

all: build

## The guide as a book: target/guide/index.html.
guide: toolchain
	@. dev/toolchain.env.sh; [ -x target/mdbook/bin/mdbook ] || cargo install mdbook --version $(MDBOOK) --locked --root target/mdbook
	@target/mdbook/bin/mdbook build -d $(CURDIR)/target/guide docs/guide

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

package-packages:
	@dev/install-packages.sh $(PACKAGES) $$(dev/package-list.sh packaging/packages.txt)

toolchain:
	@dev/install-toolchain.sh

nextest: toolchain
	@dev/install-nextest.sh

build: packages toolchain
	@# The plugin's objects need nothing of cargo's, which leaves a CPU idle now and then.
	@$(MAKE) -s plugin TARGET=objects & objects=$$!; . dev/toolchain.env.sh; $(CARGO) build --release --locked -p transect-cli -p transect-agent -p transect-c-library -p transect-probe-agent -p transect-flow-agent \
		-p transect-region-trace -p transect-feature-compiler -p transect-feature-model && wait $$objects
	@ln -sf transect-cc target/release/transect-c++
	@# The mathematical functions of Rust's runtime would come before libm's in programs.
	@ar t $(REGION_RUNTIME) 2>/dev/null | grep '^compiler_builtins' | sort -u | xargs -r ar d $(REGION_RUNTIME) >/dev/null 2>&1
	@$(MAKE) -s plugin

## The compiler plugin of transect-cc and transect-c++, for each LLVM that is installed.
plugin:
	@for version in 19 16; do \
		command -v llvm-config-$$version >/dev/null || { echo "plugin for LLVM $$version not built: apt install llvm-$$version-dev"; continue; }; \
		$(MAKE) -s -j2 -C compiler-plugin LLVM=$$version OUT=$(CURDIR)/$(PLUGINS) FEATURE_MODEL=$(CURDIR)/target/release/libtransect_feature_model.a $(TARGET) || exit 1; \
	done

## Profiles a real program and a bundled workload, prints the views, writes target/demo/demo.html.
demo: build
	@dev/demo.sh

## For each change: formatting, lints, documentation, unit tests. No root; two minutes with one crate changed.
check: nextest
	@. dev/toolchain.env.sh; tests/run.py check

## Before others see a commit: every collector, view and export on live programs. Some twelve minutes from a built tree.
test: test-packages build nextest readers
	@. dev/toolchain.env.sh; tests/run.py test

## All the rest, for hours, in parts of a quarter of an hour at most; `make test-all PART=NAME` runs one of them.
test-all: test-packages vm-packages build nextest readers spark deny
	@. dev/toolchain.env.sh; tests/run.py all $(PART:%=--part %)

## The part of test-all that passed longest ago (tests/passed.txt).
test-oldest: test-packages vm-packages build nextest readers
	@. dev/toolchain.env.sh; tests/run.py oldest

# Foreign readers of tables and traces, in a Python of their own.
readers: packages
	@dev/install-readers.sh

# The other engine that the questions of docs/sql run on; 500 MB.
spark: packages
	@dev/install-packages.sh default-jre-headless
	@dev/install-spark.sh

# Holds licences and sources of what is depended on against deny.toml.
deny: packages
	@. dev/toolchain.env.sh; dev/install-deny.sh

bench: bench-packages build
	@. dev/toolchain.env.sh; python3 benches/run.py --transect $(BIN) | tee target/bench.md
	@python3 benches/document.py target/bench.md docs/BENCHMARKS.md

## Real programs from Debian's sources: regions, their own tests, time per feature, cost. Takes 50 minutes at most.
case-studies: bench-packages build
	@. dev/toolchain.env.sh; python3 benches/case_studies.py --transect $(BIN)

install: build
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/transect
	install -D -m 755 $(AGENT) $(DESTDIR)$(PREFIX)/lib/transect/libtransect_agent.so
	install -D -m 755 $(PROBE_AGENT) $(DESTDIR)$(PREFIX)/lib/transect/libtransect_probe_agent.so
	install -D -m 755 $(FLOW_AGENT) $(DESTDIR)$(PREFIX)/lib/transect/libtransect_flow_agent.so
	install -D -m 755 $(COMPILER) $(DESTDIR)$(PREFIX)/bin/transect-cc
	ln -sf transect-cc $(DESTDIR)$(PREFIX)/bin/transect-c++
	@for plugin in $(PLUGINS)/llvm-*/transect-features.so; do \
		[ ! -f $$plugin ] || install -D -m 755 $$plugin $(DESTDIR)$(PREFIX)/lib/transect/$${plugin#target/release/}; \
	done
	@for object in $(PLUGINS)/llvm-*/transect-confirm.o; do \
		[ ! -f $$object ] || install -D -m 644 $$object $(DESTDIR)$(PREFIX)/lib/transect/$${object#target/release/}; \
	done
	@[ ! -f $(REGION_RUNTIME) ] || install -D -m 644 $(REGION_RUNTIME) $(DESTDIR)$(PREFIX)/lib/transect/libtransect_region.a
	crates/c-library/stage.sh target/release $(DESTDIR)$(PREFIX) $(PREFIX)
	@mkdir -p $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(BIN) man $(DESTDIR)$(PREFIX)/share/man/man1
	$(BIN) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/transect
	@mkdir -p $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(BIN) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_transect
	$(BIN) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/transect.fish

# The commands linked without shared libraries, laid out with all the rest as packages hold it.
stage: package-packages build
	@. dev/toolchain.env.sh; LIBBPF_SYS_LIBRARY_PATH=$$(dirname $$(cc -print-file-name=libelf.a)) RUSTFLAGS='-C target-feature=+crt-static' \
		$(CARGO) build --release --locked --target x86_64-unknown-linux-gnu --features transect-cli/static -p transect-cli -p transect-feature-compiler
	@. dev/toolchain.env.sh; packaging/stage.sh $(STAGE)

## Packages of this build, with debug symbols beside them: target/packages.
tarball deb rpm: stage
	@packaging/$@.sh $(STAGE) target/packages

clean:
	$(CARGO) clean
