//! Link arguments of the preloaded library: its constructor runs before those
//! of every other library, its destructor after them.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,initfirst");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librelive_preload.so");
}
