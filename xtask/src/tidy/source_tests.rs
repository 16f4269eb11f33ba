use super::*;

fn file(text: &str) -> SourceFile {
    SourceFile::new("a.rs".to_owned(), text.to_owned())
}

#[test]
fn comments_texts_and_characters_are_not_code() {
    let code = |text: &str| file(text).code;
    assert_eq!(code("a // b\nc"), "a     \nc");
    assert_eq!(code("a /* b /* c */ d */ e"), "a                   e");
    assert_eq!(code("f(\"x { \\\" }\") }"), "f(          ) }");
    assert_eq!(code("f(r#\"{ \" }\"#) }"), "f(          ) }");
    assert_eq!(code("f('{', '\\'', '\\u{7b}') }"), "f(   ,     ,         ) }");
    assert_eq!(code("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
    assert_eq!(code("b\"{\" }"), "b    }");
}

#[test]
fn functions_are_found_with_their_length() {
    let text = "fn one() {}\n\ntrait T {\n    fn declared(&self) -> [u8; 4];\n    fn two(&self) {\n        \
                // }\n        let f: fn (u8) = three;\n    }\n}\n";
    let found = file(text).functions();
    let expected = [("one", 1, 1), ("two", 5, 4)].map(|(name, line, line_count)| Function {
        name: name.to_owned(),
        line,
        line_count,
    });
    assert_eq!(found, expected);
}
