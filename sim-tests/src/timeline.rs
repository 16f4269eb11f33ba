//! At most thirty lines that tell a run: a lane for the store, one per process, one for people.
//!
//! ```text
//!      12.4 s  store  p0     p1
//!                │    ┃      │ -> r3 lease held, epoch 8
//! ```
//! A lane is `┃` while its gate is open, `│` while the process runs, and empty while it is down. What happens
//! stands in the lane of the one it happens to, and runs on to the right.

use dexzd_io_sim::TrueTime;
use dexzd_io_sim::story::{Line, Sight, Story};

/// More than this nobody reads.
pub const MOST_LINES: usize = 30;
const LANE_WIDTH: usize = 7;
const LINE_WIDTH: usize = 150;

/// Who a line is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lane {
    /// The store.
    Store,
    /// A process.
    Process(u8),
    /// Clients, Workers, operators.
    People,
}

/// The lane of a line, and the line without its beginning.
#[must_use]
pub fn lane(text: &str) -> (Lane, &str) {
    if let Some(rest) = text.strip_prefix("store: ") {
        return (Lane::Store, rest);
    }
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let number = word.strip_prefix('p').and_then(|number| number.parse().ok());
    number.map_or((Lane::People, text), |number| (Lane::Process(number), rest))
}

/// How much a line tells: calm traffic little, ends and beginnings most.
fn weight(text: &str) -> u8 {
    const MOST: [&str; 9] = [
        "stops",
        "is killed",
        "acquired",
        "Freeze",
        "deletes",
        "loses",
        "BlackOut",
        "StepWall",
        "open until",
    ];
    const MUCH: [&str; 12] = [
        "never lands",
        "lands ",
        "hears",
        "Lost",
        "Doubt",
        "Release",
        "release",
        "Kill",
        "faults end",
        "free",
        "RoleChanged",
        "cannot",
    ];
    let (_, said) = lane(text);
    if MOST.iter().any(|word| said.contains(word)) {
        3
    } else if MUCH.iter().any(|word| said.contains(word)) {
        2
    } else if said.starts_with("->") || said.starts_with("<-") {
        0
    } else {
        1
    }
}

/// The time line of a run up to its end.
#[must_use]
pub fn timeline(story: &Story) -> Vec<String> {
    let processes = processes(story);
    let mut rows = vec![heading(processes)];
    let chosen = choose(&story.lines, MOST_LINES - 1);
    let mut last = 0;
    for (place, index) in chosen.iter().copied().enumerate() {
        let gap = index - last;
        let line = &story.lines[index];
        let note = if gap > 0 && place > 0 { format!(" ({gap} calm lines left out)") } else { String::new() };
        rows.push(row(story, processes, line, &note));
        last = index + 1;
    }
    rows
}

/// How many processes the story has.
#[must_use]
pub fn processes(story: &Story) -> u8 {
    let seen = story.sights.iter().map(|(_, process, _)| process + 1);
    let told = story.lines.iter().filter_map(|line| match lane(&line.text).0 {
        Lane::Process(number) => Some(number + 1),
        Lane::Store | Lane::People => None,
    });
    seen.chain(told).max().unwrap_or(1)
}

/// The weightiest lines, the latest first among equals; the last one always.
fn choose(lines: &[Line], most: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lines.len()).collect();
    let last = lines.len().saturating_sub(1);
    order.sort_by_key(|index| std::cmp::Reverse((*index == last, weight(&lines[*index].text), *index)));
    order.truncate(most);
    order.sort_unstable();
    order
}

fn heading(processes: u8) -> String {
    let mut text = format!("{:>13}  {:<LANE_WIDTH$}", "time", "store");
    for process in 0..processes {
        text.push_str(&format!("{:<LANE_WIDTH$}", format!("p{process}")));
    }
    text + "people"
}

fn row(story: &Story, processes: u8, line: &Line, note: &str) -> String {
    let (lane, said) = lane(&line.text);
    let mut text = format!("{:>6}.{:06}  ", line.at / 1_000_000, line.at % 1_000_000);
    let lanes = std::iter::once(Lane::Store).chain((0..processes).map(Lane::Process)).chain([Lane::People]);
    for this in lanes {
        if this == lane {
            text.push_str(&format!("{} {said}{note}", sign(story, this, line.at)));
            break;
        }
        text.push_str(&format!("{:<LANE_WIDTH$}", sign(story, this, line.at)));
    }
    if text.chars().count() > LINE_WIDTH {
        text = text.chars().take(LINE_WIDTH - 1).chain(['…']).collect();
    }
    text
}

/// What a lane shows at a moment.
fn sign(story: &Story, lane: Lane, at: TrueTime) -> char {
    let Lane::Process(number) = lane else {
        return '│';
    };
    let mut runs = false;
    let mut open = 0;
    for (when, process, sight) in &story.sights {
        if *when > at {
            break;
        }
        if *process != number {
            continue;
        }
        match sight {
            Sight::Started => runs = true,
            Sight::Died(_) => (runs, open) = (false, 0),
            Sight::GateOpen { until, .. } => open = *until,
            Sight::GateShut => open = 0,
            Sight::Lease { .. } | Sight::Fenced { .. } => {}
        }
    }
    match (runs, open > at) {
        (_, true) => '┃',
        (true, false) => '│',
        (false, false) => ' ',
    }
}

#[cfg(test)]
mod tests {
    use super::{Lane, lane, timeline};
    use dexzd_io_sim::story::{Line, Sight, Story};

    #[test]
    fn a_line_stands_in_the_lane_of_the_one_it_is_about() {
        assert_eq!(lane("p12 is killed"), (Lane::Process(12), "is killed"));
        assert_eq!(lane("store: lease held"), (Lane::Store, "lease held"));
        assert_eq!(lane("people say"), (Lane::People, "people say"));
    }

    #[test]
    fn a_story_of_any_length_is_thirty_lines_with_its_lanes() {
        let line = |at, text: &str| Line { at, text: text.to_owned() };
        let mut story = Story::default();
        story.sights.push((0, 0, Sight::Started));
        story.sights.push((1_000_000, 0, Sight::GateOpen { epoch: 1, until: 400_000_000 }));
        story.lines = (0..500).map(|at| line(at * 1_000_000, "p0 -> r1 read")).collect();
        story.lines.insert(7, line(6_500_000, "p1 is killed"));
        let rows = timeline(&story);
        assert_eq!(rows.len(), 30);
        assert_eq!(rows[0], "         time  store  p0     p1     people");
        assert_eq!(rows[1], "     6.500000  │      ┃        is killed");
        assert_eq!(
            rows[2],
            "   472.000000  │      │      │ -> r1 read (465 calm lines left out)"
                .replace("│      │      │ ->", "│      │ ->")
        );
    }
}
