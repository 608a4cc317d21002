// The page: what the reader types is translated after a short pause; a newer text ends the requests of an older one.

import { AlternativesPopup } from "./alternatives.js";
import { showAttention } from "./attention.js";
import { listenForDocuments } from "./documents.js";
import { AUTO, LanguageChoice } from "./languages.js";
import { apiKey, keepApiKey, pause, readSettings } from "./server.js";
import { SourceField } from "./source.js";
import { Translations } from "./translations.js";
import { WordView } from "./words.js";

const PAUSE = 400; // milliseconds without typing after which the text is translated
const PATIENCE = 400; // milliseconds after which the reader sees that a translation is under way
const DOUBTS = {
  low: "the model is unsure of it",
  repetition: "it repeats itself",
  numbers: "its numbers are not those of the text",
  names: "a name is missing",
  short: "it is unusually short",
  long: "it is unusually long",
};

const [target, status, count] = ["target", "status", "count"].map((id) => document.getElementById(id));
const [clear, copy, hint, legend, doubts] = ["clear", "copy", "hint", "legend", "doubts"].map((id) => document.getElementById(id));
const keyForm = document.getElementById("key-form");

let shown = { parts: [], input: "" }; // the translation on the page, and the text that it translates
let controller = new AbortController(); // of the newest translation

const settings = await start();
const translations = new Translations(settings);
const field = new SourceField(() => translateSoon(PAUSE));
const view = new WordView(target, point, openAlternatives);
const popup = new AlternativesPopup({
  find: ({ part, start }, signal, onWait) =>
    translations.alternatives(part, part.translation.text.slice(0, start), direction(), signal, onWait),
  choose,
  undo({ part, place }) {
    translations.undo(part, direction());
    showAgain(part, { part, place });
  },
  explain: ({ part, place }) =>
    showAttention(part.text, part.translation.text, direction(), () => view.focus(part, place)),
  close: ({ part, place }) => view.focus(part, place),
});
const languages = new LanguageChoice(settings.directions, () => translateSoon(0), swap);
listen();
listenForDocuments(() => languages.chosen, settings.document_suffixes);
translateSoon(0);
field.focus();

/** Reads the settings of the server; tries until it answers. */
async function start() {
  for (;;) {
    try {
      const read = await readSettings();
      keyForm.hidden = !read.key_required;
      return read;
    } catch (error) {
      say(error.message, true);
      await pause(5000);
    }
  }
}

function listen() {
  clear.addEventListener("click", () => {
    field.text = "";
    translateSoon(0);
    field.focus();
  });
  copy.addEventListener("click", copyTranslation);
  keyForm.addEventListener("submit", (event) => {
    event.preventDefault();
    keepApiKey(document.getElementById("key").value);
    translateSoon(0);
  });
}

function say(text, isFault = false) {
  status.textContent = text;
  status.classList.toggle("fault", isFault);
}

/** The languages of the translation on the page. */
function direction() {
  return { source: shown.source, target: shown.target };
}

/** Translates the text after some milliseconds, unless it changes before. */
async function translateSoon(milliseconds) {
  popup.close();
  controller.abort();
  controller = new AbortController();
  const { signal } = controller;
  showCount();
  try {
    await pause(milliseconds, signal);
    await translate(signal);
  } catch (error) {
    if (signal.aborted) return;
    target.ariaBusy = "false";
    const isStale = field.text !== shown.input;
    target.classList.toggle("stale", isStale);
    copy.disabled ||= isStale;
    hint.hidden ||= isStale;
    say(error.message, true);
  }
}

async function translate(signal) {
  const { text } = field;
  const chosen = languages.chosen;
  if (text.trim() === "") {
    languages.showDetected(undefined);
    say("");
    show({ ...chosen, parts: [], input: text });
    return;
  }
  checkText(text);
  let end = "";
  const timer = setTimeout(() => {
    target.ariaBusy = "true";
    say("Translating…");
    end = "Translated."; // for those who do not see it
  }, PATIENCE);
  signal.addEventListener("abort", () => clearTimeout(timer));
  try {
    const translated = await translations.translate(text, chosen, signal, (message) => say(message, true));
    sayLanguage(translated, chosen, end);
    popup.close(); // its word goes
    show({ ...translated, input: text });
  } finally {
    clearTimeout(timer);
  }
}

/** Says where the text is in the target language already, or in one that the model does not know; else `end`. */
function sayLanguage({ source, target: to, detected }, chosen, end) {
  const name = (code) => new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  if (source === to) say(`The text is ${languages.nameOf(to)} already.`);
  else if (chosen.source !== AUTO && detected) {
    say(`The text seems to be ${name(detected.language)}, and is translated as ${languages.nameOf(source)}: the translation is likely wrong.`, true);
  } else say(end);
}

/** Throws an error where the server would refuse the text. */
function checkText(text) {
  const most = settings.max_characters;
  if (lengthOf(text) > most) throw new Error(`The text is too long: the server takes ${most.toLocaleString("en")} characters.`);
  if (settings.key_required && apiKey() === "") throw new Error("This server needs an API key: enter it above.");
  if (/[^\x20-\xff]/.test(apiKey())) throw new Error("Invalid API key: it has letters that cannot be sent.");
}

/** Characters as the server counts them. */
function lengthOf(text) {
  return [...text].length;
}

function showCount() {
  const [length, most] = [lengthOf(field.text), settings.max_characters];
  count.textContent = `${length.toLocaleString("en")} of ${most.toLocaleString("en")} characters`;
  count.classList.toggle("fault", length > most);
  clear.disabled = field.text === "";
}

function show(translated) {
  shown = translated;
  if (languages.chosen.source === AUTO && shown.detected) languages.showDetected(shown.source);
  field.language = shown.source === AUTO ? "" : shown.source;
  target.lang = shown.target;
  target.ariaBusy = "false";
  target.classList.remove("stale");
  view.show(shown.parts);
  const hasSentences = shown.parts.some(({ kind }) => kind === "sentence");
  copy.disabled = shown.parts.length === 0;
  hint.hidden = !hasSentences;
  legend.hidden = !view.hasDoubts;
  showDoubts();
}

/** Lists what is doubtful about the text and, of a model that was calibrated, about its sentences. */
function showDoubts() {
  const sentences = shown.parts.filter(({ kind }) => kind === "sentence");
  const items = sentences.flatMap(({ translation }, place) =>
    (translation.doubts ?? []).map((doubt) => {
      const item = document.createElement("li");
      item.textContent = `Sentence ${place + 1}: ${DOUBTS[doubt] ?? doubt}.`;
      return item;
    }),
  );
  if (view.isMostlyDoubtful) {
    const item = document.createElement("li");
    item.textContent = "The model is unsure of most words.";
    items.unshift(item);
  }
  doubts.replaceChildren(...items);
  doubts.hidden = items.length === 0;
}

/** Highlights the words of the text that a word of the translation is aligned to. */
function point(word) {
  const pairs = word?.part.translation.alignment;
  if (!pairs) {
    field.clearHighlight();
    return;
  }
  const places = pairs.filter(([, place]) => place === word.place).map(([place]) => place);
  field.highlight(shown.parts, word.part, places);
}

function openAlternatives(word) {
  const { source, target: to } = shown;
  const able = settings.directions.find((each) => each.source.code === source && each.target.code === to);
  popup.open(word, able.alignments);
}

/** Makes an alternative the translation of its sentence, and then asks for its probabilities. */
async function choose({ part, place }, text) {
  const { signal } = controller;
  translations.choose(part, text, direction());
  showAgain(part, { part, place });
  try {
    await translations.assess(part, text, direction(), signal);
  } catch {
    return; // the words stay without marks
  }
  if (!signal.aborted && !popup.isOpen) showAgain(part, view.focused);
}

/** Shows the translation again after a sentence has changed, and gives a word the focus. */
function showAgain(part, focused) {
  for (const each of shown.parts) {
    if (each.kind === part.kind && each.text === part.text) each.translation = part.translation;
  }
  show(shown);
  if (focused) view.focus(focused.part, focused.place);
}

/** The translation becomes the text, unless it is of an older text; the text stands in grey where its translation will be. */
function swap() {
  const { text } = field;
  if (shown.parts.length && shown.input === text) {
    field.text = translatedText();
    show({ ...languages.chosen, parts: [{ kind: "copied", text, translation: { text } }], input: field.text });
    target.ariaBusy = "true";
  }
  translateSoon(0);
}

function translatedText() {
  return shown.parts.map(({ translation }) => translation.text).join("");
}

async function copyTranslation() {
  try {
    await navigator.clipboard.writeText(translatedText());
    say("Copied.");
  } catch {
    say("The browser does not let this page copy: select the translation and copy it.", true);
  }
}
