//! What a machine needs besides Rust, found out and installed.
//!
//! Protobuf files are compiled in Rust, so RocksDB is the one guest with needs of its own: a C++ compiler,
//! and libclang, with which its Rust bindings are generated. The light build needs neither.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{self, Failure};

/// What the caller is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Builds with RocksDB.
    RocksDb,
    /// Also formats and lints.
    Checks,
}

/// Finds out what is missing for `need` and installs it, saying what it does.
pub(crate) fn run(need: Need) -> Result<(), Failure> {
    let missing = missing();
    if missing.is_empty() {
        eprintln!("setup: a C++ compiler and libclang are here");
    } else {
        install(&missing)?;
    }
    match need {
        Need::RocksDb => Ok(()),
        Need::Checks => add_rust_components(),
    }
}

/// Something that RocksDB's build looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    CppCompiler,
    LibClang,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::CppCompiler => "a C++ compiler",
            Self::LibClang => "libclang",
        }
    }
}

fn missing() -> Vec<Part> {
    let mut missing = Vec::new();
    let compilers = std::env::var("CXX").ok().into_iter().chain(["c++", "g++", "clang++"].map(String::from));
    if !compilers.into_iter().any(|compiler| shell::succeeds(&compiler, &["--version"])) {
        missing.push(Part::CppCompiler);
    }
    if !library_folders().iter().any(|folder| holds_libclang(folder)) {
        missing.push(Part::LibClang);
    }
    missing
}

/// Where the bindings generator looks for libclang: what the environment and llvm-config say, then the
/// usual places.
fn library_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::env::var_os("LIBCLANG_PATH").map(PathBuf::from).into_iter().collect();
    if let Ok(output) = Command::new("llvm-config").arg("--libdir").output()
        && output.status.success()
    {
        folders.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    for folder in [
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib64",
        "/usr/local/lib",
        "/opt/homebrew/opt/llvm/lib",
        "/usr/local/opt/llvm/lib",
        "/Library/Developer/CommandLineTools/usr/lib",
        "/Applications/Xcode.app/Contents/Developer/Toolchains/XcodeDefault.xctoolchain/usr/lib",
    ] {
        folders.push(folder.into());
    }
    // Debian keeps libraries in /usr/lib/llvm-14/lib and /usr/lib/x86_64-linux-gnu, Fedora in
    // /usr/lib64/llvm17/lib.
    for parent in ["/usr/lib", "/usr/lib64"] {
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with("llvm") {
                folders.push(entry.path().join("lib"));
            } else if name.contains("-linux-gnu") {
                folders.push(entry.path());
            }
        }
    }
    folders
}

/// `libclang.so`, `libclang-14.so.1`, `libclang.dylib`; not `libclang-cpp.so.14`, which is another library.
fn holds_libclang(folder: &Path) -> bool {
    std::fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
        let name = entry.file_name();
        is_libclang(&name.to_string_lossy())
    })
}

fn is_libclang(file_name: &str) -> bool {
    let Some(rest) = file_name.strip_prefix("libclang") else {
        return false;
    };
    let version_end = rest
        .strip_prefix('-')
        .map(|version| {
            version.trim_start_matches(|character: char| character.is_ascii_digit() || character == '.')
        })
        .unwrap_or(rest);
    // Trimming a version also trims the dot before the ending.
    rest == ".so"
        || rest == ".dylib"
        || rest.starts_with(".so.")
        || (rest.starts_with('-') && (version_end == "so" || version_end.starts_with("so.")))
}

fn install(missing: &[Part]) -> Result<(), Failure> {
    let names: Vec<&str> = missing.iter().map(|part| part.name()).collect();
    eprintln!("setup: RocksDB needs {}, which this machine lacks", names.join(" and "));
    let Some(manager) = Manager::of_this_machine() else {
        return Err(Failure::new(format!(
            "setup knows apt, dnf and brew, and finds none of them here. Install {} and run this again; \
             LIBCLANG_PATH may name the folder that holds libclang.",
            names.join(" and ")
        )));
    };
    let packages: Vec<&str> = missing.iter().map(|part| manager.package(*part)).collect();
    eprintln!("setup: installing {} with {}", packages.join(" and "), manager.program());
    if manager == Manager::Apt {
        shell::run(privileged(manager).arg("update"))?;
    }
    shell::run(privileged(manager).args(manager.install_flags()).args(&packages))?;
    let still = self::missing();
    if still.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = still.iter().map(|part| part.name()).collect();
    Err(Failure::new(format!(
        "{} installed its packages, but {} cannot be found. LIBCLANG_PATH and CXX may say where it is.",
        manager.program(),
        names.join(" and ")
    )))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manager {
    Apt,
    Dnf,
    Brew,
}

impl Manager {
    fn of_this_machine() -> Option<Self> {
        [Self::Apt, Self::Dnf, Self::Brew]
            .into_iter()
            .find(|manager| shell::succeeds(manager.program(), &["--version"]))
    }

    fn program(self) -> &'static str {
        match self {
            Self::Apt => "apt-get",
            Self::Dnf => "dnf",
            Self::Brew => "brew",
        }
    }

    fn install_flags(self) -> &'static [&'static str] {
        match self {
            Self::Apt => &["install", "--yes", "--no-install-recommends"],
            Self::Dnf => &["install", "--assumeyes"],
            Self::Brew => &["install"],
        }
    }

    fn package(self, part: Part) -> &'static str {
        match (self, part) {
            (Self::Apt, Part::CppCompiler) => "g++",
            (Self::Apt, Part::LibClang) => "libclang-dev",
            (Self::Dnf, Part::CppCompiler) => "gcc-c++",
            (Self::Dnf, Part::LibClang) => "clang-devel",
            (Self::Brew, Part::CppCompiler | Part::LibClang) => "llvm",
        }
    }
}

/// The manager itself, through sudo where it needs another user. Homebrew refuses to be root.
fn privileged(manager: Manager) -> Command {
    let is_root =
        Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    if manager == Manager::Brew || is_root {
        return Command::new(manager.program());
    }
    let mut command = Command::new("sudo");
    command.arg(manager.program());
    command
}

/// rustfmt and clippy, which a minimal toolchain comes without.
fn add_rust_components() -> Result<(), Failure> {
    for (component, subcommand) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        if shell::succeeds("cargo", &[subcommand, "--version"]) {
            continue;
        }
        eprintln!("setup: adding the Rust component {component}");
        shell::run(Command::new("rustup").args(["component", "add", component]))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_libclang;

    #[test]
    fn only_libclang_itself_counts() {
        for name in
            ["libclang.so", "libclang.so.1", "libclang-14.so", "libclang-14.0.6.so.1", "libclang.dylib"]
        {
            assert!(is_libclang(name), "{name}");
        }
        for name in ["libclang-cpp.so.14", "libclangAST.a", "libclang.a", "libclang_rt.asan.so", "clang.so"] {
            assert!(!is_libclang(name), "{name}");
        }
    }
}
