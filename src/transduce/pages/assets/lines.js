// The view of lines: two columns of subwords, a line a weight, one colour a head (the paper's figures 3 to 5).

const ROW = 26; // height of a subword, in pixels; the style sheet has it as --row
const MIN_WEIGHT = 10; // in thousandths; a weaker line would be invisible
const TITLES = {
  encoder: { queries: "subword", keys: "attends to" },
  decoder: { queries: "being written", keys: "before it" },
  cross: { queries: "being written", keys: "source" },
};
const SVG = "http://www.w3.org/2000/svg";

let pointed = null; // the subword under the pointer or the keyboard's focus: { side, index }

function buildLines(stage) {
  pointed = null;
  const { name, queries, keys } = attention();
  const height = ROW * Math.max(queries.length, keys.length);
  const canvas = document.createElementNS(SVG, "svg");
  canvas.setAttribute("viewBox", `0 0 100 ${height}`);
  canvas.setAttribute("preserveAspectRatio", "none");
  canvas.setAttribute("role", "img");
  canvas.style.height = `${height}px`;
  const columns = Object.entries({ queries, keys }).map(([side, subwords]) =>
    element("div", { class: "side" }, element("h3", {}, TITLES[name][side]), subwordList(side, subwords)));
  stage.replaceChildren(element("div", { class: "lines" }, columns[0], canvas, columns[1]));
}

/** A list of subwords; the tab key reaches one of them, and the arrows move on from there. */
function subwordList(side, subwords) {
  const items = subwords.map((subword, index) => element("li", {}, subwordButton(side, subword, index)));
  const list = element("ol", { class: side, "aria-label": TITLES[attention().name][side] }, ...items);
  list.addEventListener("pointerleave", () => point(null));
  list.addEventListener("focusout", () => point(null));
  return list;
}

function subwordButton(side, subword, index) {
  const marks = element("span", { class: "marks", "aria-hidden": "true" });
  const button = element("button", { type: "button", tabindex: index ? -1 : 0, title: subword }, marks);
  button.append(element("bdi", SUBWORD, subword));
  button.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && point({ side, index }));
  button.addEventListener("focus", () => button.matches(":focus-visible") && point({ side, index }));
  button.addEventListener("click", () => togglePinned(side, index));
  button.addEventListener("keydown", (event) => moveFocus(event, button));
  return button;
}

function point(target) {
  pointed = target;
  updateLines();
}

function togglePinned(side, index) {
  const pinned = new Set(state[side]);
  if (!pinned.delete(index)) pinned.add(index);
  select({ [side]: pinned });
}

/** Moves the focus between the subwords of one side, on the up and down keys. */
function moveFocus(event, button) {
  const step = { ArrowUp: "previousElementSibling", ArrowDown: "nextElementSibling" }[event.key];
  const next = step && button.closest("li")[step]?.firstElementChild;
  if (!step) return;
  event.preventDefault();
  if (!next) return;
  button.closest("ol").querySelector('[tabindex="0"]').tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

/** The subwords of a side whose lines are shown: the one pointed at, else the pinned ones, else all. */
function shownSubwords(side) {
  const all = () => [...attention()[side].keys()];
  if (pointed) return pointed.side === side ? [pointed.index] : all();
  return state[side].size ? [...state[side]] : all();
}

function updateLines() {
  const canvas = document.querySelector("#stage svg");
  if (!canvas) return;
  const links = strongestLinks(shownSubwords("queries"), shownSubwords("keys"));
  // Weak links are drawn first, so that strong ones lie on top.
  canvas.replaceChildren(...links.map(drawLine).reverse());
  canvas.setAttribute("aria-label", `${links.length} lines between subwords`);
  markSubwords();
  listWeights(links);
}

/** All links { head, query, key, weight } between two sets of subwords, the strongest first. */
function strongestLinks(queries, keys) {
  const links = [];
  for (const head of heads())
    for (const query of queries)
      for (const key of keys) {
        const weight = weights()[head][query][key];
        if (weight >= MIN_WEIGHT) links.push({ head, query, key, weight });
      }
  return links.sort((a, b) => b.weight - a.weight);
}

function drawLine({ head, query, key, weight }) {
  const line = document.createElementNS(SVG, "line");
  // The lines of the heads lie side by side, so that lines between the same subwords are all visible.
  const shift = 0.6 * ((head + 0.5) / record.colours.length - 0.5);
  const ends = { x1: 0, y1: ROW * (query + 0.5 + shift), x2: 100, y2: ROW * (key + 0.5 + shift) };
  for (const [name, value] of Object.entries(ends)) line.setAttribute(name, value);
  line.setAttribute("stroke", record.colours[head]);
  line.setAttribute("stroke-opacity", weight / 1000);
  const title = document.createElementNS(SVG, "title");
  const pair = `${attention().queries[query]} → ${attention().keys[key]}`;
  title.textContent = `${pair}, head ${head + 1}: ${formatWeight(weight)}`;
  line.append(title);
  return line;
}

function isNarrowed() {
  return pointed !== null || state.queries.size + state.keys.size > 0;
}

/** Highlights the selected subwords; marks beside those of the other side how strongly each head links them. */
function markSubwords() {
  for (const side of ["queries", "keys"]) {
    const isSelected = pointed ? pointed.side === side : state[side].size > 0;
    const shown = new Set(shownSubwords(side));
    document.querySelectorAll(`ol.${side} button`).forEach((button, index) => {
      button.setAttribute("aria-pressed", state[side].has(index));
      button.classList.toggle("selected", isSelected && shown.has(index));
      button.querySelector(".marks").replaceChildren(...(isNarrowed() && !isSelected ? headMarks(side, index) : []));
    });
  }
}

/** A mark a head, as opaque as the largest weight between a subword and those shown on the other side. */
function headMarks(side, index) {
  const partners = shownSubwords(side === "keys" ? "queries" : "keys");
  return heads().map((head) => {
    const map = weights()[head];
    const linked = partners.map((partner) => (side === "keys" ? map[partner][index] : map[index][partner]));
    return element("i", { style: `--colour: ${record.colours[head]}; opacity: ${Math.max(0, ...linked) / 1000}` });
  });
}

/** Lists the strongest weights of the selected subwords. */
function listWeights(links) {
  const panel = document.getElementById("weights");
  if (!heads().length) return panel.replaceChildren("No head is selected.");
  if (!isNarrowed()) return panel.replaceChildren("Point at a subword to see its lines alone; press it to pin them.");
  const rows = links.slice(0, 8).map(({ head, query, key, weight }) => weightRow(head, query, key, weight));
  const all = element("button", { type: "button" }, "Show all subwords");
  all.addEventListener("click", () => select({ queries: new Set(), keys: new Set() }));
  const hasPinned = state.queries.size + state.keys.size > 0;
  panel.replaceChildren(element("h3", {}, "Strongest"), element("ol", {}, ...rows), ...(hasPinned ? [all] : []));
}

/** A weight of a head; `head` is null for the mean of heads. */
function weightRow(head, query, key, weight) {
  const colour = `--colour: ${head === null ? MEAN_COLOUR : record.colours[head]}`;
  const square = element("span", { class: "square", style: colour }, head === null ? "" : String(head + 1));
  const pair = element("span", { class: "pair" });
  pair.append(element("bdi", SUBWORD, attention().queries[query]), " → ", element("bdi", SUBWORD, attention().keys[key]));
  const bar = element("span", { class: "bar", style: `${colour}; --weight: ${weight / 1000}` });
  return element("li", {}, square, pair, element("span", { class: "number" }, formatWeight(weight)), bar);
}
