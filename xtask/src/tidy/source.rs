//! One Rust file, with its code told apart from its comments and texts.

/// A Rust file.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// The path within the repository.
    pub(crate) name: String,
    pub(crate) text: String,
    /// The text with every comment, string and character blanked, line by line as it was.
    pub(crate) code: String,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// From 1.
    pub(crate) line: usize,
    /// From the line of `fn` to the closing brace, both included.
    pub(crate) line_count: usize,
}

impl SourceFile {
    pub(crate) fn new(name: String, text: String) -> Self {
        let code = blank(&text);
        Self { name, text, code }
    }

    /// All functions with a body, nested ones too.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for (start, _) in self.code.match_indices("fn ") {
            let before = self.code[..start].chars().next_back();
            if before.is_some_and(|character| character.is_alphanumeric() || character == '_') {
                continue;
            }
            let rest = self.code[start + 3..].trim_start();
            let name: String = rest
                .chars()
                .take_while(|character| character.is_alphanumeric() || *character == '_')
                .collect();
            let Some(body) = body(&self.code[start..]) else {
                continue;
            };
            if !name.is_empty() {
                functions.push(Function {
                    name,
                    line: self.code[..start].matches('\n').count() + 1,
                    line_count: self.code[start..start + body].matches('\n').count() + 1,
                });
            }
        }
        functions
    }
}

/// How many bytes it is from `fn` to the end of the function's body; none for a declaration.
fn body(code: &str) -> Option<usize> {
    let mut depth = 0_usize;
    // A `;` within the brackets of `[u8; 4]` ends nothing.
    let mut brackets = 0_usize;
    for (position, character) in code.char_indices() {
        match character {
            '(' | '[' if depth == 0 => brackets += 1,
            ')' | ']' if depth == 0 => brackets = brackets.saturating_sub(1),
            ';' if depth == 0 && brackets == 0 => return None,
            '{' => depth += 1,
            '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(position + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// What the reader of a file is inside of.
enum Inside {
    Code,
    LineComment,
    /// How deeply nested.
    BlockComment(usize),
    Text,
    /// How many `#` close it.
    RawText(usize),
}

/// Replaces comments, strings and characters by spaces; line breaks stay.
fn blank(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut inside = Inside::Code;
    let mut position = 0;
    while position < characters.len() {
        let rest = &characters[position..];
        let (taken, next) = match inside {
            Inside::Code => in_code(rest, position.checked_sub(1).map(|before| characters[before])),
            Inside::LineComment if rest[0] == '\n' => (1, Inside::Code),
            Inside::LineComment => (1, Inside::LineComment),
            Inside::BlockComment(depth) if rest.starts_with(&['/', '*']) => {
                (2, Inside::BlockComment(depth + 1))
            }
            Inside::BlockComment(1) if rest.starts_with(&['*', '/']) => (2, Inside::Code),
            Inside::BlockComment(depth) if rest.starts_with(&['*', '/']) => {
                (2, Inside::BlockComment(depth - 1))
            }
            Inside::BlockComment(depth) => (1, Inside::BlockComment(depth)),
            Inside::Text if rest[0] == '\\' => (2, Inside::Text),
            Inside::Text if rest[0] == '"' => (1, Inside::Code),
            Inside::Text => (1, Inside::Text),
            Inside::RawText(hashes) if closes_raw_text(rest, hashes) => (1 + hashes, Inside::Code),
            Inside::RawText(hashes) => (1, Inside::RawText(hashes)),
        };
        let is_code = matches!((&inside, &next), (Inside::Code, Inside::Code)) && taken == 1;
        for character in rest.iter().take(taken) {
            code.push(if is_code || *character == '\n' { *character } else { ' ' });
        }
        position += taken;
        inside = next;
    }
    code
}

fn closes_raw_text(rest: &[char], hashes: usize) -> bool {
    rest[0] == '"' && rest.len() > hashes && rest[1..=hashes].iter().all(|character| *character == '#')
}

/// How much of `rest` belongs together, and what comes after it. More than one character is not code.
fn in_code(rest: &[char], before: Option<char>) -> (usize, Inside) {
    if rest.starts_with(&['/', '/']) {
        return (2, Inside::LineComment);
    }
    if rest.starts_with(&['/', '*']) {
        return (2, Inside::BlockComment(1));
    }
    if rest[0] == '"' {
        return (1, Inside::Text);
    }
    let in_a_word = before.is_some_and(|character| character.is_alphanumeric() || character == '_');
    if rest[0] == 'r' && (!in_a_word || before == Some('b')) {
        let hashes = rest[1..].iter().take_while(|character| **character == '#').count();
        if rest.get(1 + hashes) == Some(&'"') {
            return (2 + hashes, Inside::RawText(hashes));
        }
    }
    if rest[0] == '\'' {
        // A character, not a lifetime: it is closed after one character or one escape.
        if rest.get(1) == Some(&'\\') {
            let closing = rest.iter().skip(3).position(|character| *character == '\'');
            return (closing.map_or(1, |closing| closing + 4), Inside::Code);
        }
        if rest.get(2) == Some(&'\'') {
            return (3, Inside::Code);
        }
    }
    (1, Inside::Code)
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
