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

const CALM_FATE: &str = " Fate {";
const CALM_HEARD: &str = "again_after: None, heard: Answer";
const CALM_OFFSET: &str = ", offset: WallOffset(";

/// The line as people read it: times of orders in seconds, long numbers of zeros cut.
#[must_use]
pub fn readable(text: &str) -> String {
    let said = lane(text).1;
    let (text, said) = match (text.find(CALM_FATE), text.find(CALM_OFFSET)) {
        // What lands and is answered needs no word.
        (Some(fate), _) if text.contains(CALM_HEARD) => (&text[..fate], said),
        (_, Some(offset)) => (&text[..offset], said),
        (_, None) => (text, said),
    };
    let word = said.split('(').next().unwrap_or_default();
    let is_order = said.len() > word.len()
        && word.starts_with(|first: char| first.is_ascii_uppercase())
        && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (before, number) = rest.split_at(start);
        let end = number.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(number.len());
        let (number, after) = number.split_at(end);
        out.push_str(before);
        match number.parse::<u64>() {
            _ if number.len() == 32 => out.push_str(&format!("\u{2026}{}", &number[28..])),
            Ok(micros) if is_order && micros >= 1_000 && !after.starts_with("_ms") => {
                out.push_str(&format!("{:.3} s", micros as f64 / 1e6));
            }
            Ok(_) | Err(_) => out.push_str(number),
        }
        rest = after;
    }
    out + rest
}

/// How much a line tells: calm traffic little, ends and beginnings most.
fn weight(text: &str) -> u8 {
    const MOST: [&str; 14] = [
        "stops",
        "is killed",
        "acquired",
        "Freeze",
        "deletes",
        "loses",
        "BlackOut",
        "StepWall",
        "Pause",
        "Kill",
        "Starve",
        "Isolate",
        "Storm",
        "Lost",
    ];
    const MUCH: [&str; 10] = [
        "never lands",
        "lands ",
        "the caller hears",
        "Doubt",
        "Release",
        "release",
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
    } else if said.starts_with("->") || said.starts_with("<-") || said.starts_with("lease held") {
        0
    } else {
        1
    }
}

/// What a line is about, without its numbers: what was said in the same words just before says nothing new.
fn gist(text: &str) -> String {
    let (said, gate) = lane(text).1.split_once(" open until ").unwrap_or((lane(text).1, ""));
    let who = text.split(' ').next().unwrap_or_default();
    if gate.is_empty() {
        let words: String = said.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        format!("{who} {words}")
    } else {
        format!("{who} {said}")
    }
}

/// The weight of every line; a line that repeats what its lane said last is calm, a gate that opens is not.
fn weights(lines: &[Line]) -> Vec<u8> {
    let mut last_of_lane = std::collections::BTreeMap::new();
    let mut said = std::collections::BTreeSet::new();
    let weigh = |line: &Line| {
        let (lane, _) = lane(&line.text);
        let gist = gist(&line.text);
        let is_new = said.insert(gist.clone());
        let repeats = last_of_lane.insert((lane, weight(&line.text)), gist.clone()) == Some(gist);
        match weight(&line.text) {
            _ if line.text.contains(" open until ") => {
                if is_new {
                    3
                } else {
                    0
                }
            }
            1 if repeats => 0,
            other => other,
        }
    };
    lines.iter().map(weigh).collect()
}

/// The time line of a run up to its end.
#[must_use]
pub fn timeline(story: &Story) -> Vec<String> {
    let processes = processes(story);
    let mut rows = vec![heading(processes)];
    let chosen = choose(&story.lines, MOST_LINES - 1);
    let mut next = 0;
    for index in chosen {
        let line = &story.lines[index];
        let left_out = match index - next {
            0 => String::new(),
            gap => format!("   ({gap} calmer lines before)"),
        };
        rows.push(row(story, processes, line, &left_out));
        next = index + 1;
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
    let weights = weights(lines);
    let mut order: Vec<usize> = (0..lines.len()).collect();
    let last = lines.len().saturating_sub(1);
    order.sort_by_key(|index| std::cmp::Reverse((*index == last, weights[*index], *index)));
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
            text.push_str(&format!("{} {}{note}", sign(story, this, line.at), readable(said)));
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
    use super::{Lane, lane, readable, timeline};
    use dexzd_io_sim::story::{Line, Sight, Story};

    #[test]
    fn a_line_stands_in_the_lane_of_the_one_it_is_about() {
        assert_eq!(lane("p12 is killed"), (Lane::Process(12), "is killed"));
        assert_eq!(lane("store: lease held"), (Lane::Store, "lease held"));
        assert_eq!(lane("people say"), (Lane::People, "people say"));
    }

    #[test]
    fn times_of_orders_are_seconds_and_identities_short() {
        assert_eq!(readable("p0 Freeze(3264364)"), "p0 Freeze(3.264 s)");
        assert_eq!(readable("p0 <- r377 read"), "p0 <- r377 read");
        let calm = "p0 r9 writes the lease Fate { lands_after: Some(20), again_after: None, heard: Answer { after: 5 } }";
        assert_eq!(readable(calm), "p0 r9 writes the lease");
        let waiting =
            "p1 Waiting { holder: 00000000000000000000000000000001, epoch: Epoch(1), longest_wait_ms: 4000 }";
        assert_eq!(
            readable(waiting),
            "p1 Waiting { holder: \u{2026}0001, epoch: Epoch(1), longest_wait_ms: 4000 }"
        );
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
        assert_eq!(rows[1], "     6.500000  │      ┃        is killed   (7 calmer lines before)");
        assert_eq!(
            rows[2],
            "   472.000000  │      │      │ -> r1 read   (465 calmer lines before)"
                .replace("│      │      │ ->", "│      │ ->")
        );
    }
}
