// The view of lines: two columns of words, a line for each weight, one colour a head (the paper's figures 3 to 5).

const ROW = 26; // height of a word, in pixels; the style sheet has it as --row
const FAINTEST = 10; // thousandths; weaker lines would not be seen
const TITLES = {
  encoder: { looking: "word", seen: "looks at" },
  decoder: { looking: "being written", seen: "before it" },
  cross: { looking: "being written", seen: "source" },
};
const SVG = "http://www.w3.org/2000/svg";

let pointed = null; // the word under the pointer or the keyboard's focus: { side, place }

function buildLines(stage) {
  pointed = null;
  const { name, looking, seen } = attention();
  const height = ROW * Math.max(looking.length, seen.length);
  const canvas = document.createElementNS(SVG, "svg");
  canvas.setAttribute("viewBox", `0 0 100 ${height}`);
  canvas.setAttribute("preserveAspectRatio", "none");
  canvas.setAttribute("role", "img");
  canvas.style.height = `${height}px`;
  const left = element("div", { class: "side" }, element("h3", {}, TITLES[name].looking), wordList("looking", looking));
  const right = element("div", { class: "side" }, element("h3", {}, TITLES[name].seen), wordList("seen", seen));
  stage.replaceChildren(element("div", { class: "lines" }, left, canvas, right));
}

/** A list of words; the tab key reaches one of them, the arrows move on from there. */
function wordList(side, words) {
  const items = words.map((word, place) => element("li", {}, wordButton(side, word, place)));
  const list = element("ol", { class: side, "aria-label": TITLES[attention().name][side] }, ...items);
  list.addEventListener("pointerleave", () => point(null));
  list.addEventListener("focusout", () => point(null));
  return list;
}

function wordButton(side, word, place) {
  const marks = element("span", { class: "marks", "aria-hidden": "true" });
  const button = element("button", { type: "button", tabindex: place ? -1 : 0, title: word }, marks);
  button.append(element("bdi", WORD, word));
  button.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && point({ side, place }));
  button.addEventListener("focus", () => button.matches(":focus-visible") && point({ side, place }));
  button.addEventListener("click", () => keep(side, place));
  button.addEventListener("keydown", (event) => walk(event, button));
  return button;
}

function point(word) {
  pointed = word;
  updateLines();
}

/** Keeps a word, or lets go of it. */
function keep(side, place) {
  const kept = new Set(state[side]);
  if (!kept.delete(place)) kept.add(place);
  choose({ [side]: kept });
}

/** Up and down move between the words of one side. */
function walk(event, button) {
  const step = { ArrowUp: "previousElementSibling", ArrowDown: "nextElementSibling" }[event.key];
  const next = step && button.closest("li")[step]?.firstElementChild;
  if (!step) return;
  event.preventDefault();
  if (!next) return;
  button.closest("ol").querySelector('[tabindex="0"]').tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

/** The words whose lines are shown: the one pointed at, else those kept, else all. */
function shown(side) {
  const words = attention()[side];
  const all = () => [...words.keys()];
  if (pointed) return pointed.side === side ? [pointed.place] : all();
  return state[side].size ? [...state[side]] : all();
}

function updateLines() {
  const canvas = document.querySelector("#stage svg");
  if (!canvas) return;
  const found = strongest(shown("looking"), shown("seen"));
  // The weak are drawn first, so that the strong lie on top.
  canvas.replaceChildren(...found.map(line).reverse());
  canvas.setAttribute("aria-label", `${found.length} lines from word to word`);
  markWords();
  tellWeights(found);
}

/** All { head, from, to, weight } between two sets of words, the strongest first. */
function strongest(looking, seen) {
  const found = [];
  for (const head of heads())
    for (const from of looking)
      for (const to of seen) {
        const weight = weights()[head][from][to];
        if (weight >= FAINTEST) found.push({ head, from, to, weight });
      }
  return found.sort((a, b) => b.weight - a.weight);
}

function line({ head, from, to, weight }) {
  const drawn = document.createElementNS(SVG, "line");
  // Heads lie side by side, so that two that agree are both seen.
  const shift = 0.6 * ((head + 0.5) / record.colours.length - 0.5);
  const ends = { x1: 0, y1: ROW * (from + 0.5 + shift), x2: 100, y2: ROW * (to + 0.5 + shift) };
  for (const [name, value] of Object.entries(ends)) drawn.setAttribute(name, value);
  drawn.setAttribute("stroke", record.colours[head]);
  drawn.setAttribute("stroke-opacity", weight / 1000);
  const title = document.createElementNS(SVG, "title");
  title.textContent = `${attention().looking[from]} → ${attention().seen[to]}, head ${head + 1}: ${format(weight)}`;
  drawn.append(title);
  return drawn;
}

function isNarrowed() {
  return pointed !== null || state.looking.size + state.seen.size > 0;
}

/** Marks the chosen words, and beside each word of the other side how strongly each head joins it to them. */
function markWords() {
  for (const side of ["looking", "seen"]) {
    const chosen = pointed ? pointed.side === side : state[side].size > 0;
    const places = new Set(shown(side));
    document.querySelectorAll(`ol.${side} button`).forEach((button, place) => {
      button.setAttribute("aria-pressed", state[side].has(place));
      button.classList.toggle("chosen", chosen && places.has(place));
      button.querySelector(".marks").replaceChildren(...(isNarrowed() && !chosen ? marks(side, place) : []));
    });
  }
}

function marks(side, place) {
  const others = shown(side === "seen" ? "looking" : "seen");
  const weight = (head, other) => (side === "seen" ? weights()[head][other][place] : weights()[head][place][other]);
  return heads().map((head) => {
    const most = others.reduce((most, other) => Math.max(most, weight(head, other)), 0);
    return element("i", { style: `--colour: ${record.colours[head]}; opacity: ${most / 1000}` });
  });
}

/** Lists the strongest weights of the chosen words. */
function tellWeights(found) {
  const panel = document.getElementById("weights");
  if (!heads().length) return panel.replaceChildren("No head is chosen.");
  if (!isNarrowed()) return panel.replaceChildren("Point at a word to see its lines alone; press it to keep them.");
  const rows = found.slice(0, 8).map(({ head, from, to, weight }) => weightRow(head, from, to, weight));
  const all = element("button", { type: "button" }, "Show all words");
  all.addEventListener("click", () => choose({ looking: new Set(), seen: new Set() }));
  const kept = state.looking.size + state.seen.size > 0;
  panel.replaceChildren(element("h3", {}, "Strongest"), element("ol", {}, ...rows), ...(kept ? [all] : []));
}

function weightRow(head, from, to, weight) {
  const square = element("span", { class: "square", style: `--colour: ${record.colours[head]}` }, String(head + 1));
  const pair = element("span", { class: "pair" });
  pair.append(element("bdi", WORD, attention().looking[from]), " → ", element("bdi", WORD, attention().seen[to]));
  const bar = element("span", { class: "bar", style: `--colour: ${record.colours[head]}; --weight: ${weight / 1000}` });
  return element("li", {}, square, pair, element("span", { class: "number" }, format(weight)), bar);
}
