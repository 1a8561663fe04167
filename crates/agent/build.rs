//! Linking without any library: the program's libc may be older than ours, or not there at all (musl).

fn main() {
    for arg in [
        "-nostdlib",
        "-nostartfiles",
        "-Wl,-z,initfirst",
        "-Wl,-z,now",
        "-Wl,-z,relro",
        "-Wl,--hash-style=gnu",
        "-Wl,--build-id",
        "-Wl,-Bsymbolic",
    ] {
        println!("cargo::rustc-cdylib-link-arg={arg}");
    }
}
