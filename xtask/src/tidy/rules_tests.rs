use super::*;

fn file(name: &str, text: &str) -> SourceFile {
    SourceFile::new(name.to_owned(), text.to_owned())
}

#[test]
fn a_clean_file_has_no_findings() {
    assert_eq!(check_file(&file("core/src/a.rs", "//! A.\nfn a() {}\n")), Vec::<String>::new());
}

#[test]
fn long_files_and_functions_are_found() {
    let long_file = "// a\n".repeat(FILE_LINES + 1);
    assert_eq!(check_file(&file("a.rs", &long_file)), ["a.rs:1: 701 lines, at most 700: split it by topic"]);
    assert_eq!(check_file(&file("a.rs", &"// a\n".repeat(FILE_LINES))), Vec::<String>::new());
    let long_function = format!("\nfn a() {{\n{}}}\n", "    b();\n".repeat(FUNCTION_LINES - 1));
    assert_eq!(
        check_file(&file("a.rs", &long_function)),
        ["a.rs:2: fn a has 151 lines, at most 150: split it"]
    );
}

#[test]
fn left_overs_are_found_in_code_and_not_in_texts() {
    let call = LEFT_OVERS[0].0;
    let text = format!("fn a() {{\n    {call}1);\n    \"{call}\";\n    // {call}\n}}\n");
    assert_eq!(check_file(&file("a.rs", &text)), [format!("a.rs:2: {call}…: remove it")]);
}

#[test]
fn promises_and_machine_paths_are_found_in_comments_too() {
    let promise = PROMISES[0];
    let text = format!("// {promise}: later\n// {promise}LIST is a name\n// see {}a\n", MACHINE_PATHS[0]);
    assert_eq!(
        check_file(&file("a.rs", &text)),
        [
            format!("a.rs:1: {promise}: do it now or file an issue"),
            format!("a.rs:3: {}… is a path of one machine", MACHINE_PATHS[0]),
        ]
    );
}

#[test]
fn a_file_that_nothing_leads_to_is_dead() {
    let files = [
        file("core/src/lib.rs", "mod a;\nmod folder;\n#[path = \"a_tests.rs\"]\nmod tests;\n"),
        file("core/src/a.rs", ""),
        file("core/src/a_tests.rs", ""),
        file("core/src/folder/mod.rs", "// mod b;\n"),
        file("core/src/folder/b.rs", ""),
        file("server/src/main.rs", "mod b;\n"),
    ];
    assert_eq!(
        dead_files(&files),
        ["core/src/folder/b.rs:1: no `mod b;` leads here: remove the file or declare it"]
    );
}
