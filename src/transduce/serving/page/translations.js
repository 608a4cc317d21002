// Translations of texts: a text is split into parts by the server, and only parts that are new are translated.

import { apiKey, ask } from "./server.js";

const MOST_KNOWN = 2000; // parts that are remembered from text to text
const BEAM = 10; // the most that the server searches for alternatives
const FEW = 3; // alternatives below which those that begin alike are shown too

/** Words as the server counts them: other white space is inside a word. */
const WORD = /[^ ▁]+/gu;

/** The places of the words of a text: `[{ text, start }]`. */
export function wordsOf(text) {
  return Array.from(text.matchAll(WORD), (match) => ({ text: match[0], start: match.index }));
}

/** Whether a translation goes on after a prefix with a new word, or with punctuation, and not within a word. */
function continues(text, prefix) {
  return text.startsWith(prefix) && (prefix === "" || !/^[\p{L}\p{M}\p{N}]/u.test(text.slice(prefix.length)));
}

export class Translations {
  #known = new Map();
  #settings;

  constructor(settings) {
    this.#settings = settings;
  }

  /**
   * The translation of a text: `{ source, target, detected, parts }`. A part has `text`, `kind` and `translation`:
   * `{ text, words, alignment, doubts, original }`, of which only `text` is always there.
   */
  async translate(text, { source, target }, signal, onWait) {
    this.#forgetOldest();
    const answer = await (await ask("v1/sentences", { text, source, target }, signal, onWait)).json();
    const direction = { source: answer.source, target: answer.target };
    for (const [kind, translate] of [["sentence", this.#lines], ["text", this.#texts]]) {
      const parts = answer.parts.filter((part) => part.kind === kind && !this.#known.has(keyOf(direction, part)));
      const texts = [...new Set(parts.map((part) => part.text))];
      for (let start = 0; start < texts.length; start += this.#settings.max_texts) {
        const some = texts.slice(start, start + this.#settings.max_texts);
        const translations = await translate.call(this, some, direction, signal, onWait);
        some.forEach((each, place) => this.#keep(direction, { kind, text: each }, translations[place]));
      }
    }
    const parts = answer.parts.map((part) => ({
      ...part,
      translation: part.kind === "copied" ? { text: part.text } : this.#known.get(keyOf(direction, part)),
    }));
    return { ...answer, parts };
  }

  /** Other translations of a sentence that begin with `prefix`, the best for each next word; more of them where few differ. */
  async alternatives(part, prefix, direction, signal, onWait) {
    const beginning = prefix.trimEnd();
    const body = { text: oneLine(part.text), prefix: beginning, n_best: BEAM, beam: BEAM, ...direction };
    const { lines } = await (await ask("v1/translate", body, signal, onWait)).json();
    const current = part.translation.text;
    const texts = lines[0].translations.map(({ text }) => text);
    const others = [...new Set(texts)].filter((text) => text !== current && continues(text, beginning));
    const next = (text) => wordsOf(text.slice(beginning.length))[0]?.text;
    const isFirst = (text, place) => others.findIndex((other) => next(other) === next(text)) === place;
    const isOther = (text) => next(text) !== next(current);
    const different = others.filter((text, place) => isFirst(text, place) && isOther(text));
    return [...different, ...others.filter((text) => !different.includes(text)).slice(0, Math.max(0, FEW - different.length))];
  }

  /** Makes `text` the translation of a sentence. */
  choose(part, text, direction) {
    const original = part.translation.original ?? part.translation;
    this.#keep(direction, part, text === original.text ? original : { text, original });
  }

  /** Takes back what was chosen for a sentence. */
  undo(part, direction) {
    this.#keep(direction, part, part.translation.original);
  }

  /** Asks for the probabilities and the alignment of a chosen translation; it may lack them. */
  async assess(part, text, direction, signal) {
    const [assessed] = await this.#lines([part.text], direction, signal, () => {}, text);
    const known = this.#known.get(keyOf(direction, part));
    if (assessed.text === text && known?.text === text) this.#keep(direction, part, { ...assessed, original: known.original });
  }

  async #lines(texts, direction, signal, onWait, prefix) {
    const able = this.#settings.directions.find(
      ({ source, target }) => source.code === direction.source && target.code === direction.target,
    );
    const body = { text: texts.map(oneLine), words: true, alignments: able.alignments, confidence: able.confidence };
    if (prefix !== undefined) body.prefix = [prefix];
    const { lines } = await (await ask("v1/translate", { ...body, ...direction }, signal, onWait)).json();
    return lines.map(({ translations, words, alignment, doubts }) => ({
      text: translations[0].text,
      words,
      alignment: alignment?.split(" ").filter(Boolean).map((pair) => pair.split("-").map(Number)),
      doubts,
    }));
  }

  async #texts(texts, direction, signal, onWait) {
    const body = { q: texts, ...direction, ...(apiKey() && { api_key: apiKey() }) };
    const { translatedText } = await (await ask("translate", body, signal, onWait)).json();
    return translatedText.map((text) => ({ text }));
  }

  #keep(direction, part, translation) {
    const key = keyOf(direction, part);
    this.#known.delete(key); // so that it is the newest
    this.#known.set(key, translation);
    part.translation = translation;
  }

  #forgetOldest() {
    for (const key of this.#known.keys()) {
      if (this.#known.size <= MOST_KNOWN) return;
      this.#known.delete(key);
    }
  }
}

function keyOf({ source, target }, { kind, text }) {
  return JSON.stringify([source, target, kind, text]);
}

/** A sentence as a model reads it; every character keeps its place. */
export function oneLine(text) {
  return text.replace(/[\t\r\n]/g, " ");
}
