//! The operator's guide: what it tells to type can be typed, and every way in which a process ends is in it.

use dexzd_core::stop::StopReason;
use dexzd_deploy::deployment::Deployment;
use dexzd_deploy::pages::Page;
use dexzd_deploy::read;

const GUIDE: &str = "docs/operator-guide.md";
const UPGRADING: &str = "docs/upgrading.md";

fn commands() -> Vec<String> {
    [GUIDE, UPGRADING].iter().flat_map(|path| Page::read(path).commands()).collect()
}

#[test]
fn every_stop_reason_is_in_the_guide() {
    let guide = read(GUIDE);
    for reason in StopReason::ALL {
        let link = format!("(errors/{}.md)", reason.label());
        assert!(guide.contains(&link), "{GUIDE} does not lead to {link}");
    }
}

/// Pods, Services, claims and Secrets that the commands name are those that the manifests make.
#[test]
fn the_commands_name_what_the_manifests_make() {
    let deployment = Deployment::of_manifests();
    let set = deployment.only("StatefulSet");
    let name = set["metadata"]["name"].as_str().expect("a name");
    let claim = set["spec"]["volumeClaimTemplates"][0]["metadata"]["name"].as_str().expect("a name");
    let secret = &set["spec"]["template"]["spec"]["containers"][0]["envFrom"][0]["secretRef"]["name"];
    let mut known: Vec<String> = vec![name.to_owned(), secret.as_str().expect("a name").to_owned()];
    for pod in 0..2 {
        known.push(format!("{name}-{pod}"));
        known.push(format!("{claim}-{name}-{pod}"));
    }
    for service in deployment.of_kind("Service") {
        known.push(service["metadata"]["name"].as_str().expect("a name").to_owned());
    }
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '-';
    let mut seen = 0;
    for command in commands().iter().filter(|command| command.starts_with("kubectl")) {
        for word in command.split(|character: char| !is_part(character)) {
            if word.contains("dex-server-zd") {
                assert!(known.iter().any(|name| name == word), "{word} in `{command}`");
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

/// Before a step down somebody must be told whom they step down (HA-133), and after a lost answer which epoch (HA-130).
#[test]
fn no_command_steps_down_whoever_is_active() {
    let commands = commands();
    let step_downs: Vec<&String> =
        commands.iter().filter(|command| command.contains("admin step-down")).collect();
    assert!(step_downs.len() > 3);
    for command in step_downs {
        assert!(command.contains("--yes --expected-node-id orders"), "{command}");
    }
}
