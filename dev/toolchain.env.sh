# Sourced: makes a rustup toolchain visible.
[ -f "$HOME/.cargo/env" ] && . "$HOME/.cargo/env" || true
