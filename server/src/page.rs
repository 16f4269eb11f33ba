//! Every refusal and every stop has a code and a page: what happened, is data safe, what to do.

/// The page of a code, as a path in the project's repository.
pub(crate) fn page_of(code: &str) -> String {
    format!("docs/errors/{code}.md")
}
