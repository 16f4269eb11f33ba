use std::path::PathBuf;
use std::time::Duration;

use super::*;

fn parse(profile: Profile, yaml: &str) -> Result<Config, ConfigError> {
    Config::parse(profile, yaml, Overrides::default())
}

/// The configuration of a production node, with what it cannot do without.
fn node(yaml: &str) -> String {
    format!("nodeId: n\nobjectStorage: {{kind: folder, path: /store}}\n{yaml}")
}

fn refusal(profile: Profile, yaml: &str) -> String {
    match parse(profile, yaml) {
        Ok(config) => panic!("accepted as {config:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn ha_002_ha_004_ha_012_lease_duration_defaults() {
    let node = parse(Profile::Node, &node("")).expect("a node ID and a store are enough");
    assert_eq!(node.lease_duration.period(), Duration::from_secs(10));
    for profile in [Profile::Dev, Profile::Local] {
        let config = parse(profile, "").expect("nothing is mandatory");
        assert_eq!(config.lease_duration.period(), Duration::from_secs(30));
        let given = parse(profile, "lease:\n  duration: 12s").expect("legal");
        assert_eq!(given.lease_duration.period(), Duration::from_secs(12));
    }
}

#[test]
fn ha_008_ha_011_the_flag_wins_over_the_file_and_the_file_over_strict() {
    let yaml = "dev: {durabilityMode: relaxed}";
    let flag = Overrides { durability: Some(DurabilityMode::ProcessCrashSafe), ..Overrides::default() };
    let storage = |yaml, overrides| Config::parse(Profile::Dev, yaml, overrides).expect("legal").storage;
    let data_dir = |durability| Storage::DataDir { durability };
    assert_eq!(storage("", Overrides::default()), data_dir(DurabilityMode::Strict));
    assert_eq!(storage(yaml, Overrides::default()), data_dir(DurabilityMode::Relaxed));
    assert_eq!(storage(yaml, flag), data_dir(DurabilityMode::ProcessCrashSafe));
}

#[test]
fn d_028_both_spellings_of_process_crash_safe() {
    for spelling in ["processCrashSafe", "process-crash-safe"] {
        let yaml = format!("dev:\n  durabilityMode: {spelling}");
        let config = parse(Profile::Local, &yaml).expect("legal");
        assert_eq!(config.storage, Storage::DataDir { durability: DurabilityMode::ProcessCrashSafe });
    }
}

#[test]
fn ha_002_ha_043_ha_044_ha_045_ha_046_defaults_of_a_node() {
    let config = parse(Profile::Node, &node("standby:\n  mode: hot")).expect("legal");
    let Standby::Hot(hot) = &config.standby else { panic!("not hot: {config:?}") };
    assert_eq!(hot.held_lease_poll_interval(), Duration::from_millis(250));
    assert_eq!(hot.step_down_hold_off(), Duration::from_secs(5));
    assert_eq!(hot.lagging_takeover_delay(), Duration::from_millis(1_500));
    assert_eq!(hot.behind_lag_threshold(), Duration::from_secs(10));
    assert_eq!(config.attempt_drain_timeout, Duration::from_secs(30));
    assert_eq!(config.api_listen.to_string(), "0.0.0.0:8801");
    assert_eq!(config.metrics_listen.to_string(), ":9090");
    assert!(!config.lease_fail_if_held);
}

#[test]
fn defaults_of_dev() {
    let overrides = Overrides { data_dir: Some(PathBuf::from("/data")), ..Overrides::default() };
    let config = Config::parse(Profile::Dev, "", overrides).expect("legal");
    assert_eq!(config.node_id.as_str(), "dev");
    assert_eq!(config.api_listen.to_string(), "127.0.0.1:8801");
    assert_eq!(config.metrics_listen.to_string(), "127.0.0.1:9090");
    assert!(!config.metrics_listen_given);
    assert_eq!(config.data_dir, PathBuf::from("/data"));
    assert_eq!(config.standby, Standby::Cold { step_down_hold_off: Duration::from_secs(5) });
}

#[test]
fn ha_041_hot_only_keys_in_cold_mode_are_checked_for_form_then_ignored() {
    let unsafe_ratio = "standby:\n  laggingTakeoverDelay: 20s";
    assert!(parse(Profile::Dev, unsafe_ratio).is_ok());
    assert_eq!(
        refusal(Profile::Dev, "standby:\n  laggingTakeoverDelay: 20"),
        format!("standby.laggingTakeoverDelay: `20` is refused: it has no unit; {}", duration::RULE)
    );
}

/// Lesson F7: every refusal names the key, the value and the rule.
#[test]
fn lesson_f7_bad_configurations_are_refused_by_key_value_and_rule() {
    let rule = duration::RULE;
    let unit = format!("it has no unit; {rule}");
    let lease = "it must be at least 3s, so that a renewal and its retries fit, at most 1h, and in whole milliseconds";
    let table: [(&str, &str, String); 24] = [
        ("lease: {duration: 10}", "lease.duration: `10`", unit.clone()),
        ("lease: {duration: 0s}", "lease.duration: `0s`", rule.into()),
        ("lease: {duration: -1s}", "lease.duration: `-1s`", rule.into()),
        ("lease: {duration: 4hrs}", "lease.duration: `4hrs`", rule.into()),
        ("lease: {duration: 10.5}", "lease.duration: `10.5`", unit),
        ("lease: {duration: s}", "lease.duration: `s`", rule.into()),
        ("lease: {duration: '10 s'}", "lease.duration: `10 s`", rule.into()),
        ("lease: {duration: 1e3s}", "lease.duration: `1e3s`", rule.into()),
        ("lease: {duration: }", "lease.duration: nothing", rule.into()),
        ("lease: {duration: [1s]}", "lease.duration: a list", rule.into()),
        ("lease: {duration: 2999ms}", "lease.duration: `2999ms`", lease.into()),
        ("lease: {duration: 3601s}", "lease.duration: `3601s`", lease.into()),
        ("lease: {duration: 3000.5ms}", "lease.duration: `3000500us`", lease.into()),
        ("lease: {duration: 99999999h}", "lease.duration: `99999999h`", "it is longer than a year".into()),
        (
            "lease: {duration: 10.0000001s}",
            "lease.duration: `10.0000001s`",
            format!("it is finer than a microsecond; {rule}"),
        ),
        ("lease: {failIfHeld: 1}", "lease.failIfHeld: `1`", "it must be true or false".into()),
        ("lease: 10s", "lease: `10s`", "it must be a section of `key: value` lines".into()),
        (
            "lifecycle: {attemptDrainTimeout: 5s1m}",
            "lifecycle.attemptDrainTimeout: `5s1m`",
            format!("{rule}; units go from large to small, each once"),
        ),
        (
            "dev: {durabilityMode: fast}",
            "dev.durabilityMode: `fast`",
            "it must be strict, processCrashSafe (or process-crash-safe) or relaxed".into(),
        ),
        ("standby: {mode: warm}", "standby.mode: `warm`", "it must be cold or hot".into()),
        (
            "standby: {mode: hot}",
            "standby.mode: `hot`",
            "`dex-server-zd dev` has no standby and accepts only cold (HA-48)".into(),
        ),
        (
            "nodeId: a/b",
            "nodeId: `a/b`",
            "a node ID has 1 to 63 letters, digits, `-`, `_` or `.` and begins with a letter or digit".into(),
        ),
        (
            "nodeId: .",
            "nodeId: `.`",
            "a node ID has 1 to 63 letters, digits, `-`, `_` or `.` and begins with a letter or digit".into(),
        ),
        (
            "api: {listen: '127.0.0.1'}",
            "api.listen: `127.0.0.1`",
            "an address is host:port, for example 127.0.0.1:8801, [::1]:8801, localhost:8801 or :8801 for all \
             addresses; the port is a number up to 65535"
                .into(),
        ),
    ];
    for (yaml, key_and_value, rule) in table {
        assert_eq!(refusal(Profile::Dev, yaml), format!("{key_and_value} is refused: {rule}"), "{yaml}");
    }
}

#[test]
fn lesson_f7_sub_second_values_are_kept_exactly() {
    for (text, micros) in [
        ("250ms", 250_000),
        ("1500ms", 1_500_000),
        ("1.5s", 1_500_000),
        ("0.000001s", 1),
        ("1us", 1),
        ("999.999ms", 999_999),
        ("1m30s", 90_000_000),
        ("1h0m0.25s", 3_600_250_000),
        ("10s", 10_000_000),
        ("10.0s", 10_000_000),
    ] {
        let yaml =
            format!("standby: {{behindLagThreshold: {text}}}\nlifecycle: {{attemptDrainTimeout: {text}}}");
        let config = parse(Profile::Dev, &yaml).expect(text);
        assert_eq!(config.attempt_drain_timeout, Duration::from_micros(micros), "{text}");
    }
}

#[test]
fn ha_047_hot_with_fail_if_held_is_refused() {
    assert_eq!(
        refusal(Profile::Node, &node("lease: {failIfHeld: true}\nstandby: {mode: hot}")),
        "standby.mode: `hot` is refused: a hot standby waits for the lease, which `lease.failIfHeld: true` \
         forbids (HA-47)"
    );
}

#[test]
fn ha_048_hot_is_refused_in_dev_and_local() {
    for profile in [Profile::Dev, Profile::Local] {
        assert_eq!(
            refusal(profile, "standby: {mode: hot}"),
            format!(
                "standby.mode: `hot` is refused: `dex-server-zd {}` has no standby and accepts only cold (HA-48)",
                profile.name()
            )
        );
        assert!(parse(profile, "standby: {mode: cold}").is_ok());
    }
}

#[test]
fn ha_049_the_hold_off_is_strictly_longer_than_delay_and_poll() {
    let yaml = |hold_off: &str| {
        node(&format!(
            "standby: {{mode: hot, stepDownHoldOff: {hold_off}, laggingTakeoverDelay: 1s, \
             heldLeasePollInterval: 500ms}}"
        ))
    };
    assert_eq!(
        refusal(Profile::Node, &yaml("1500ms")),
        "standby.stepDownHoldOff: `1500ms` is refused: with mode hot it must be longer than laggingTakeoverDelay \
         (1s) and heldLeasePollInterval (500ms) together, so that a standby which is not hot gets its chance first \
         (HA-49)"
    );
    assert!(parse(Profile::Node, &yaml("1501ms")).is_ok());
    assert!(parse(Profile::Node, &yaml("1500.001ms")).is_ok());
}

#[test]
fn ha_050_unknown_keys_and_sections_are_refused() {
    assert_eq!(
        refusal(Profile::Dev, "stanby: {mode: hot}"),
        "stanby: unknown section (value a section); this release knows at the top: nodeId, api, lease, standby, \
         lifecycle, objectStorage, dev, dataDir, metrics, authentication, tls"
    );
    assert_eq!(
        refusal(Profile::Dev, "lease: {durration: 10s}"),
        "lease.durration: unknown key (value `10s`); this release knows in `lease`: duration, failIfHeld"
    );
    assert_eq!(
        refusal(Profile::Dev, "lease.duration: 10s"),
        "lease.duration: unknown key (value `10s`); this release knows at the top: nodeId, api, lease, standby, \
         lifecycle, objectStorage, dev, dataDir, metrics, authentication, tls; sections are written nested, as in `lease:` and below it `  duration: 10s`"
    );
}

#[test]
fn lesson_f7_what_is_not_yaml_or_said_twice_is_refused() {
    for yaml in ["lease: {duration", "- a\n- b", "lease: {duration: 10s, duration: 11s}", "nodeId: [a"] {
        let message = refusal(Profile::Dev, yaml);
        assert!(
            message.starts_with("the configuration is not valid YAML: ")
                || message
                    == "the configuration: a list is refused: it must be a section of `key: value` lines",
            "{message}"
        );
    }
}

#[test]
fn words_that_old_yaml_takes_for_truth_are_words() {
    for word in ["n", "y", "no", "yes", "on", "off", "No", "ON"] {
        let config = parse(Profile::Local, &format!("nodeId: {word}")).expect("a name");
        assert_eq!(config.node_id.as_str(), word);
        assert_eq!(
            refusal(Profile::Local, &format!("lease: {{failIfHeld: {word}}}")),
            format!("lease.failIfHeld: `{word}` is refused: it must be true or false")
        );
    }
    assert!(parse(Profile::Local, "lease: {failIfHeld: true}").expect("legal").lease_fail_if_held);
}

#[test]
fn d_007_a_lease_below_three_seconds_is_refused_and_three_seconds_are_not() {
    assert!(parse(Profile::Dev, "lease: {duration: 2.999999s}").is_err());
    assert!(parse(Profile::Dev, "lease: {duration: 3s}").is_ok());
    assert!(parse(Profile::Dev, "lease: {duration: 1h}").is_ok());
}

#[test]
fn ha_037_a_lease_above_two_minutes_warns() {
    let warnings = |yaml| parse(Profile::Dev, yaml).expect("legal").warnings();
    assert_eq!(warnings("lease: {duration: 120s}"), Vec::<String>::new());
    assert_eq!(
        warnings("lease: {duration: 121s}"),
        [
            "lease.duration is 121s: after a crash nobody serves for up to that long and 1s more; above 120s there \
          is little left to save"
        ]
    );
}

#[test]
fn listen_addresses() {
    for (text, host) in [
        ("127.0.0.1:0", "127.0.0.1"),
        (":9090", "0.0.0.0"),
        ("[::1]:80", "::1"),
        ("localhost:65535", "localhost"),
    ] {
        let address = ListenAddress::parse(text).expect(text);
        assert_eq!(address.host(), host);
        assert_eq!(address.to_string(), text);
    }
    for text in ["", ":", "a", "a:", "a:65536", "a:-1", "a:+1", "::1:80", "[::1]", "[x]:1", "a b:1"] {
        assert!(ListenAddress::parse(text).is_err(), "{text}");
    }
}

#[test]
fn authentication_and_tls_are_off_unless_their_sections_are_there_and_whole() {
    let config = parse(Profile::Dev, "").expect("legal");
    assert_eq!((config.authentication, config.tls), (None, None));
    let yaml = "authentication: {clientTokenFile: /c, adminTokenFile: /a}\ntls: {certificateFile: c.pem, keyFile: k.pem}";
    let config = parse(Profile::Dev, yaml).expect("legal");
    assert_eq!(
        config.authentication,
        Some(Authentication { client_token_file: "/c".into(), admin_token_file: Some("/a".into()) })
    );
    assert_eq!(
        config.tls,
        Some(Tls { certificate_file: "c.pem".into(), key_file: "k.pem".into(), client_ca_file: None })
    );
    let no_tokens = "authentication.clientTokenFile: nothing is refused: with this section every client and Worker needs a \
                     token, and this file lists those that are valid; leave the whole section out to switch authentication \
                     off";
    let no_pair = |key: &str| {
        format!(
            "{key}: nothing is refused: TLS needs a certificate and its key, each a PEM file; leave the whole section out \
             to switch TLS off"
        )
    };
    for (yaml, message) in [
        ("authentication:", no_tokens.to_owned()),
        ("authentication: {}", no_tokens.to_owned()),
        ("authentication: {adminTokenFile: /a}", no_tokens.to_owned()),
        (
            "authentication: {clientTokenFile: ''}",
            "authentication.clientTokenFile: `` is refused: it must be a path".to_owned(),
        ),
        (
            "authentication: {clientTokenFile: [a]}",
            "authentication.clientTokenFile: a list is refused: it must be one text".to_owned(),
        ),
        (
            "authentication: {clientTokensFile: a}",
            "authentication.clientTokensFile: unknown key (value `a`); this release knows in `authentication`: \
             clientTokenFile, adminTokenFile"
                .to_owned(),
        ),
        ("tls: {certificateFile: c}", no_pair("tls.keyFile")),
        ("tls: {clientCaFile: c}", no_pair("tls.certificateFile")),
    ] {
        assert_eq!(refusal(Profile::Dev, yaml), message, "{yaml}");
    }
}

#[test]
fn ha_111_whoever_can_be_reached_without_authentication_is_told_so() {
    let warnings = |yaml: &str| parse(Profile::Local, yaml).expect("legal").warnings();
    let open = "authentication is off, and api.listen (0.0.0.0:8801) is not a loopback address: everybody who reaches it can \
                read and change every Flow, and step this node down again and again; set `authentication`, or restrict who \
                reaches the address (HA-111)";
    assert_eq!(warnings(""), [open]);
    assert_eq!(warnings("tls: {certificateFile: c, keyFile: k}"), [open]);
    for loopback in ["127.0.0.1:1", "localhost:1", "'[::1]:1'", "127.9.9.9:1"] {
        assert_eq!(warnings(&format!("api: {{listen: {loopback}}}")), Vec::<String>::new());
    }
    assert_eq!(
        warnings("tls: {certificateFile: c, keyFile: k, clientCaFile: a}"),
        [
            "authentication is off: everybody with a client certificate who reaches api.listen (0.0.0.0:8801) can step this node \
          down again and again; `authentication` keeps that for admin tokens (HA-111)"
        ]
    );
    assert_eq!(
        warnings("authentication: {clientTokenFile: c}"),
        [
            "tls is off, and api.listen (0.0.0.0:8801) is not a loopback address: tokens travel readable for everybody in \
          between; set `tls`, or let something in front of this process speak TLS"
        ]
    );
    assert_eq!(
        warnings("authentication: {clientTokenFile: c}\ntls: {certificateFile: c, keyFile: k}"),
        Vec::<String>::new()
    );
}
