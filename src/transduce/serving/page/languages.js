// The choice of the languages: what the server translates, detection where there are several sources, and the swap.

export const AUTO = "auto";

export class LanguageChoice {
  #source = document.getElementById("source-language");
  #target = document.getElementById("target-language");
  #swap = document.getElementById("swap");
  #directions;
  #detected; // the code of the language that was detected last

  /** `onChange` is called when the reader chooses a language, `onSwap` after the languages were swapped. */
  constructor(directions, onChange, onSwap) {
    this.#directions = directions;
    const sources = namesOf(directions.map(({ source }) => source));
    const options = Array.from(sources, ([code, name]) => new Option(name, code));
    if (sources.size > 1) options.unshift(new Option("Detect language", AUTO));
    this.#source.replaceChildren(...options);
    this.#source.value = directions[0].source.code;
    this.#listTargets(directions[0].target.code);
    this.#source.addEventListener("change", () => {
      this.showDetected(undefined);
      this.#listTargets(this.#target.value);
      onChange();
    });
    this.#target.addEventListener("change", () => {
      this.#update();
      onChange();
    });
    this.#swap.addEventListener("click", () => {
      const [source, target] = [this.#target.value, this.#language];
      this.showDetected(undefined);
      this.#source.value = source;
      this.#listTargets(target);
      onSwap();
    });
  }

  /** The chosen codes; the source may be AUTO. */
  get chosen() {
    return { source: this.#source.value, target: this.#target.value };
  }

  /** The English name of a language. */
  nameOf(code) {
    return namesOf(this.#directions.flatMap(({ source, target }) => [source, target])).get(code) ?? code;
  }

  /** Shows which language was detected; undefined: none. */
  showDetected(code) {
    this.#detected = code;
    const option = this.#source.querySelector(`[value=${AUTO}]`);
    if (option) option.textContent = code ? `${this.nameOf(code)} (detected)` : "Detect language";
    this.#update();
  }

  get #language() {
    return this.#source.value === AUTO ? this.#detected : this.#source.value;
  }

  /** Lists the languages into which the source is translated; keeps `code` where it is one of them. */
  #listTargets(code) {
    const source = this.#source.value;
    const fitting = this.#directions.filter((direction) => source === AUTO || direction.source.code === source);
    const targets = namesOf(fitting.map(({ target }) => target));
    this.#target.replaceChildren(...Array.from(targets, ([each, name]) => new Option(name, each)));
    if (targets.has(code)) this.#target.value = code;
    this.#update();
  }

  #update() {
    const [from, to] = [this.#target.value, this.#language];
    this.#swap.disabled = !this.#directions.some(({ source, target }) => source.code === from && target.code === to);
  }
}

/** Names by code, in alphabetical order of the names. */
function namesOf(languages) {
  return new Map(languages.map(({ code, name }) => [code, name]).sort(([, left], [, right]) => left.localeCompare(right)));
}
