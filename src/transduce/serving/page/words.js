// The translation on the page: each word of a sentence can be focused and chosen; doubtful words are marked.

import { wordsOf } from "./translations.js";

const DOUBTFUL = 0.5;
const VERY_DOUBTFUL = 0.2;

/** Shows translations in an element. `onPoint(word)` hears which word is pointed at, `onChoose(word)` which is chosen. */
export class WordView {
  #element;
  #words = new Map(); // of each word's element: { part, place, start }

  constructor(element, onPoint, onChoose) {
    this.#element = element;
    const point = (event) => onPoint(this.#words.get(event.target));
    for (const kind of ["focusin", "pointerover"]) element.addEventListener(kind, point);
    for (const kind of ["focusout", "pointerleave"]) element.addEventListener(kind, () => onPoint(undefined));
    element.addEventListener("click", ({ target }) => {
      const isSelecting = getSelection().toString() !== "";
      if (this.#words.has(target) && !isSelecting) this.#choose(target, onChoose);
    });
    element.addEventListener("keydown", (event) => {
      if (!this.#words.has(event.target)) return;
      if (event.key === "Enter" || event.key === " ") this.#choose(event.target, onChoose);
      else if (!this.#move(event)) return;
      event.preventDefault();
    });
  }

  /** Shows the parts of a text, a paragraph a line. */
  show(parts) {
    this.#words.clear();
    const paragraphs = [paragraph()];
    for (const part of parts) {
      const lines = part.kind === "sentence" ? [this.#sentence(part)] : part.translation.text.split("\n");
      paragraphs.at(-1).append(lines[0]);
      for (const line of lines.slice(1)) {
        paragraphs.push(paragraph());
        paragraphs.at(-1).append(line);
      }
    }
    this.#element.replaceChildren(...(parts.length ? paragraphs : []));
    this.#element.querySelector(".word")?.setAttribute("tabindex", "0");
  }

  get hasDoubts() {
    return this.#element.querySelector(".doubtful, .very-doubtful") !== null;
  }

  /** Whether half of the words are doubtful, of two words and more. */
  get isMostlyDoubtful() {
    const doubtful = this.#element.querySelectorAll(".doubtful, .very-doubtful").length;
    return this.#words.size >= 2 && 2 * doubtful >= this.#words.size;
  }

  /** The word that has the focus, if any. */
  get focused() {
    return this.#words.get(document.activeElement);
  }

  /** Focuses the word of a part at a place, or the last word before it. */
  focus(part, place) {
    const fitting = [...this.#words].filter(([, word]) => word.part === part && word.place <= place);
    if (fitting.length) this.#focus(fitting.at(-1)[0]);
  }

  #sentence(part) {
    const { text, words } = part.translation;
    const places = wordsOf(text);
    const hasProbabilities = words?.length === places.length;
    const sentence = document.createElement("span");
    let end = 0;
    places.forEach(({ text: word, start }, place) => {
      const element = document.createElement("span");
      element.className = "word";
      element.role = "button";
      element.tabIndex = -1;
      element.ariaHasPopup = "dialog";
      element.textContent = word;
      if (hasProbabilities) mark(element, words[place][1]);
      this.#words.set(element, { part, place, start, element });
      sentence.append(text.slice(end, start), element);
      end = start + word.length;
    });
    sentence.append(text.slice(end));
    return sentence;
  }

  #choose(element, onChoose) {
    this.#focus(element);
    onChoose(this.#words.get(element));
  }

  /** Moves the focus as the key says; returns whether it says anything. */
  #move({ key, target }) {
    const words = [...this.#words.keys()];
    const place = words.indexOf(target);
    const forward = getComputedStyle(target).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
    const moves = { ArrowLeft: place - 1, ArrowRight: place - 1, [forward]: place + 1, Home: 0, End: words.length - 1 };
    if (!(key in moves)) return false;
    this.#focus(words[Math.min(Math.max(moves[key], 0), words.length - 1)]);
    return true;
  }

  #focus(element) {
    this.#element.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
    element.tabIndex = 0;
    element.focus();
  }
}

function paragraph() {
  const element = document.createElement("p");
  element.dir = "auto";
  return element;
}

/** Marks a word whose probability is low; the words of the mark are its description. */
function mark(element, probability) {
  if (probability >= DOUBTFUL) return;
  element.classList.add(probability < VERY_DOUBTFUL ? "very-doubtful" : "doubtful");
  element.title = `Probability ${Math.round(100 * probability)} %`;
}
