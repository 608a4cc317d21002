// The reader's controls, and the start of the page.

function buildControls() {
  const kinds = record.attentions.map(({ title }, kind) => radio("kind", kind, title, () => select({ kind })));
  document.getElementById("kinds").append(...kinds);
  const views = ["mean", "lines", "maps"].map((view) => radio("view", view, VIEWS[view], () => select({ view })));
  document.getElementById("views").append(...views);
  const all = headsButton("All", () => new Set(record.colours.keys()));
  const none = headsButton("None", () => new Set());
  document.getElementById("heads").append(...record.colours.map(headCheckbox), all, none);
}

function radio(name, value, text, onChange) {
  const input = element("input", { type: "radio", name, value });
  input.addEventListener("change", onChange);
  return element("label", { class: "choice" }, input, element("span", {}, text));
}

function headCheckbox(colour, head) {
  const input = element("input", { type: "checkbox", value: head, "aria-label": `Head ${head + 1}` });
  input.addEventListener("change", () => {
    const selected = new Set(state.heads);
    if (!selected.delete(head)) selected.add(head);
    select({ heads: selected });
  });
  const square = element("span", { class: "square", "aria-hidden": "true" }, String(head + 1));
  return element("label", { class: "head", style: `--colour: ${colour}` }, input, square);
}

function headsButton(text, headsToSelect) {
  const button = element("button", { type: "button" }, text);
  button.addEventListener("click", () => select({ heads: headsToSelect() }));
  return button;
}

/** Attentions may differ in their number of layers; the buttons are rebuilt when the number changes. */
function buildLayers() {
  const box = document.getElementById("layers");
  const count = attention().layers.length;
  if (box.querySelectorAll("label").length === count) return;
  box.querySelectorAll("label").forEach((label) => label.remove());
  for (let layer = 0; layer < count; layer++)
    box.append(radio("layer", layer, String(layer + 1), () => select({ layer })));
}

function updateControls() {
  buildLayers();
  const view = state.view === "map" ? "maps" : state.view;
  for (const [name, value] of Object.entries({ kind: state.kind, layer: state.layer, view }))
    document.querySelector(`input[name="${name}"][value="${value}"]`).checked = true;
  document.querySelectorAll("#heads input").forEach((input, head) => {
    input.checked = state.heads.has(head);
    input.disabled = ["mean", "lines"].includes(state.view) && head >= weights().length;
  });
  document.getElementById("heads").hidden = state.view === "map"; // the large map has buttons of its own
}

/** Shows the selection. The keyboard's focus stays: subwords are rebuilt only when they change, buttons are refocused. */
function show() {
  const focused = document.activeElement?.closest("#stage button, #weights button");
  updateControls();
  const { name, title, description, layers } = attention();
  const layer = `layer ${state.layer + 1} of ${layers.length}`;
  const suffixes = { mean: `, ${layer}, mean of heads`, lines: `, ${layer}`, maps: ", all layers", map: `, ${layer}, head ${state.head + 1}` };
  document.getElementById("caption").textContent = title + suffixes[state.view];
  document.getElementById("description").textContent = description;
  const stage = document.getElementById("stage");
  if (state.view === "maps") buildMaps(stage);
  if (["mean", "map"].includes(state.view)) buildMap(stage);
  const shownLines = state.view === "lines" ? name : "";
  if (shownLines && stage.dataset.lines !== shownLines) buildLines(stage);
  stage.dataset.lines = shownLines;
  if (shownLines) updateLines();
  if (focused && !focused.isConnected) refocus(stage, buttonName(focused));
}

/** Focuses the enabled button of that name, or the stage where there is none. */
function refocus(stage, name) {
  const button = [...stage.querySelectorAll("button:enabled")].find((candidate) => buttonName(candidate) === name);
  (button ?? stage).focus();
}

function buttonName(button) {
  return button.getAttribute("aria-label") ?? button.textContent;
}

/** The left and right keys change the layer wherever they have no other meaning. */
document.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step || event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, .scroll")) return;
  event.preventDefault();
  select({ layer: state.layer + step });
});

window.addEventListener("hashchange", () => {
  readAddress(location.hash);
  show();
});

buildControls();
readAddress(location.hash);
show();
