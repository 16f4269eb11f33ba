//! The little XML that listings, batches and uploads in parts are made of.

/// Text as the content of an element.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The contents of all elements of this name, without attributes, as far as they do not nest.
pub(super) fn elements(document: &str, name: &str) -> Vec<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut found = Vec::new();
    let mut rest = document;
    while let Some((_, after)) = rest.split_once(&open) {
        let Some((content, after)) = after.split_once(&close) else { break };
        found.push(unescaped(content));
        rest = after;
    }
    found
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}
