//! Every file in `scenarios/` is a decision log that once broke a rule, or a state worth keeping: they all
//! pass. `cargo xtask sim to-test FILE` adds one.

use std::path::Path;

use dexzd_io_sim::dice::Dice;
use dexzd_io_sim::trace::Trace;
use dexzd_sim_tests::attempt::attempt;
use dexzd_sim_tests::log_file;

#[test]
fn all_scenarios_pass() {
    let folder = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("scenarios");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder is part of the repository")
        .map(|entry| entry.expect("it can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "scenario"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no scenarios", folder.display());
    for path in files {
        let file = log_file::read(&path).unwrap_or_else(|refusal| panic!("{refusal}"));
        let attempt = attempt(file.world.make, Dice::from_script(file.script), Trace::quiet());
        if let Some(fault) = attempt.fault {
            panic!("{}: {fault}\nsee: cargo xtask sim explain {}", path.display(), path.display());
        }
    }
}
