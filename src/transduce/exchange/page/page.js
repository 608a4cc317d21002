// The page: what the reader types goes to the worker, and what the worker translates comes back line by line.

const PAUSE = 250; // milliseconds without typing after which the text is translated

const [source, target, status, progress] = ["source", "target", "status", "progress"].map((id) => document.getElementById(id));
const [clear, copy] = ["clear", "copy"].map((id) => document.getElementById(id));
const settings = await (await fetch("page.json")).json();

let request = 0; // the number of the newest request; its lines are on the page
let isReady = false;
let timer;

/** The name of a language in English; the code where there is none. */
function languageName(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code;
  }
}

function showLanguages({ source: from, target: to }) {
  for (const [code, element] of [[from, source], [to, target]]) if (code) element.lang = code;
  if (!from || !to) return;
  document.getElementById("source-label").textContent = languageName(from);
  document.getElementById("target-label").textContent = languageName(to);
  document.title = document.getElementById("title").textContent = `${languageName(from)} to ${languageName(to)}`;
}

function say(text, isFault = false) {
  status.textContent = text;
  status.classList.toggle("fault", isFault);
}

function lines() {
  return source.value === "" ? [] : source.value.split("\n");
}

function chosenBeam() {
  return Number(document.querySelector("input[name=beam]:checked").value);
}

/** Sends the text to the worker; lines that are not translated yet keep their old translation, in grey. */
function translate() {
  clearTimeout(timer);
  clear.disabled = source.value === "";
  const given = lines();
  while (target.children.length > given.length) target.lastElementChild.remove();
  while (target.children.length < given.length) {
    const line = document.createElement("p");
    line.dir = "auto";
    target.append(line);
  }
  copy.disabled = given.length === 0;
  for (const line of target.children) line.classList.add("pending");
  if (!isReady) return;
  request += 1;
  worker.postMessage({ id: request, lines: given, beam: chosenBeam() });
  target.ariaBusy = "true";
  if (given.length) say("Translating…");
}

const receive = {
  progress({ part }) {
    progress.value = part;
    say(part < 1 ? `The model is loading: ${Math.floor(100 * part)} %` : "The model is starting…");
  },
  ready() {
    isReady = true;
    progress.hidden = true;
    target.ariaBusy = "false";
    say("Ready");
    translate();
  },
  line({ id, place, text }) {
    if (id !== request) return;
    const line = target.children[place];
    line.textContent = text;
    line.classList.remove("pending");
    const count = target.children.length;
    if (count > 1 && place + 1 < count) say(`Translating: ${place + 1} of ${count} lines`);
  },
  done({ id, milliseconds }) {
    if (id !== request) return;
    target.ariaBusy = "false";
    say(target.children.length ? `Translated in ${(milliseconds / 1000).toFixed(1)} s` : "Ready");
  },
  error({ id, message }) {
    if (id !== null && id !== request) return;
    progress.hidden = true;
    target.ariaBusy = "false";
    say(message, true);
  },
};

/** Starts the worker from this page, so that the page's Content-Security-Policy holds for the worker too. */
function startWorker() {
  const address = new URL("worker.js", import.meta.url).href;
  const script = new Blob([`import ${JSON.stringify(address)};`], { type: "text/javascript" });
  const started = new Worker(URL.createObjectURL(script), { type: "module" });
  started.onmessage = ({ data }) => receive[data.kind](data);
  started.onerror = (event) => receive.error({ id: null, message: event.message || "The translator cannot start in this browser." });
  return started;
}

showLanguages(settings.languages);
const thorough = document.getElementById("beam");
thorough.value = settings.decoding.beam;
document.getElementById("searches").hidden = settings.decoding.beam === 1;
document.querySelector(settings.decoding.beam === 1 ? "input[name=beam]" : "#beam").checked = true;
say("The model is loading…");
const worker = startWorker();

source.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(translate, PAUSE);
});
source.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
});
document.getElementById("searches").addEventListener("change", translate);
clear.addEventListener("click", () => {
  source.value = "";
  translate();
  source.focus();
});
copy.addEventListener("click", async () => {
  const text = Array.from(target.children, (line) => line.textContent).join("\n");
  try {
    await navigator.clipboard.writeText(text);
    say("Copied");
  } catch {
    say("The browser does not let this page copy: select the translation and copy it.", true);
  }
});
source.focus();
