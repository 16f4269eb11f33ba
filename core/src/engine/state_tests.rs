use alloc::vec;

use super::*;

impl StateRead for BTreeMap<Vec<u8>, Vec<u8>> {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        BTreeMap::get(self, key).cloned()
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        for (key, value) in self.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to))) {
            if !visit(key, value) {
                return;
            }
        }
    }
}

fn change(key: &str, value: Option<&str>) -> Change {
    Change { key: key.into(), value: value.map(Into::into) }
}

fn all<S: StateRead>(view: &View<'_, S>, limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    view.scan(b"a", b"z", &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        found.len() < limit
    });
    found
}

#[test]
fn a_view_merges_changes_over_the_store_in_key_order() {
    let store = BTreeMap::from([
        (b"b".to_vec(), b"1".to_vec()),
        (b"d".to_vec(), b"1".to_vec()),
        (b"f".to_vec(), b"1".to_vec()),
    ]);
    let mut overlay = Overlay::default();
    overlay.add(
        Position(4),
        alloc::vec![
            change("a", Some("2")),
            change("d", Some("2")),
            change("f", None),
            change("g", Some("2"))
        ],
    );
    let view = overlay.over(&store);
    let pair = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    assert_eq!(all(&view, 9), vec![pair("a", "2"), pair("b", "1"), pair("d", "2"), pair("g", "2")]);
    assert_eq!(all(&view, 2), vec![pair("a", "2"), pair("b", "1")]);
    assert_eq!(all(&view, 1), vec![pair("a", "2")]);
    assert_eq!(view.get(b"f"), None);
    assert_eq!(view.get(b"d"), Some(b"2".to_vec()));
    assert_eq!(view.get(b"b"), Some(b"1".to_vec()));
}

#[test]
fn applied_entries_leave_the_overlay_and_newer_changes_stay() {
    let store = BTreeMap::new();
    let mut overlay = Overlay::default();
    overlay.add(Position(1), alloc::vec![change("a", Some("1")), change("b", Some("1"))]);
    overlay.add(Position(2), alloc::vec![change("a", Some("2"))]);
    overlay.applied(Position(1));
    assert_eq!(overlay.over(&store).get(b"a"), Some(b"2".to_vec()));
    assert_eq!(overlay.over(&store).get(b"b"), None);
    overlay.applied(Position(2));
    assert!(overlay.is_empty());
}
