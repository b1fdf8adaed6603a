//! Generates the CSI types. protox compiles the description, so no `protoc` is needed.

#![allow(clippy::disallowed_methods, reason = "a build script writes what it generates")]

use std::{env, path::PathBuf};

/// Requests that carry secrets: their `Debug` is written by hand in `src/csi.rs`.
const SECRET_BEARING: [&str; 3] = [
    "csi.v1.NodeStageVolumeRequest",
    "csi.v1.NodePublishVolumeRequest",
    "csi.v1.NodeExpandVolumeRequest",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/csi.proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let descriptors = protox::compile(["csi.proto"], ["proto"])?;

    // The product decodes messages and never serves or calls through a stub.
    let mut messages = prost_build::Config::new();
    messages.out_dir(&out).skip_debug(SECRET_BEARING);
    messages.compile_fds(descriptors.clone())?;

    // The tests serve and call: stubs over the same message types.
    let stubs = out.join("stubs");
    std::fs::create_dir_all(&stubs)?;
    tonic_prost_build::configure()
        .out_dir(&stubs)
        .extern_path(".csi.v1", "::mount_guard::csi")
        .compile_fds(descriptors)?;
    Ok(())
}
