use super::*;

#[test]
fn an_address_is_a_host_and_a_port_with_or_without_a_scheme() {
    for (text, shown, tls) in [
        ("127.0.0.1:8801", "127.0.0.1:8801", None),
        ("http://a:1", "a:1", Some(false)),
        ("https://dex.example.org:443/", "dex.example.org:443", Some(true)),
        ("[::1]:80", "[::1]:80", None),
        ("a:1, b:2,c_d.e-f:3", "a:1,b:2,c_d.e-f:3", None),
        ("https://a:1,https://b:1", "a:1,b:1", Some(true)),
    ] {
        let addresses = Addresses::parse(text).expect(text);
        assert_eq!((addresses.to_string().as_str(), addresses.tls), (shown, tls), "{text}");
    }
}

#[test]
fn what_is_no_address_is_refused_by_name() {
    for text in [
        "",
        "a",
        "a:",
        ":1",
        "a:65536",
        "a:-1",
        "a:+1",
        "::1:80",
        "[x]:1",
        "a b:1",
        "ftp://a:1",
        "a:1,",
        "http://",
    ] {
        let error = Addresses::parse(text).expect_err(text).to_string();
        assert!(
            error.ends_with("is no server address: write host:port, for example 127.0.0.1:8801"),
            "{error}"
        );
    }
    assert_eq!(
        Addresses::parse("https://a:1,b:1").expect_err("mixed").to_string(),
        "\"https://a:1,b:1\" is no server address: either all addresses of a list begin with https:// or none does"
    );
}

#[test]
fn loopback_is_known_by_name_and_by_number() {
    let is_loopback = |text: &str| Addresses::parse(text).expect(text).list[0].is_loopback();
    assert!(is_loopback("localhost:1") && is_loopback("127.0.0.2:1") && is_loopback("[::1]:1"));
    assert!(!is_loopback("10.0.0.1:1") && !is_loopback("dex:1"));
}
