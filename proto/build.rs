//! Compiles the `.proto` files with protox, in Rust: no `protoc` is needed.

use std::path::PathBuf;

const FILES: [&str; 4] = ["dex/model.proto", "dex/worker.proto", "dex/flow.proto", "dex/admin.proto"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let mut bytes = Vec::new();
    prost_types::FileDescriptorSet::encode(&descriptors, &mut bytes)?;
    std::fs::write(out.join("dex.descriptors"), bytes)?;
    tonic_prost_build::configure().boxed("dex.ServerFrame.kind.task").compile_fds(descriptors)?;
    Ok(())
}

use prost::Message as _;
