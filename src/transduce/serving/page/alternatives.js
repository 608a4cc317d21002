// The list of alternatives at a word of the translation.

import { wordsOf } from "./translations.js";

const MOST_SHOWN = 6;

export class AlternativesPopup {
  #popup = document.getElementById("popup");
  #title = document.getElementById("popup-title");
  #list = document.getElementById("alternatives");
  #note = document.getElementById("popup-note");
  #undo = document.getElementById("undo");
  #explain = document.getElementById("explain");
  #word; // for which the popup is open
  #handlers;
  #controller = new AbortController();

  /** `handlers` has `find(word, signal, onWait)`, `choose(word, text)`, `undo(word)`, `explain(word)`, `close(word)`. */
  constructor(handlers) {
    this.#handlers = handlers;
    this.#popup.addEventListener("keydown", (event) => this.#onKey(event));
    this.#list.addEventListener("click", ({ target }) => this.#choose(target.closest("[role=option]")));
    this.#undo.addEventListener("click", () => this.#finish((word) => handlers.undo(word)));
    this.#explain.addEventListener("click", () => this.#finish((word) => handlers.explain(word)));
    document.addEventListener("pointerdown", ({ target }) => {
      if (!this.#popup.contains(target)) this.close();
    });
    this.#popup.addEventListener("focusout", ({ relatedTarget }) => {
      if (relatedTarget && !this.#popup.contains(relatedTarget)) this.close();
    });
    addEventListener("resize", () => this.#place());
  }

  get isOpen() {
    return !this.#popup.hidden;
  }

  /** Opens at a word, and shows its alternatives when they are there. */
  async open(word, canExplain) {
    this.close();
    this.#word = word;
    this.#controller = new AbortController();
    const { signal } = this.#controller;
    this.#title.textContent = `Alternatives from “${word.element.textContent}” on`;
    this.#list.replaceChildren();
    this.#list.hidden = true;
    this.#undo.hidden = !word.part.translation.original;
    this.#explain.hidden = !canExplain;
    this.#say("Searching…");
    this.#popup.hidden = false;
    word.element.classList.add("chosen");
    this.#place();
    this.#popup.focus();
    try {
      const texts = await this.#handlers.find(word, signal, (message) => this.#say(message));
      this.#show(texts.slice(0, MOST_SHOWN));
    } catch (error) {
      if (!signal.aborted) this.#say(error.message);
    }
    if (signal.aborted) return;
    this.#place();
    this.#popup.scrollIntoView({ block: "nearest" });
  }

  /** Closes the popup; the focus stays where it is. */
  close() {
    this.#controller.abort();
    this.#word?.element.classList.remove("chosen");
    this.#word = undefined;
    this.#popup.hidden = true;
  }

  #show(texts) {
    this.#say(texts.length ? "" : "The model has no other translation from here on.");
    const current = this.#word.part.translation.text;
    const start = current.slice(0, this.#word.start).trimEnd().length;
    const options = texts.map((text) => option(text, current, start));
    options[0]?.setAttribute("tabindex", "0");
    this.#list.replaceChildren(...options);
    this.#list.hidden = texts.length === 0;
    if (this.#popup.contains(document.activeElement)) options[0]?.focus();
  }

  #say(text) {
    this.#note.textContent = text;
    this.#note.hidden = text === "";
  }

  #choose(element) {
    if (element) this.#finish((word) => this.#handlers.choose(word, element.dataset.text));
  }

  /** Closes the popup, and does something with its word. */
  #finish(act) {
    const word = this.#word;
    this.close();
    act(word);
  }

  #onKey(event) {
    const options = [...this.#list.children];
    const place = options.indexOf(event.target);
    const last = options.length - 1;
    const moves = { ArrowDown: Math.min(place + 1, last), ArrowUp: Math.max(place - 1, 0), Home: 0, End: last };
    if (event.key === "Escape") this.#finish((word) => this.#handlers.close(word));
    else if (place >= 0 && (event.key === "Enter" || event.key === " ")) this.#choose(event.target);
    else if (options.length && event.key in moves) options[moves[event.key]].focus();
    else return;
    event.preventDefault();
  }

  /** Places the popup under its word, within the columns. */
  #place() {
    if (!this.#word) return;
    const word = this.#word.element.getBoundingClientRect();
    const page = document.querySelector("main").getBoundingClientRect();
    const left = Math.max(page.left, Math.min(word.left, page.right - this.#popup.offsetWidth));
    this.#popup.style.left = `${scrollX + left}px`;
    this.#popup.style.top = `${scrollY + word.bottom + 6}px`;
  }
}

/** An option: the translation from a place on, with the first word in bold that the current translation has not. */
function option(text, current, start) {
  const element = document.createElement("div");
  element.role = "option";
  element.tabIndex = -1;
  element.dir = "auto";
  element.dataset.text = text;
  const words = wordsOf(current);
  const other = wordsOf(text).find((word, place) => word.text !== words[place]?.text);
  if (other) {
    const strong = document.createElement("b");
    strong.textContent = other.text;
    const end = other.start + other.text.length;
    element.append(text.slice(start, other.start).trimStart(), strong, text.slice(end));
  } else {
    element.append(`${text.slice(start).trimStart()} (and no more)`);
  }
  return element;
}
