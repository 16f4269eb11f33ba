use super::*;

fn file(contents: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), contents).expect("writable");
    file
}

fn why(contents: &[u8]) -> String {
    let file = file(contents);
    let error = read_tokens(file.path()).expect_err("it is refused");
    assert_eq!(error.path, file.path());
    error.why
}

#[test]
fn tokens_stand_on_lines_of_their_own_and_are_trimmed() {
    let file = file(b"# of the orders team\n  first-token-0123  \r\n\n\tsecond-token-4567\n");
    let tokens = read_tokens(file.path()).expect("two tokens");
    assert_eq!(
        tokens.iter().map(Token::secret).collect::<Vec<_>>(),
        ["first-token-0123", "second-token-4567"]
    );
}

#[test]
fn an_unusable_file_is_refused_without_its_contents() {
    let none = "it has no token: write one on a line of its own";
    assert_eq!(why(b""), none);
    assert_eq!(why(b" \n# only a comment\n"), none);
    assert_eq!(
        why(b"first-token-0123\nshort\n"),
        "line 2: a token has 16 to 4096 characters, and this one 5"
    );
    assert_eq!(
        why(b"two words are no token\n"),
        "line 1: a token has only letters, digits and signs of ASCII, and no spaces"
    );
    assert_eq!(why(b"\xff\xfe"), "it is not text");
    assert_eq!(
        why(&vec![b'\n'; (1 << 20) + 1]),
        "it has 1048577 bytes, and a file of tokens at most 1048576"
    );
    let many = "0123456789abcdef\n".repeat(TOKENS_MAX + 1);
    assert_eq!(why(many.as_bytes()), "it has more than 1000 tokens");
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert_eq!(read_tokens(folder.path()).expect_err("a folder").why, "it is not a file");
    let missing = read_tokens(&folder.path().join("nothing")).expect_err("missing");
    assert_eq!(missing.why, "No such file or directory (os error 2)");
}

#[test]
fn a_token_is_never_shown() {
    let token = Token::parse("first-token-0123").expect("long enough");
    assert_eq!(format!("{token:?}"), "Token(…)");
    let bearer = token.bearer();
    assert_eq!(bearer, "Bearer first-token-0123");
    assert_eq!(format!("{bearer:?}"), "Sensitive");
}
