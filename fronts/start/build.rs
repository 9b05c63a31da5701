//! Link arguments of the starter: static, without libc, at an address that no
//! program uses.

use std::path::Path;

fn main() {
    let layout = Path::new(env!("CARGO_MANIFEST_DIR")).join("start.ld");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", layout.display());
    let layout = format!("-Wl,-T,{}", layout.display());
    for argument in
        ["-nostdlib", "-nostartfiles", "-static", "-no-pie", "-Wl,--build-id=none", "-Wl,-z,norelro", &layout]
    {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
}
