// The reader's controls, and the page's beginning.

function buildControls() {
  const kinds = record.attentions.map(({ title }, kind) => radio("kind", kind, title, () => choose({ kind })));
  document.getElementById("kinds").append(...kinds);
  const views = ["lines", "maps"].map((view) => radio("view", view, VIEWS[view], () => choose({ view })));
  document.getElementById("views").append(...views);
  const every = headsButton("All", () => new Set(record.colours.keys()));
  const none = headsButton("None", () => new Set());
  document.getElementById("heads").append(...record.colours.map(headBox), every, none);
}

function radio(name, value, text, chosen) {
  const input = element("input", { type: "radio", name, value });
  input.addEventListener("change", chosen);
  return element("label", { class: "choice" }, input, element("span", {}, text));
}

function headBox(colour, head) {
  const input = element("input", { type: "checkbox", value: head, "aria-label": `Head ${head + 1}` });
  input.addEventListener("change", () => {
    const chosen = new Set(state.heads);
    if (!chosen.delete(head)) chosen.add(head);
    choose({ heads: chosen });
  });
  const square = element("span", { class: "square", "aria-hidden": "true" }, String(head + 1));
  return element("label", { class: "head", style: `--colour: ${colour}` }, input, square);
}

function headsButton(text, chosen) {
  const button = element("button", { type: "button", "aria-label": `${text} heads` }, text);
  button.addEventListener("click", () => choose({ heads: chosen() }));
  return button;
}

/** The layers differ from attention to attention, so their buttons are made anew when their number changes. */
function buildLayers() {
  const box = document.getElementById("layers");
  const count = attention().layers.length;
  if (box.querySelectorAll("label").length === count) return;
  box.querySelectorAll("label").forEach((label) => label.remove());
  for (let layer = 0; layer < count; layer++)
    box.append(radio("layer", layer, String(layer + 1), () => choose({ layer })));
}

function markControls() {
  buildLayers();
  const view = state.view === "map" ? "maps" : state.view;
  for (const [name, value] of Object.entries({ kind: state.kind, layer: state.layer, view }))
    document.querySelector(`input[name="${name}"][value="${value}"]`).checked = true;
  document.querySelectorAll("#heads input").forEach((input, head) => {
    input.checked = state.heads.has(head);
    input.disabled = state.view === "lines" && head >= weights().length;
  });
  document.getElementById("heads").hidden = state.view === "map"; // the large map has steps of its own
}

/** Shows the choices. The keyboard keeps its place: words are built anew only when they change, and buttons refocused. */
function show() {
  const held = document.activeElement?.closest("#stage button, #weights button");
  markControls();
  const { title, reading, layers } = attention();
  const layer = `layer ${state.layer + 1} of ${layers.length}`;
  const where = { lines: `, ${layer}`, maps: ", all layers", map: `, ${layer}, head ${state.head + 1}` };
  document.getElementById("caption").textContent = title + where[state.view];
  document.getElementById("explained").textContent = reading;
  const stage = document.getElementById("stage");
  if (state.view === "maps") buildMaps(stage);
  if (state.view === "map") buildMap(stage);
  const words = state.view === "lines" ? attention().name : "";
  if (words && stage.dataset.words !== words) buildLines(stage);
  stage.dataset.words = words;
  if (words) updateLines();
  if (held && !held.isConnected) refocus(stage, nameOf(held));
}

/** Puts the keyboard on the button of that name, or on the picture where there is none now. */
function refocus(stage, name) {
  const same = [...stage.querySelectorAll("button:enabled")].find((button) => nameOf(button) === name);
  (same ?? stage).focus();
}

function nameOf(button) {
  return button.getAttribute("aria-label") ?? button.textContent;
}

/** Left and right go through the layers wherever they have no meaning of their own. */
document.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step || event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, .scroll")) return;
  event.preventDefault();
  choose({ layer: state.layer + step });
});

window.addEventListener("hashchange", () => {
  follow(location.hash);
  show();
});

buildControls();
follow(location.hash);
show();
