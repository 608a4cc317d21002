// The views of heat maps: every layer and head in small, or one head in large with its words.

/** Fullness of a cell's colour. The root keeps weak weights visible; the scale under the maps says so. */
function fullness(weight) {
  return Math.sqrt(weight / 1000);
}

function buildMaps(stage) {
  const chosen = [...record.colours.keys()].filter((head) => state.heads.has(head));
  const corner = element("span", {});
  const titles = chosen.map((head) =>
    element("span", { class: "square", style: `--colour: ${record.colours[head]}` }, String(head + 1)));
  const rows = attention().layers.flatMap((layer, number) => [
    element("span", { class: number === state.layer ? "layer current" : "layer" }, `Layer ${number + 1}`),
    ...chosen.map((head) => (head < layer.length ? thumbnail(layer[head], number, head) : element("span"))),
  ]);
  const grid = element("div", { class: "maps", style: `--heads: ${chosen.length}` }, corner, ...titles, ...rows);
  stage.replaceChildren(element("div", { class: "scroll" }, grid), scale());
  document.getElementById("weights").replaceChildren(
    chosen.length ? "Press a map to see it large, with its words." : "No head is chosen.");
}

function thumbnail(map, layer, head) {
  const label = `Layer ${layer + 1}, head ${head + 1}`;
  const button = element("button", { type: "button", "aria-label": label, title: label }, pixels(map, head));
  button.addEventListener("click", () => choose({ view: "map", layer, head }));
  return button;
}

/** A canvas of one pixel a weight, which the style sheet enlarges without smoothing. */
function pixels(map, head) {
  const canvas = element("canvas", { width: map[0].length, height: map.length });
  const pen = canvas.getContext("2d");
  pen.fillStyle = record.colours[head];
  map.forEach((row, y) => row.forEach((weight, x) => {
    pen.globalAlpha = fullness(weight);
    pen.fillRect(x, y, 1, 1);
  }));
  return canvas;
}

function scale() {
  const steps = [0, 10, 50, 100, 250, 500, 1000].map((weight) =>
    element("span", { style: `--fullness: ${fullness(weight)}` }, String(weight / 1000)));
  return element("div", { class: "scale", role: "img", "aria-label": "Fuller colour is greater weight" }, ...steps);
}

function buildMap(stage) {
  const map = weights()[state.head];
  const table = element("table", { style: `--colour: ${record.colours[state.head]}` });
  table.append(element("thead", {}, headRow()), element("tbody", {}, ...map.map(bodyRow)));
  table.addEventListener("pointerover", (event) => pointAtCell(event.target.closest("td")));
  const frame = { class: "scroll", tabindex: 0, role: "region", "aria-labelledby": "caption" };
  stage.replaceChildren(mapSteps(), element("div", frame, table));
  document.getElementById("weights").replaceChildren("Point at a cell to read its weight.");
}

/** Back to all maps, and on to the head before or after. */
function mapSteps() {
  const count = weights().length;
  const all = element("button", { type: "button" }, "All heads");
  all.addEventListener("click", () => choose({ view: "maps" }));
  const stepTo = (text, label, head) => {
    const button = element("button", { type: "button", "aria-label": label }, text);
    button.disabled = head < 0 || head >= count;
    button.addEventListener("click", () => choose({ head }));
    return button;
  };
  const here = element("span", {}, `Head ${state.head + 1} of ${count}`);
  const before = stepTo("‹", "Head before", state.head - 1);
  return element("p", { class: "steps" }, all, before, here, stepTo("›", "Head after", state.head + 1));
}

function headRow() {
  const names = attention().seen.map((word) => element("th", { scope: "col" }, element("bdi", WORD, word)));
  return element("tr", {}, element("td"), ...names);
}

function bodyRow(row, from) {
  const name = element("th", { scope: "row" }, element("bdi", WORD, attention().looking[from]));
  const cells = row.map((weight, to) => {
    const cell = element("td", { style: `--fullness: ${fullness(weight)}` }, hundredths(weight));
    Object.assign(cell.dataset, { from, to });
    cell.classList.toggle("faint", weight < 45);
    cell.classList.toggle("strong", weight > 500);
    return cell;
  });
  return element("tr", {}, name, ...cells);
}

/** A weight short enough for a cell: ".62", or "1.0". */
function hundredths(weight) {
  return weight < 995 ? (weight / 1000).toFixed(2).slice(1) : "1.0";
}

/** Marks the two words of a cell and tells its weight. */
function pointAtCell(cell) {
  if (!cell?.dataset.from) return;
  const from = Number(cell.dataset.from);
  const to = Number(cell.dataset.to);
  const table = cell.closest("table");
  table.querySelectorAll("tbody th").forEach((name, place) => name.classList.toggle("chosen", place === from));
  table.querySelectorAll("thead th").forEach((name, place) => name.classList.toggle("chosen", place === to));
  const told = weightRow(state.head, from, to, weights()[state.head][from][to]);
  document.getElementById("weights").replaceChildren(element("ol", {}, told));
}
