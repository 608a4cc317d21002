// State of the page: the record of attention, what the reader has selected, and the address that holds the selection.

const record = JSON.parse(document.getElementById("record").textContent);

const VIEWS = { mean: "Mean of heads", lines: "Lines", maps: "Heat maps", map: "One head" };

const state = {
  kind: 0, // index of the attention: cross, encoder, decoder
  layer: record.attentions[0].layers.length - 1,
  view: "mean",
  heads: new Set(record.colours.keys()),
  head: 0, // of the large map
  queries: new Set(), // pinned subwords on each side; an empty set shows all
  keys: new Set(),
};

function attention() {
  return record.attentions[state.kind];
}

/** The weights of the selected layer: [head][query][key], in thousandths. */
function weights() {
  return attention().layers[state.layer];
}

/** The selected heads that the selected layer has. */
function heads() {
  return [...weights().keys()].filter((head) => state.heads.has(head));
}

function formatWeight(weight) {
  return (weight / 1000).toFixed(3);
}

/** The address of the selection: #cross-3, then what differs from the default: &view=maps&heads=5.6&queries=12. */
function writeAddress() {
  const parts = [`${attention().name}-${state.layer + 1}`];
  if (state.view !== "mean") parts.push(`view=${state.view}`);
  if (state.view === "map") parts.push(`head=${state.head + 1}`);
  if (state.heads.size < record.colours.length) parts.push(`heads=${joinNumbers(state.heads)}`);
  if (state.queries.size) parts.push(`queries=${joinNumbers(state.queries)}`);
  if (state.keys.size) parts.push(`keys=${joinNumbers(state.keys)}`);
  return "#" + parts.join("&");
}

function joinNumbers(indices) {
  return [...indices].sort((a, b) => a - b).map((index) => index + 1).join(".");
}

/** Sets the selection from an address; a part that is missing or invalid gets its default. */
function readAddress(hash) {
  const [, name, layer, rest] = /^#(\w+)-(\d+)(.*)$/.exec(hash) ?? [];
  const kind = record.attentions.findIndex((candidate) => candidate.name === name);
  if (kind < 0) return;
  const parameters = new URLSearchParams(rest);
  state.kind = kind;
  state.layer = Number(layer) - 1;
  state.view = Object.hasOwn(VIEWS, parameters.get("view")) ? parameters.get("view") : "mean";
  const allHeads = new Set(record.colours.keys());
  state.heads = parameters.has("heads") ? splitNumbers(parameters.get("heads"), record.colours) : allHeads;
  state.head = Number(parameters.get("head") ?? 1) - 1;
  state.queries = splitNumbers(parameters.get("queries"), attention().queries);
  state.keys = splitNumbers(parameters.get("keys"), attention().keys);
  clampSelection();
}

/** The indices in a text such as "5.6" that exist in an array. */
function splitNumbers(text, array) {
  const indices = (text ?? "").split(".").map((number) => Number(number) - 1);
  return new Set(indices.filter((index) => index in array));
}

/** Limits layer and head to those of the attention: attentions may differ in layers and heads. */
function clampSelection() {
  state.layer = clampIndex(state.layer, attention().layers.length);
  state.head = clampIndex(state.head, weights().length);
}

function clampIndex(index, count) {
  return Math.min(Math.max(Math.trunc(index) || 0, 0), count - 1);
}

/** Changes the selection, shows it, and writes it into the address. */
function select(changes) {
  const changesKind = "kind" in changes && changes.kind !== state.kind;
  if (changesKind) Object.assign(state, { queries: new Set(), keys: new Set() });
  Object.assign(state, changes);
  clampSelection();
  history.replaceState(null, "", writeAddress());
  show();
}

/** A new element; children that are strings become text and are never parsed as markup. */
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Attributes of an element that holds subwords: of no known language, of either direction. */
const SUBWORD = { lang: "", dir: "auto", translate: "no" };
