use super::*;

fn pages(pages: &[(&str, &str)]) -> Pages {
    let page = |(path, text): &(&str, &str)| Page { path: (*path).to_owned(), text: (*text).to_owned() };
    Pages(pages.iter().map(page).collect())
}

#[test]
fn a_link_that_leads_nowhere_is_found_with_its_line() {
    let pages = pages(&[
        (
            "docs/a.md",
            "# A\n[fine](b.md#the-lease-and-d-1) and [gone](c.md)\n[gone](b.md#lease) [out](https://a.b/c)\n",
        ),
        ("docs/errors/b.md", "# B\n[up](../a.md) [here](#b) [not here](#c)\n```\n[code](nowhere.md)\n```\n"),
        ("docs/b.md", "## The lease, and `D-1`\n[folder](errors)\n"),
    ]);
    let exists = |path: &str| ["docs/a.md", "docs/b.md", "docs/errors/b.md", "docs/errors"].contains(&path);
    assert_eq!(
        pages.broken_links(exists),
        [
            "docs/a.md:2: the link leads to docs/c.md, which does not exist",
            "docs/a.md:3: docs/b.md has no paragraph #lease",
            "docs/errors/b.md:2: docs/errors/b.md has no paragraph #c",
        ]
    );
}

#[test]
fn a_paragraph_ends_at_the_next_heading_that_is_not_below_it() {
    let pages = pages(&[("a.md", "# A\n## One\nx\n### Deeper\ny\n```\n# no heading\n```\n## Two\nz\n")]);
    assert_eq!(pages.paragraph("a.md#one").as_deref(), Some("x\n### Deeper\ny\n```"));
    assert_eq!(pages.paragraph("a.md#two").as_deref(), Some("z"));
    assert_eq!(pages.paragraph("a.md#three"), None);
    assert_eq!(pages.paragraph("b.md#one"), None);
}
