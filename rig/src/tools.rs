//! Programs of others that tests need. `cargo xtask setup` installs them below the target folder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The folder of the tools: in the target folder, which every clone on a machine may share.
///
/// `DEXZD_TOOLS` names another one. `repository` is where the sources are.
#[must_use]
pub fn folder(repository: &Path) -> PathBuf {
    if let Some(folder) = std::env::var_os("DEXZD_TOOLS") {
        return folder.into();
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
    target.join("tools")
}

/// A tool where setup has put it, else its name alone, for wherever the shell finds it.
#[must_use]
pub fn program(repository: &Path, name: &str) -> OsString {
    let installed = folder(repository).join(name);
    if installed.exists() { installed.into_os_string() } else { name.into() }
}

/// The sources, for a test. Asked when it runs, not when it is compiled: clones may share a target folder.
///
/// # Panics
///
/// Outside of cargo.
#[must_use]
pub fn repository() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    PathBuf::from(package).parent().expect("this package lies in the repository").to_path_buf()
}
