//! Linking without any library: the image is mapped by hand into processes of any libc.

fn main() {
    for arg in [
        "-nostdlib",
        "-nostartfiles",
        "-Wl,-z,now",
        "-Wl,-z,norelro",
        "-Wl,--hash-style=gnu",
        "-Wl,--build-id",
        "-Wl,-Bsymbolic",
    ] {
        println!("cargo::rustc-cdylib-link-arg={arg}");
    }
}
