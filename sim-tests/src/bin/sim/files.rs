//! Commands about one seed or decision log.

use std::path::{Path, PathBuf};

use dexzd_io_sim::dice::{Decision, Dice};
use dexzd_io_sim::trace::Trace;
use dexzd_sim_tests::attempt::attempt;
use dexzd_sim_tests::worlds::NamedWorld;
use dexzd_sim_tests::{explain, log_file, shrink as shrinking};

use crate::Source;
use crate::end::End;
use crate::seeds;

#[derive(Debug, clap::Args)]
pub(crate) struct One {
    #[command(flatten)]
    source: Source,

    /// The world of the seed; a file names its own
    #[arg(long, value_parser = seeds::world, conflicts_with = "file")]
    world: Option<&'static NamedWorld>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Replay {
    #[command(flatten)]
    one: One,

    /// Also write every event with the hash before it, for comparing two runs byte for byte
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Also write everything that it drew, as a decision log
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// No story, only how it ended
    #[arg(long)]
    quiet: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Shrink {
    #[command(flatten)]
    one: One,

    /// At most so long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = seeds::duration)]
    budget: std::time::Duration,

    /// Where to. Default: beside the file, or in the folder for temporary files
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Report {
    #[command(flatten)]
    one: One,

    /// Where to
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ToTest {
    /// A decision log, best a shrunk one
    file: PathBuf,

    /// Name of the scenario: letters, digits and underscores. Default: the file's name
    #[arg(long)]
    name: Option<String>,

    /// The folder of scenarios
    #[arg(long, value_name = "FOLDER", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"))]
    folder: PathBuf,
}

impl One {
    /// The world, the dice, and how to do it again.
    fn open(&self) -> Result<(&'static NamedWorld, Dice, String), End> {
        match (&self.source.file, self.source.seed, self.world) {
            (Some(file), _, _) => {
                let log = log_file::read(file)?;
                let command = explain::command(&format!("replay {}", file.display()));
                Ok((log.world, Dice::from_script(log.script), command))
            }
            (None, Some(seed), Some(world)) => {
                let command = explain::command(&format!("replay --world {} --seed {seed}", world.name));
                Ok((world, Dice::from_seed(seed), command))
            }
            (None, _, _) => Err(End::Usage("a decision log, or --seed with --world, is needed".to_owned())),
        }
    }

    /// What a failing run drew. None: it does not fail, and that is said.
    fn failing(&self) -> Result<Option<Failing>, End> {
        let (world, dice, command) = self.open()?;
        let attempt = attempt(world.make, dice, Trace::quiet());
        if attempt.fault.is_none() {
            println!("no rule is broken: {command}");
            return Ok(None);
        }
        Ok(Some((world, attempt.decisions, command)))
    }
}

/// A world, what was drawn in it, and the command that does it again.
type Failing = (&'static NamedWorld, Vec<Decision>, String);

pub(crate) fn replay(arguments: &Replay) -> Result<End, End> {
    let (world, dice, command) = arguments.one.open()?;
    let is_watched = arguments.trace.is_some();
    let trace = match (arguments.quiet, is_watched) {
        (true, false) => Trace::quiet(),
        (true, true) => Trace::watched(),
        (false, _) => Trace::printing(),
    };
    let attempt = attempt(world.make, dice, trace);
    if let Some(run) = &attempt.run {
        println!("{}", run.config);
        println!("{} events, hash {:016x}", run.trace.events(), run.trace.hash());
        if let Some(path) = &arguments.trace {
            write(path, &run.trace.full())?;
        }
        if let Some(path) = &arguments.log {
            let notes = [format!("drawn by: {command}")];
            write(path, &log_file::written(world, &notes, run.dice.decisions()))?;
        }
    }
    match &attempt.fault {
        None => println!("no rule is broken"),
        Some(fault) => println!("{fault}\nrule: {}", explain::place_of(fault)),
    }
    Ok(End::of(attempt.fault.as_ref()))
}

pub(crate) fn shrink(arguments: &Shrink) -> Result<End, End> {
    let Some((world, decisions, command)) = arguments.one.failing()? else {
        return Ok(End::Well);
    };
    let small = shrinking::shrink(world.make, &decisions, arguments.budget)
        .ok_or_else(|| End::Usage(format!("what it drew does not fail again: {command}")))?;
    let path = arguments.output.clone().unwrap_or_else(|| match &arguments.one.source.file {
        Some(file) => file.with_extension("small.decisions"),
        None => std::env::temp_dir().join(format!("dexzd-{}.small.decisions", world.name)),
    });
    let notes = [small.fault.to_string(), format!("shrunk from: {command}")];
    write(&path, &log_file::written(world, &notes, &small.decisions))?;
    println!("{}", small.fault);
    let minimal = if small.is_minimal { "nothing more can be taken away" } else { "the time was over" };
    println!(
        "{} decisions that are not calm, of {}, after {} runs: {minimal}",
        small.size(),
        shrinking::size(&decisions),
        small.runs
    );
    println!("{}", path.display());
    Ok(End::of(Some(&small.fault)))
}

pub(crate) fn explain(arguments: &One) -> Result<End, End> {
    let Some((world, decisions, command)) = arguments.failing()? else {
        return Ok(End::Well);
    };
    let told = explain::tell(world, &decisions, &command);
    let fault = attempt(world.make, arguments.open()?.1, Trace::quiet()).fault;
    print!("{}", told.map(|told| told.text).unwrap_or_default());
    Ok(End::of(fault.as_ref()))
}

pub(crate) fn report(arguments: &Report) -> Result<End, End> {
    let Some((world, decisions, command)) = arguments.one.failing()? else {
        return Ok(End::Well);
    };
    if let Some(told) = explain::tell(world, &decisions, &command) {
        write(&arguments.output, &told.page)?;
        println!("{}", arguments.output.display());
    }
    Ok(End::Well)
}

pub(crate) fn to_test(arguments: &ToTest) -> Result<End, End> {
    let log = log_file::read(&arguments.file)?;
    let name = match &arguments.name {
        Some(name) => name.clone(),
        None => {
            let stem = arguments.file.file_stem().unwrap_or_default().to_string_lossy();
            stem.split('.').next().unwrap_or_default().replace('-', "_")
        }
    };
    let is_name = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if !is_name {
        return Err(End::Usage(format!("{name:?} cannot be the name of a test; give one with --name")));
    }
    let path = arguments.folder.join(format!("{name}.scenario"));
    if path.exists() {
        return Err(End::Usage(format!("{} exists; give another --name", path.display())));
    }
    let text =
        std::fs::read_to_string(&arguments.file).map_err(|error| End::of_file(&arguments.file, &error))?;
    write(&path, &text)?;
    eprintln!("written: {}; `all_scenarios_pass` replays it from now on", path.display());
    let note = log.notes.first().map_or("What once broke a rule.", String::as_str);
    println!(
        "/// {note}\n#[test]\nfn {name}() {{\n    let file = log_file::parse(include_str!(\"../scenarios/{name}.scenario\")).expect(\"a scenario\");\n    \
         let attempt = attempt(file.world.make, Dice::from_script(file.script), Trace::quiet());\n    \
         assert_eq!(attempt.fault, None);\n}}"
    );
    Ok(End::Well)
}

fn write(path: &Path, text: &str) -> Result<(), End> {
    std::fs::write(path, text).map_err(|error| End::of_file(path, &error))
}
