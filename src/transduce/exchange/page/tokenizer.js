// Text to tokens and back, from a `tokenizer.json`: BPE or WordPiece over the bytes of UTF-8.

const CONTINUES = "‿"; // before subwords of WordPiece that continue a word

/** The letter of each byte in a `tokenizer.json`: GPT-2's alphabet of visible letters. */
function byteLetters() {
  const visible = (code) => (code >= 0x21 && code < 0x7f) || (code >= 0xa1 && code < 0xad) || (code >= 0xae && code < 0x100);
  let substitute = 0x100;
  return Array.from({ length: 0x100 }, (_, code) => String.fromCodePoint(visible(code) ? code : substitute++));
}

const LETTERS = byteLetters();
const BYTES = new Map(LETTERS.map((letter, code) => [letter, code]));

/** White space is Unicode's here and in the tokenizer's regular expressions, but not quite in JavaScript's "\\s". */
function regularExpression(pattern) {
  const portable = pattern.replaceAll("\\s", "\\p{White_Space}").replaceAll("\\S", "\\P{White_Space}");
  return new RegExp(portable, "gu");
}

/** The rules of a file's normaliser; `Prepend` is left to `encode`, which puts a space before a text. */
function rulesOf(description) {
  const rules = description.type === "Sequence" ? description.normalizers : [description];
  return rules.filter((rule) => rule.type !== "Prepend");
}

/** A rule as a function of text. */
function asFunction(rule) {
  switch (rule.type) {
    case "Replace": {
      const pattern = rule.pattern.String ?? regularExpression(rule.pattern.Regex);
      return (text) => text.replaceAll(pattern, rule.content);
    }
    case "NFC":
      return (text) => text.normalize("NFC");
    case "Strip":
      return (text) => text.replace(/^\p{White_Space}+|\p{White_Space}+$/gu, "");
    default:
      throw new Error(`The tokenizer has a rule that this page does not know: ${rule.type}`);
  }
}

export class Tokenizer {
  /** Takes the content of a `tokenizer.json`, and the tokens of the symbols, which no text has. */
  constructor(description, symbols) {
    const model = description.model;
    this.tokens = new Map(Object.entries(model.vocab));
    this.subwords = [];
    for (const [subword, token] of this.tokens) this.subwords[token] = subword;
    this.symbols = new Set(symbols);
    const merges = (model.merges ?? []).map((merge) => (typeof merge === "string" ? merge : merge.join(" ")));
    this.ranks = model.type === "BPE" ? new Map(merges.map((merge, rank) => [merge, rank])) : null;
    this.words = regularExpression(description.pre_tokenizer.pretokenizers[0].pattern.Regex);
    const rules = rulesOf(description.normalizer);
    this.rules = rules.map(asFunction);
    // A target has these rules alone, which change no white space within a text.
    this.rulesOfCopies = rules.filter((rule) => rule.type !== "Replace" || rule.content === "").map(asFunction);
    this.cache = new Map();
  }

  /** Returns the tokens of a text, without symbols. The encoder of bytes makes half a surrogate pair U+FFFD. */
  encode(text) {
    const normal = this.rules.reduce((changed, rule) => rule(changed), text);
    return normal === "" ? [] : ` ${normal}`.match(this.words).flatMap((word) => this.encodeWord(word));
  }

  /** Returns the text that stands for one without anything to translate: without what cannot be seen. */
  copy(text) {
    return this.rulesOfCopies.reduce((changed, rule) => rule(changed), text);
  }

  encodeWord(word) {
    let tokens = this.cache.get(word);
    if (tokens === undefined) {
      const letters = Array.from(new TextEncoder().encode(word), (code) => LETTERS[code]);
      const subwords = this.ranks ? this.merge(letters) : this.split(letters.join(""));
      tokens = subwords.map((subword) => this.tokens.get(subword));
      if (this.cache.size > 50_000) this.cache.clear();
      this.cache.set(word, tokens);
    }
    return tokens;
  }

  /** BPE: joins the pair of neighbours that was learned first, again and again. */
  merge(subwords) {
    for (;;) {
      let best = Infinity;
      let place = -1;
      for (let i = 0; i + 1 < subwords.length; i++) {
        const rank = this.ranks.get(`${subwords[i]} ${subwords[i + 1]}`);
        if (rank < best) [best, place] = [rank, i];
      }
      if (place < 0) return subwords;
      subwords.splice(place, 2, subwords[place] + subwords[place + 1]);
    }
  }

  /** WordPiece: takes the longest subword from the left, again and again. */
  split(word) {
    const subwords = [];
    for (let start = 0; start < word.length; ) {
      const prefix = start ? CONTINUES : "";
      let stop = word.length;
      while (!this.tokens.has(prefix + word.slice(start, stop))) stop--;
      subwords.push(prefix + word.slice(start, stop));
      start = stop;
    }
    return subwords;
  }

  /** Returns the text of tokens; bytes that make no UTF-8 become U+FFFD. */
  decode(tokens) {
    const subwords = tokens.filter((token) => !this.symbols.has(token)).map((token) => this.subwords[token]);
    const letters = Array.from(subwords.join("").replaceAll(CONTINUES, ""));
    const bytes = Uint8Array.from(letters, (letter) => BYTES.get(letter));
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes).replace(/^ /, "");
  }
}
