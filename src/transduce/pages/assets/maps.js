// The views of heat maps: every layer and head as a small map; one head, or the mean of heads, as a large map with subwords.

const MEAN_COLOUR = "#5b8fd0";

/** Opacity of a cell. The square root keeps weak weights visible; the scale under the maps shows it. */
function opacity(weight) {
  return Math.sqrt(weight / 1000);
}

function buildMaps(stage) {
  const selected = [...record.colours.keys()].filter((head) => state.heads.has(head));
  const corner = element("span", {});
  const titles = selected.map((head) =>
    element("span", { class: "square", style: `--colour: ${record.colours[head]}` }, String(head + 1)));
  const rows = attention().layers.flatMap((layer, number) => [
    element("span", { class: number === state.layer ? "layer current" : "layer" }, `Layer ${number + 1}`),
    ...selected.map((head) => (head < layer.length ? thumbnail(layer[head], number, head) : element("span"))),
  ]);
  const grid = element("div", { class: "maps", style: `--heads: ${selected.length}` }, corner, ...titles, ...rows);
  stage.replaceChildren(element("div", { class: "scroll" }, grid), scale());
  document.getElementById("weights").replaceChildren(
    selected.length ? "Press a map to enlarge it." : "No head is selected.");
}

function thumbnail(map, layer, head) {
  const label = `Layer ${layer + 1}, head ${head + 1}`;
  const button = element("button", { type: "button", "aria-label": label, title: label }, mapCanvas(map, head));
  button.addEventListener("click", () => select({ view: "map", layer, head }));
  return button;
}

/** A canvas of one pixel a weight, which the style sheet enlarges without smoothing. */
function mapCanvas(map, head) {
  const canvas = element("canvas", { width: map[0].length, height: map.length });
  const context = canvas.getContext("2d");
  context.fillStyle = record.colours[head];
  map.forEach((row, y) => row.forEach((weight, x) => {
    context.globalAlpha = opacity(weight);
    context.fillRect(x, y, 1, 1);
  }));
  return canvas;
}

function scale() {
  const steps = [0, 10, 50, 100, 250, 500, 1000].map((weight) =>
    element("span", { style: `--opacity: ${opacity(weight)}` }, String(weight / 1000)));
  return element("div", { class: "scale", role: "img", "aria-label": "A fuller colour is a greater weight" }, ...steps);
}

/** The weights of the large map: [query][key], in thousandths. */
function largeMap() {
  if (state.view === "map") return weights()[state.head];
  const maps = heads().map((head) => weights()[head]);
  return maps.length === 0 ? [] : maps[0].map((row, query) =>
    row.map((_, key) => maps.reduce((sum, map) => sum + map[query][key], 0) / maps.length));
}

function buildMap(stage) {
  const [map, isMean] = [largeMap(), state.view === "mean"];
  const colour = isMean ? MEAN_COLOUR : record.colours[state.head];
  const table = element("table", { class: "attention", style: `--colour: ${colour}` });
  table.append(element("thead", {}, headRow()), element("tbody", {}, ...map.map(bodyRow)));
  table.addEventListener("pointerover", (event) => pointAtCell(event.target.closest("td")));
  const frame = { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of weights" };
  stage.replaceChildren(...(isMean ? [] : [mapButtons()]), element("div", frame, table));
  document.getElementById("weights").replaceChildren(
    map.length ? "Point at a cell to read its weight. The largest of each row has a frame." : "No head is selected.");
}

/** The buttons above the large map: all heads, previous head, next head. */
function mapButtons() {
  const count = weights().length;
  const all = element("button", { type: "button" }, "All heads");
  all.addEventListener("click", () => select({ view: "maps" }));
  const headButton = (text, label, head) => {
    const button = element("button", { type: "button", "aria-label": label }, text);
    button.disabled = head < 0 || head >= count;
    button.addEventListener("click", () => select({ head }));
    return button;
  };
  const current = element("span", {}, `Head ${state.head + 1} of ${count}`);
  const previous = headButton("‹", "Previous head", state.head - 1);
  return element("p", { class: "steps" }, all, previous, current, headButton("›", "Next head", state.head + 1));
}

function headRow() {
  const names = attention().keys.map((key) => element("th", { scope: "col" }, element("bdi", SUBWORD, key)));
  return element("tr", {}, element("td"), ...names);
}

function bodyRow(row, query) {
  const name = element("th", { scope: "row" }, element("bdi", SUBWORD, attention().queries[query]));
  const cells = row.map((weight, key) => {
    const cell = element("td", { style: `--opacity: ${opacity(weight)}` }, formatCell(weight));
    Object.assign(cell.dataset, { query, key });
    cell.classList.toggle("faint", weight < 45);
    cell.classList.toggle("strong", weight > 500);
    cell.classList.toggle("largest", weight === Math.max(...row));
    return cell;
  });
  return element("tr", {}, name, ...cells);
}

/** A weight short enough for a cell: ".62", or "1.0". */
function formatCell(weight) {
  return weight < 995 ? (weight / 1000).toFixed(2).slice(1) : "1.0";
}

/** Highlights the two subwords of a cell and shows its weight. */
function pointAtCell(cell) {
  if (!cell?.dataset.query) return;
  const query = Number(cell.dataset.query);
  const key = Number(cell.dataset.key);
  const table = cell.closest("table");
  table.querySelectorAll("tbody th").forEach((name, index) => name.classList.toggle("selected", index === query));
  table.querySelectorAll("thead th").forEach((name, index) => name.classList.toggle("selected", index === key));
  const row = weightRow(state.view === "mean" ? null : state.head, query, key, largeMap()[query][key]);
  document.getElementById("weights").replaceChildren(element("ol", {}, row));
}
