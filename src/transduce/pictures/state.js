// What is shown: the record, the reader's choices, and the address that holds them.

const record = JSON.parse(document.getElementById("record").textContent);

const VIEWS = { lines: "Lines", maps: "Heat maps", map: "One head" };

const state = {
  kind: 0,
  layer: Math.max(0, record.attentions[0].layers.length - 2), // as in the paper: layer 5 of 6
  view: "lines",
  heads: new Set(record.colours.keys()),
  head: 0, // the head of the large map
  looking: new Set(), // words kept on either side; empty is all
  seen: new Set(),
};

function attention() {
  return record.attentions[state.kind];
}

/** The weights of the layer shown: [head][looking][seen], in thousandths. */
function weights() {
  return attention().layers[state.layer];
}

/** The heads that are both chosen and in the layer shown. */
function heads() {
  return [...weights().keys()].filter((head) => state.heads.has(head));
}

function format(weight) {
  return (weight / 1000).toFixed(3);
}

/** An address such as #cross-3, then what differs from the usual: &view=maps&heads=5.6&looking=12. */
function address() {
  const words = [`${attention().name}-${state.layer + 1}`];
  if (state.view !== "lines") words.push(`view=${state.view}`);
  if (state.view === "map") words.push(`head=${state.head + 1}`);
  if (state.heads.size < record.colours.length) words.push(`heads=${written(state.heads)}`);
  if (state.looking.size) words.push(`looking=${written(state.looking)}`);
  if (state.seen.size) words.push(`seen=${written(state.seen)}`);
  return "#" + words.join("&");
}

function written(numbers) {
  return [...numbers].sort((a, b) => a - b).map((number) => number + 1).join(".");
}

/** Takes the choices from an address; what is not there, or makes no sense, stays at the usual. */
function follow(hash) {
  const [, name, layer, rest] = /^#(\w+)-(\d+)(.*)$/.exec(hash) ?? [];
  const kind = record.attentions.findIndex((candidate) => candidate.name === name);
  if (kind < 0) return;
  const wishes = new URLSearchParams(rest);
  state.kind = kind;
  state.layer = Number(layer) - 1;
  state.view = Object.hasOwn(VIEWS, wishes.get("view")) ? wishes.get("view") : "lines";
  state.heads = wishes.has("heads") ? numbersIn(wishes.get("heads"), record.colours) : new Set(record.colours.keys());
  state.head = Number(wishes.get("head") ?? 1) - 1;
  state.looking = numbersIn(wishes.get("looking"), attention().looking);
  state.seen = numbersIn(wishes.get("seen"), attention().seen);
  settle();
}

function numbersIn(text, things) {
  const places = (text ?? "").split(".").map((number) => Number(number) - 1);
  return new Set(places.filter((place) => place in things));
}

/** Brings layer and head back into what the attention has: its parts may differ in depth and heads. */
function settle() {
  state.layer = within(state.layer, attention().layers.length);
  state.head = within(state.head, weights().length);
}

function within(place, count) {
  return Math.min(Math.max(Math.trunc(place) || 0, 0), count - 1);
}

/** Changes the choices, shows them, and puts them into the address. */
function choose(change) {
  if ("kind" in change && change.kind !== state.kind) Object.assign(state, { looking: new Set(), seen: new Set() });
  Object.assign(state, change);
  settle();
  history.replaceState(null, "", address());
  show();
}

/** A new element; children that are strings become text and are never read as markup. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Attributes of an element that holds words: of no known language, of either direction. */
const WORD = { lang: "", dir: "auto", translate: "no" };
