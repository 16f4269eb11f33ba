"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
for (const id of ["sentence", "rule", "command"]) byId(id).textContent = data[id];
byId("reasons").textContent = data.reasons.join("\n") || "none: this happens in the calmest run of this configuration";
byId("config").textContent = data.config.join("\n");

const SECOND = 1e6;
const COLOURS = ["#1570ef", "#dc6803", "#099250", "#7a5af8", "#0e9384", "#c11574", "#4e5ba6", "#854a0e"];
const BAD = "#c01048";
const LEFT = 92, RIGHT = 18, STORE_Y = 64, LANE_TOP = 150, LANE = 118;
const lanes = [...Array(data.processes).keys()];
const hasPeople = data.lines.some((line) => line[1] === -2);
const peopleY = LANE_TOP + lanes.length * LANE + 10;
const height = peopleY + (hasPeople ? 44 : 6);
const laneY = (lane) => lane === -1 ? STORE_Y : lane === -2 ? peopleY + 14 : LANE_TOP + lane * LANE + 36;
const seconds = (at, digits = 6) => (at / SECOND).toFixed(digits) + " s";
const ends = Math.max(data.ends, SECOND / 1000);

// Where it went wrong is what one wants to see first: the last few periods of a lease, and the end of what
// was open then.
function firstView() {
  const period = data.period || 10 * SECOND;
  const open = data.bars.filter((bar) => bar.kind === "gate").map((bar) => bar.to);
  const end = Math.max(ends + 0.15 * period, Math.min(Math.max(...open, 0) + 0.1 * period, ends + 1.5 * period));
  return [Math.max(Math.min(ends - 2.5 * period, end - 4 * period), -0.02 * end), end];
}
let [from, to] = firstView();
let width = 1400;
const x = (at) => LEFT + (at - from) / (to - from) * (width - LEFT - RIGHT);
const SVG = "http://www.w3.org/2000/svg";
function draw(parent, name, facts, text, tip) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(facts)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  if (tip) element.dataset.tip = tip;
  parent.appendChild(element);
  return element;
}
const visible = (begin, end) => end >= from && begin <= to;
const clip = (at) => Math.min(Math.max(x(at), LEFT), width - RIGHT);
function bar(svg, begin, end, y, tall, fill, label, tip, more = {}) {
  if (!visible(begin, end)) return;
  const left = clip(begin), wide = Math.max(clip(end) - left, 1.5);
  draw(svg, "rect", { x: left, y, width: wide, height: tall, fill, rx: 2, ...more }, undefined, tip);
  if (label && wide > label.length * 7 + 8) draw(svg, "text", { x: left + 6, y: y + tall / 2 + 4, class: "on" }, label);
}
function axis(svg) {
  const rough = (to - from) / 9;
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const digits = Math.max(0, Math.ceil(6 - Math.log10(step)));
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    draw(svg, "line", { x1: x(at), x2: x(at), y1: 26, y2: height, stroke: "#eef1f5" });
    draw(svg, "text", { x: x(at), y: 18, "text-anchor": "middle", class: "soft" }, seconds(at, digits));
  }
  draw(svg, "text", { x: 8, y: 18, class: "soft" }, "true time");
  return step;
}
// A process's own clock, counted from its first reading: where it reads full steps.
function ownClock(svg, lane, step) {
  const readings = data.clocks.filter((reading) => reading[0] === lane);
  if (readings.length === 0) return;
  const y = laneY(lane) + 62, [, , zero, zeroWall] = readings[0], origin = readings[0][1];
  draw(svg, "line", { x1: LEFT, x2: width - RIGHT, y1: y, y2: y, stroke: "#98a2b3" });
  draw(svg, "text", { x: 8, y: y + 4, class: "soft" }, "own clock");
  for (let index = 0; index < readings.length; index++) {
    const [, at, own, wall] = readings[index];
    const next = readings[index + 1] ?? [lane, Math.max(to, at + 1), own + Math.max(to, at + 1) - at, 0];
    const ownAt = (reading) => reading - zero + origin;
    if (visible(at, next[1]) && next[1] > at && next[2] > own) {
      for (let tick = Math.ceil(ownAt(own) / step) * step; tick < ownAt(next[2]); tick += step) {
        const place = at + (tick - ownAt(own)) / (next[2] - own) * (next[1] - at);
        if (place < from || place > to) continue;
        draw(svg, "line", { x1: x(place), x2: x(place), y1: y - 4, y2: y + 4, stroke: "#667085" });
        draw(svg, "text", { x: x(place), y: y + 16, "text-anchor": "middle", class: "soft" }, (tick / SECOND).toFixed(Math.max(0, Math.ceil(6 - Math.log10(step)))));
      }
    }
    const drift = ((own - zero) / Math.max(at - origin, 1) - 1) * 1e6;
    const jump = (wall - zeroWall) - (at - origin);
    if (visible(at, at)) draw(svg, "circle", { cx: x(at), cy: y, r: 2, fill: "#98a2b3" }, undefined,
      `p${lane} at ${seconds(at)} of true time\nits own clock went ${seconds(own - zero)} since ${seconds(origin)} (${drift.toFixed(0)} ppm)\nits wall clock has moved ${seconds(jump)} against the truth`);
  }
}
function messages(svg) {
  for (const message of data.messages) {
    const { process, sent, lands, heard, answered, text } = message;
    const last = Math.max(sent, lands ?? sent, heard ?? sent);
    if (!visible(sent, last)) continue;
    const tip = `p${process} ${text}\nleaves ${seconds(sent)}\n` + (lands === null ? "never lands" : `lands ${seconds(lands)}`) + "\n" +
      (heard === null ? "nobody hears of it" : `${answered ? "answered" : "an error is heard"} ${seconds(heard)}`);
    const y = laneY(process), colour = COLOURS[process % COLOURS.length];
    const late = lands !== null && lands - sent > SECOND;
    const faint = answered && !late && text.includes(" read") ? 0.22 : 0.8;
    const line = (x1, y1, x2, y2, facts) => {
      draw(svg, "line", { x1, y1, x2, y2, stroke: colour, "stroke-width": 1.3, "stroke-opacity": faint, ...facts });
      draw(svg, "line", { x1, y1, x2, y2, stroke: "transparent", "stroke-width": 9 }, undefined, tip);
    };
    if (lands !== null) {
      line(x(sent), y, x(lands), STORE_Y + 22, late ? { "stroke-width": 2.6 } : {});
      draw(svg, "circle", { cx: x(lands), cy: STORE_Y + 22, r: late ? 4 : 2.4, fill: colour }, undefined, tip);
    } else {
      const middle = (y + STORE_Y + 22) / 2;
      line(x(sent), y, x(sent) + 5, middle, { "stroke-dasharray": "3 3" });
      draw(svg, "text", { x: x(sent) + 1, y: middle - 1, fill: BAD }, "\u2715");
    }
    if (heard !== null) line(x(answered ? lands : sent), answered ? STORE_Y + 22 : (y + STORE_Y) / 2, x(heard), y, { "stroke-dasharray": answered ? "none" : "2 3", "stroke-opacity": faint / 2 });
  }
}
function picture() {
  width = Math.max(byId("picture").clientWidth, 600);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  for (const [id, colour] of [["frozen", BAD], ["alone", "#667085"]]) {
    const pattern = draw(draw(svg, "defs", {}), "pattern", { id, width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
    draw(pattern, "rect", { width: 7, height: 7, fill: "#fff" });
    draw(pattern, "rect", { width: 3, height: 7, fill: colour });
  }
  const step = axis(svg);
  draw(svg, "text", { x: 8, y: STORE_Y + 4, class: "name" }, "store");
  draw(svg, "text", { x: 8, y: STORE_Y + 19, class: "soft" }, "who holds");
  draw(svg, "line", { x1: LEFT, x2: width - RIGHT, y1: STORE_Y + 22, y2: STORE_Y + 22, stroke: "#98a2b3", "stroke-width": 2 });
  messages(svg);
  for (const { kind, process, from: begin, to: end, epoch } of data.bars) {
    const colour = COLOURS[process % COLOURS.length];
    const tip = `p${process}, epoch ${epoch}\nfrom ${seconds(begin)}\nto ${seconds(end)}`;
    if (kind === "lease") bar(svg, begin, end, STORE_Y - 14, 26, colour, `lease: p${process}, epoch ${epoch}`, "the lease in the store: " + tip);
    if (kind === "life") bar(svg, begin, end, laneY(process) - 3, 6, "#d0d5dd", "", `p${process} runs\nfrom ${seconds(begin)}\nto ${seconds(end)}`);
    if (kind === "frozen") bar(svg, begin, end, laneY(process) - 6, 12, "url(#frozen)", "", `p${process} is frozen\nfrom ${seconds(begin)}\nto ${seconds(end)}`, { stroke: BAD });
    if (kind === "alone") bar(svg, begin, end, laneY(process) - 20, 8, "url(#alone)", "", `p${process} cannot reach the store\nfrom ${seconds(begin)}\nto ${seconds(end)}`, { stroke: "#98a2b3" });
    if (kind === "gate") bar(svg, begin, end, laneY(process) + 9, 24, colour, `serves, epoch ${epoch}`, "the gate is open: " + tip);
  }
  // Two gates at once are what must never be: shown wherever they are.
  const gates = data.bars.filter((item) => item.kind === "gate");
  for (const [index, one] of gates.entries()) for (const two of gates.slice(index + 1)) {
    const begin = Math.max(one.from, two.from), end = Math.min(one.to, two.to);
    if (one.process === two.process || end <= begin) continue;
    bar(svg, begin, end, 30, height - 36, BAD, "", `two gates are open: p${one.process} (epoch ${one.epoch}) and p${two.process} (epoch ${two.epoch})\nfrom ${seconds(begin)}\nto ${seconds(end)}`, { "fill-opacity": 0.16 });
  }
  for (const lane of lanes) {
    draw(svg, "text", { x: 8, y: laneY(lane) + 5, class: "name", fill: COLOURS[lane % COLOURS.length] }, `p${lane}`);
    draw(svg, "text", { x: 8, y: laneY(lane) + 26, class: "soft" }, "gate");
    ownClock(svg, lane, step);
  }
  if (hasPeople) draw(svg, "text", { x: 8, y: peopleY + 18, class: "name" }, "people");
  const isLoud = (text) => /kill|stops|Freeze|deletes|loses|BlackOut|StepWall|Pause|Kill|Starve|Isolate|Storm/.test(text);
  const labelled = {};
  // Loud ones last: they lie on top.
  for (const [at, lane, text] of [...data.lines].sort((one, two) => isLoud(one[2]) - isLoud(two[2]))) {
    if (!visible(at, at) || text.startsWith("->") || text.startsWith("<-")) continue;
    if (lane === -1 && text.startsWith("lease")) continue;
    const loud = isLoud(text);
    const y = laneY(lane);
    draw(svg, "path", { d: `M ${x(at)} ${y - 7} l 5 7 l -5 7 l -5 -7 z`, fill: loud ? BAD : "#475467" }, undefined, `${lane < 0 ? "" : "p" + lane + " "}${text}\n${seconds(at)}`);
    const label = text.slice(0, 60);
    if (loud && lane >= 0 && x(at) > (labelled[lane] ?? 0)) {
      labelled[lane] = x(at) + label.length * 6 + 14;
      draw(svg, "text", { x: x(at) + 7, y: y - 6, class: "soft" }, label);
    }
  }
  draw(svg, "line", { x1: x(ends), x2: x(ends), y1: 24, y2: height, stroke: BAD, "stroke-width": 1.6, "stroke-dasharray": "6 3" }, undefined, data.sentence);
  draw(svg, "text", { x: x(ends) - 5, y: 36, "text-anchor": "end", style: `fill:${BAD};font-weight:700` }, "here the rule is broken");
  byId("picture").replaceChildren(svg);
  byId("range").textContent = `${seconds(from, 3)} to ${seconds(to, 3)}`;
  table();
}
const MOST_ROWS = 400;
function table() {
  const shown = data.lines.filter(([at]) => at >= from && at <= to);
  const rows = shown.slice(-MOST_ROWS).map(([at, lane, text]) => {
    const row = document.createElement("tr");
    const who = lane === -1 ? "store" : lane === -2 ? "" : "p" + lane;
    for (const cell of [seconds(at), who, text]) row.appendChild(document.createElement("td")).textContent = cell;
    if (lane >= 0) row.children[1].style.color = COLOURS[lane % COLOURS.length];
    row.onclick = () => { const half = (to - from) / 4; [from, to] = [at - half, at + half]; picture(); scrollTo(0, 0); };
    return row;
  });
  if (rows.length && to >= ends) {
    const last = document.createElement("tr");
    last.className = "last";
    for (const cell of [seconds(ends), "", data.sentence]) last.appendChild(document.createElement("td")).textContent = cell;
    rows.push(last);
  }
  byId("lines").replaceChildren(...rows);
}
function zoom(factor, around = (from + to) / 2) {
  from = Math.max(around - (around - from) * factor, -SECOND);
  to = around + (to - around) * factor;
  picture();
}
byId("whole").onclick = () => { [from, to] = [0, ends * 1.02]; picture(); };
byId("end").onclick = () => { [from, to] = firstView(); picture(); };
byId("in").onclick = () => zoom(0.5);
byId("out").onclick = () => zoom(2);
byId("picture").addEventListener("wheel", (event) => {
  event.preventDefault();
  const share = (event.offsetX - LEFT) / (width - LEFT - RIGHT);
  zoom(event.deltaY > 0 ? 1.25 : 0.8, from + share * (to - from));
}, { passive: false });
let drag = null;
byId("picture").addEventListener("pointerdown", (event) => { drag = [event.clientX, from, to]; });
addEventListener("pointerup", () => { drag = null; });
addEventListener("pointermove", (event) => {
  const tip = event.target.dataset ? event.target.dataset.tip : undefined;
  byId("tip").hidden = !tip;
  if (tip) {
    byId("tip").textContent = tip;
    byId("tip").style.left = Math.min(event.clientX + 14, innerWidth - 420) + "px";
    byId("tip").style.top = event.clientY + 16 + "px";
  }
  if (drag) {
    const by = (event.clientX - drag[0]) / (width - LEFT - RIGHT) * (drag[2] - drag[1]);
    [from, to] = [drag[1] - by, drag[2] - by];
    picture();
  }
});
addEventListener("resize", picture);
const legend = [["#d0d5dd", "the process runs"], ["repeating-linear-gradient(45deg,#c01048 0 3px,#fff 3px 6px)", "frozen"], ["repeating-linear-gradient(45deg,#667085 0 3px,#fff 3px 6px)", "the store cannot be reached"], ["#1570ef", "lease in the store, gate of its holder (a colour per process)"], [BAD, "two gates at once; faults and deaths"], ["#475467", "something that a process says"]];
for (const [colour, text] of legend) {
  const item = byId("legend").appendChild(document.createElement("span"));
  item.style.setProperty("--c", colour);
  item.textContent = text;
}
picture();
