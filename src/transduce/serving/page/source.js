// The field of the text: it grows with its text, and words are highlighted behind it.

import { oneLine, wordsOf } from "./translations.js";

export class SourceField {
  #area = document.getElementById("source");
  #backdrop = document.getElementById("backdrop");

  constructor(onInput) {
    this.#area.addEventListener("input", () => {
      this.clearHighlight();
      onInput();
    });
    this.clearHighlight();
  }

  get text() {
    return this.#area.value;
  }

  set text(text) {
    this.#area.value = text;
    this.clearHighlight();
  }

  set language(code) {
    this.#area.lang = code;
  }

  focus() {
    this.#area.focus();
  }

  /** Highlights words of a part of the text, by their places in the part. */
  highlight(parts, part, places) {
    this.clearHighlight();
    let start = 0;
    for (const each of parts) {
      const found = this.text.indexOf(each.text, start);
      const words = wordsOf(oneLine(each.text));
      if (each === part && found >= 0) this.#mark(found, words.filter((_, place) => places.includes(place)));
      if (each.kind !== "copied" && found >= 0) start = found + each.text.length;
    }
  }

  clearHighlight() {
    this.#backdrop.replaceChildren(`${this.text}\n`);
  }

  #mark(offset, words) {
    const nodes = [];
    let end = 0;
    for (const { text, start } of words) {
      const mark = document.createElement("mark");
      mark.textContent = text;
      nodes.push(this.text.slice(end, offset + start), mark);
      end = offset + start + text.length;
    }
    this.#backdrop.replaceChildren(...nodes, `${this.text.slice(end)}\n`);
  }
}
