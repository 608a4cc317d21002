// The words of the phrase that the reader points at, and the copying of the brackets.

const nodes = [...document.querySelectorAll("#tree .node")];
const hint = document.getElementById("phrase").textContent;
const highlight = document.getElementById("highlight");

/** The parts of speech, one a word. */
const tags = nodes.filter((node) => node.classList.contains("tag"));

/** Highlights the words of a phrase and shows its label and text; null shows nothing. */
function point(node) {
  for (const other of nodes) other.classList.toggle("selected", other === node);
  const panel = document.getElementById("phrase");
  for (const name of ["x", "y", "width", "height"]) highlight.setAttribute(name, 0);
  if (!node) return panel.replaceChildren(hint);
  const [first, last] = [tags[node.dataset.first], tags[node.dataset.last]].map((tag) => tag.querySelector("rect"));
  const [left, right] = [Number(first.getAttribute("x")), Number(last.getAttribute("x")) + Number(last.getAttribute("width"))];
  const box = { x: left, y: first.getAttribute("y"), width: right - left, height: first.getAttribute("height") };
  for (const [name, value] of Object.entries(box)) highlight.setAttribute(name, value);
  const label = document.createElement("b");
  const words = document.createElement("bdi");
  label.textContent = labelOf(node);
  words.textContent = tags.slice(Number(node.dataset.first), Number(node.dataset.last) + 1).map(wordOf).join(" ");
  words.lang = "";
  panel.replaceChildren(label, words);
}

function labelOf(node) {
  return node.querySelector("text").textContent;
}

function wordOf(tag) {
  return tag.querySelector("title").textContent.slice(labelOf(tag).length + 2);
}

/** The phrase around a node, its first part, or its neighbour in the same phrase. */
function neighbour(node, key) {
  const number = nodes.indexOf(node);
  const parts = (parent) => nodes.filter((other) => other.dataset.parent === String(parent));
  if (key === "ArrowUp") return nodes[node.dataset.parent];
  if (key === "ArrowDown") return parts(number)[0];
  const siblings = parts(node.dataset.parent);
  return siblings[siblings.indexOf(node) + { ArrowLeft: -1, ArrowRight: 1 }[key]];
}

function moveFocus(event) {
  if (!event.key.startsWith("Arrow") || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const next = neighbour(event.currentTarget, event.key);
  if (next) focusNode(next);
}

/** The tab key reaches one node, and the arrows move on from there. */
function focusNode(node) {
  for (const other of nodes) other.setAttribute("tabindex", other === node ? 0 : -1);
  node.focus();
  point(node); // a window that is not active does not report the focus
  node.scrollIntoView({ block: "nearest", inline: "nearest" });
}

nodes.forEach((node, number) => {
  node.setAttribute("tabindex", number ? -1 : 0);
  node.setAttribute("role", "img");
  node.addEventListener("pointerenter", () => point(node));
  node.addEventListener("pointerleave", () => point(document.activeElement?.closest("#tree .node")));
  node.addEventListener("focus", () => point(node));
  node.addEventListener("blur", () => point(null));
  node.addEventListener("click", () => focusNode(node));
  node.addEventListener("keydown", moveFocus);
});

document.getElementById("copy").addEventListener("click", async () => {
  const brackets = document.getElementById("brackets");
  try {
    await navigator.clipboard.writeText(brackets.textContent);
  } catch {
    // Browsers without that permission copy what is selected.
    getSelection().selectAllChildren(brackets);
    if (!document.execCommand("copy")) {
      document.getElementById("copied").textContent = "The brackets are selected: copy them with the keyboard.";
      return;
    }
  }
  document.getElementById("copied").textContent = "Copied.";
});
