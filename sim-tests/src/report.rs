//! A failure as one page without anything from elsewhere: swim lanes, lease bars in true time beside each
//! process's own clock, messages that tell more when pointed at.

use dexzd_io_sim::TrueTime;
use dexzd_io_sim::story::{Line, Message, Sight, Story};
use serde_json::{Value, json};

use crate::timeline::{Lane, lane, processes, readable};

const TEMPLATE: &str = include_str!("report/page.html");
const STYLE: &str = include_str!("report/page.css");
const SCRIPT: &str = include_str!("report/page.js");

/// Readings of one clock closer together than this show nothing new.
const READING_INTERVAL: TrueTime = 200_000;

/// What the page shows.
#[derive(Clone, Default, Debug)]
pub struct Page {
    /// What went wrong.
    pub sentence: String,
    /// How to see it again.
    pub command: String,
    /// Which rule, and where it is explained.
    pub rule: String,
    /// The configuration drawn.
    pub config: Vec<String>,
    /// The decisions that are not calm.
    pub reasons: Vec<String>,
    /// What happened.
    pub story: Story,
    /// The end of the run.
    pub ends: TrueTime,
}

impl Page {
    /// The whole page.
    #[must_use]
    pub fn html(&self) -> String {
        // `</` would end the script early; JSON may write it in this way too.
        let data = self.data().to_string().replace("</", "<\\/");
        TEMPLATE
            .replace("{{style}}", STYLE)
            .replace("{{script}}", SCRIPT)
            .replace("{{title}}", &escaped(&self.sentence))
            .replace("{{data}}", &data)
    }

    fn data(&self) -> Value {
        let bars = bars(&self.story, self.ends);
        let lines = self.story.lines.iter().map(|line| {
            let (lane, text) = lane(&line.text);
            json!([line.at, lane_number(lane), readable(text)])
        });
        let messages = self.story.messages.iter().map(|message| {
            let Message { process, sent, lands, heard, answered, text } = message;
            json!({ "process": process, "sent": sent, "lands": lands, "heard": heard,
                    "answered": answered, "text": lane(text).1 })
        });
        json!({
            "sentence": self.sentence,
            "command": self.command,
            "rule": self.rule,
            "config": self.config,
            "reasons": self.reasons,
            "processes": processes(&self.story),
            "ends": self.ends,
            "bars": bars,
            "period": self.story.sights.iter().filter_map(|(at, _, sight)| match sight {
                Sight::GateOpen { until, .. } => Some(until.saturating_sub(*at)),
                _ => None,
            }).max(),
            "lines": lines.collect::<Vec<_>>(),
            "messages": messages.collect::<Vec<_>>(),
            "clocks": clocks(&self.story),
        })
    }
}

/// The store is lane -1, people are -2.
fn lane_number(lane: Lane) -> i32 {
    match lane {
        Lane::Store => -1,
        Lane::People => -2,
        Lane::Process(number) => number.into(),
    }
}

/// Spans of time: `life`, `frozen`, `alone` (without the store), and `gate` with its epoch, per process;
/// `lease` with its holder.
fn bars(story: &Story, ends: TrueTime) -> Vec<Value> {
    let mut bars = Vec::new();
    let bar = |kind: &str, process: u8, from: TrueTime, to: TrueTime, epoch: u64| json!({ "kind": kind, "process": process, "from": from, "to": to, "epoch": epoch });
    for Line { at, text } in &story.lines {
        let (lane, said) = lane(text);
        let strikes = [
            ("Freeze(", "frozen"),
            ("UncountedPause(", "frozen"),
            ("BlackOut(", "alone"),
            ("Isolate(", "alone"),
        ];
        let strike = strikes.iter().find_map(|(order, kind)| Some((said.strip_prefix(order)?, *kind)));
        if let (Lane::Process(process), Some((rest, kind))) = (lane, strike) {
            let lasts = rest.split(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default();
            bars.push(bar(kind, process, *at, at + lasts.parse().unwrap_or(0), 0));
        }
    }
    let mut lease: Option<(TrueTime, u8, u64, bool)> = None;
    for number in 0..processes(story) {
        let mut life = None;
        // From, until (as the process believed, in true time), epoch.
        let mut gate: Option<(TrueTime, TrueTime, u64)> = None;
        let of_process = story.sights.iter().filter(|(_, process, _)| *process == number);
        for (at, _, sight) in of_process {
            let ended = match sight {
                Sight::GateOpen { epoch, until } => match &mut gate {
                    Some((_, known, of)) if of == epoch && *known >= *at && until > at => {
                        *known = *until;
                        None
                    }
                    _ => gate.replace((*at, *until, *epoch)),
                },
                Sight::GateShut | Sight::Died(_) => gate.take(),
                Sight::Started | Sight::Lease { .. } | Sight::Fenced { .. } => None,
            };
            if let Some((from, until, epoch)) = ended {
                bars.push(bar("gate", number, from, until.min(*at), epoch));
            }
            match sight {
                Sight::Started => life = Some(*at),
                Sight::Died(_) => {
                    if let Some(from) = life.take() {
                        bars.push(bar("life", number, from, *at, 0));
                    }
                }
                Sight::Lease { .. } | Sight::GateOpen { .. } | Sight::GateShut | Sight::Fenced { .. } => {}
            }
        }
        if let Some(from) = life {
            bars.push(bar("life", number, from, ends, 0));
        }
        if let Some((from, until, epoch)) = gate {
            bars.push(bar("gate", number, from, until.max(from), epoch));
        }
    }
    for (at, process, sight) in &story.sights {
        if let Sight::Lease { epoch, held } = sight {
            if let Some((_, holder, of, was_held)) = lease
                && (holder, of, was_held) == (*process, *epoch, *held)
            {
                continue;
            }
            if let Some((from, holder, of, true)) = lease {
                bars.push(bar("lease", holder, from, *at, of));
            }
            lease = Some((*at, *process, *epoch, *held));
        }
    }
    if let Some((from, holder, of, true)) = lease {
        bars.push(bar("lease", holder, from, ends, of));
    }
    bars
}

/// `[process, true time, the holder's clock, the wall clock]`, thinned out; steps of a clock stay.
fn clocks(story: &Story) -> Vec<Value> {
    let mut last = std::collections::BTreeMap::new();
    let mut kept = Vec::new();
    for reading in &story.readings {
        let offset = |us: u64| i128::from(us) - i128::from(reading.at);
        let offsets = (offset(reading.instant_us), offset(reading.wall_us));
        let is_news = last.get(&reading.process).is_none_or(|(at, (instant, wall))| {
            let moved = |now: i128, then: i128| (now - then).unsigned_abs() > u128::from(READING_INTERVAL);
            reading.at - at >= READING_INTERVAL || moved(offsets.0, *instant) || moved(offsets.1, *wall)
        });
        if is_news {
            last.insert(reading.process, (reading.at, offsets));
            kept.push(json!([reading.process, reading.at, reading.instant_us, reading.wall_us]));
        }
    }
    kept
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::{Page, bars};
    use dexzd_io_sim::story::{Line, Sight, Story};

    #[test]
    fn a_gate_is_one_bar_until_it_ends_and_ends_where_it_was_shut() {
        let open = |until| Sight::GateOpen { epoch: 7, until };
        let story = Story {
            sights: vec![
                (0, 0, Sight::Started),
                (1, 0, open(10)),
                (5, 0, open(15)),
                (9, 0, Sight::GateShut),
                (20, 0, open(40)),
                (30, 0, Sight::Died(None)),
            ],
            ..Story::default()
        };
        let told: Vec<String> = bars(&story, 50)
            .iter()
            .map(|bar| format!("{} {}-{}", bar["kind"], bar["from"], bar["to"]))
            .collect();
        assert_eq!(told, ["\"gate\" 1-9", "\"gate\" 20-30", "\"life\" 0-30"]);
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_texts_cannot_end_its_script() {
        let mut page = Page { sentence: "a </script> b & c".to_owned(), ..Page::default() };
        page.story.lines.push(Line { at: 1, text: "p0 </script>".to_owned() });
        let html = page.html();
        assert_eq!(html.matches("</script>").count(), 2);
        assert!(html.contains("<title>a &lt;/script&gt; b &amp; c</title>"));
        for elsewhere in ["http://", "https://", "src=", "@import", "url(h", "url(/"] {
            assert!(!html.replace("http://www.w3.org/2000/svg", "").contains(elsewhere), "{elsewhere}");
        }
    }
}
