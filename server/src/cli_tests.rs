use clap::CommandFactory as _;

use super::*;

fn parse(arguments: &[&str]) -> Result<CommandLine, clap::Error> {
    CommandLine::try_parse_from([&["dex-server-zd"], arguments].concat())
}

#[test]
fn the_command_line_is_sound() {
    CommandLine::command().debug_assert();
}

#[test]
fn ha_011_ha_012_dev_and_local_take_the_durability_flag_in_both_spellings() {
    for (profile, name) in [(Profile::Dev, "dev"), (Profile::Local, "local")] {
        for (spelling, mode) in [
            ("strict", DurabilityMode::Strict),
            ("processCrashSafe", DurabilityMode::ProcessCrashSafe),
            ("process-crash-safe", DurabilityMode::ProcessCrashSafe),
            ("relaxed", DurabilityMode::Relaxed),
        ] {
            let line = parse(&[name, "--durability", spelling]).expect("legal");
            let (parsed, arguments) = line.command.expect("given").into_parts();
            assert_eq!((parsed, arguments.overrides().durability), (profile, Some(mode)));
        }
    }
}

#[test]
fn a_bad_flag_names_flag_value_and_rule() {
    let message = parse(&["dev", "--durability", "fast"]).expect_err("refused").to_string();
    assert!(message.contains("'fast' for '--durability <MODE>'"), "{message}");
    assert!(message.contains("use strict, processCrashSafe (or process-crash-safe) or relaxed"), "{message}");
    let message = parse(&["dev", "--listen", "8801"]).expect_err("refused").to_string();
    assert!(message.contains("'8801' for '--listen <ADDR>'"), "{message}");
    assert!(message.contains("an address is host:port"), "{message}");
}

#[test]
fn a_config_alone_is_a_production_node_and_so_is_serve() {
    for line in [&["--config", "node.yaml"][..], &["serve", "--config", "node.yaml"]] {
        let command = parse(line).expect("legal").into_command().expect("says what to run");
        let (profile, arguments) = command.into_parts();
        assert_eq!((profile, arguments.config), (Profile::Node, Some(PathBuf::from("node.yaml"))));
    }
    let message = parse(&["serve"]).expect_err("refused").to_string();
    assert!(message.contains("--config <FILE>"), "{message}");
    let message =
        parse(&["serve", "--config", "f", "--durability", "strict"]).expect_err("refused").to_string();
    assert!(message.contains("unexpected argument '--durability'"), "{message}");
    assert!(parse(&[]).expect("legal").into_command().is_none());
}

#[test]
fn the_help_is_this() {
    insta::assert_snapshot!(CommandLine::command().render_long_help());
    let mut command = CommandLine::command();
    let dev = command.find_subcommand_mut("dev").expect("exists");
    insta::assert_snapshot!(dev.render_long_help());
    let serve = command.find_subcommand_mut("serve").expect("exists");
    insta::assert_snapshot!(serve.render_long_help());
}
