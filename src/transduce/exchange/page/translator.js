// A translation model in the browser: its files, its graphs in onnxruntime-web, and lines of text in and out.

import * as ort from "./runtime/ort.wasm.bundle.min.mjs";
import { search } from "./search.js";
import { Tokenizer } from "./tokenizer.js";

const HERE = new URL(".", import.meta.url);
const ADDRESS = /^[(<["'“„«]*(?:https?:\/\/|www\.)|^[^@]+@.*\./u;

/** A line has text to translate if it has a letter outside of URLs and e-mail addresses; other lines are copied. */
function hasTextToTranslate(line) {
  return line.split(/[\p{White_Space}\x1c-\x1f]+/u).some((word) => /\p{L}/u.test(word) && !ADDRESS.test(word));
}

ort.env.wasm.wasmPaths = { wasm: new URL("runtime/ort-wasm-simd-threaded.wasm", HERE).href };
ort.env.wasm.numThreads = 1; // threads need headers that a plain file server does not send

/** Returns the bytes of a file; calls `progress` with the bytes so far. */
async function download(name, progress = () => {}) {
  const response = await fetch(new URL(name, HERE));
  if (!response.ok) throw new Error(`${name} cannot be loaded (HTTP ${response.status})`);
  const chunks = [];
  let size = 0;
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value);
    progress((size += value.length));
  }
  return new Uint8Array(await new Blob(chunks).arrayBuffer());
}

async function downloadJson(name) {
  return JSON.parse(new TextDecoder().decode(await download(name)));
}

/** A line that is longer than the model translates; the message is the end of a sentence about the line. */
export class LongLineError extends Error {}

export class Translator {
  /** Loads the model beside this file; calls `progress` with the loaded part of it, from 0 to 1. */
  static async load(progress) {
    const settings = await downloadJson("page.json");
    const loaded = settings.graphs.map(() => 0);
    const sizes = settings.graphs.map((graph) => graph.bytes);
    const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
    const sessions = settings.graphs.map(async (graph, place) => {
      const bytes = await download(graph.file, (size) => {
        loaded[place] = size;
        progress(sum(loaded) / sum(sizes));
      });
      return ort.InferenceSession.create(bytes, { executionProviders: ["wasm"] });
    });
    const tokenizers = settings.tokenizers.map(async (file) => new Tokenizer(await downloadJson(file), Object.values(settings.symbols)));
    const [encoder, decoder] = await Promise.all(sessions);
    const [source, target] = await Promise.all(tokenizers);
    return new Translator(settings, { encoder, decoder }, { source, target: target ?? source });
  }

  constructor(settings, sessions, tokenizers) {
    Object.assign(this, { settings, sessions, tokenizers });
  }

  /** Returns the translation of one line; null where `breathe` resolves to false before it ends. Throws LongLineError. */
  async translate(line, beam, breathe) {
    if (!hasTextToTranslate(line)) return this.tokenizers.source.copy(line).replaceAll("\n", " ");
    const { symbols, decoding, rules, max_tokens: most } = this.settings;
    const source = this.tokenizers.source.encode(line);
    if (source.length > most) {
      throw new LongLineError(`has ${source.length.toLocaleString("en")} subwords, and this model translates at most ${most.toLocaleString("en")}: split the line.`);
    }
    const problem = {
      beam,
      alpha: decoding.length_penalty,
      bound: Math.min(source.length + 1 + decoding.extra_length, most + 1),
      begin: symbols.begin,
      end: symbols.end,
      banned: rules.banned,
      bannedFirst: rules.banned_first,
    };
    let wanted = true;
    const stepper = await Stepper.start(this.sessions, [...source, symbols.end]);
    const tokens = await search(stepper, problem, async () => (wanted = await breathe()));
    return wanted ? this.tokenizers.target.decode(tokens).replaceAll("\n", " ") : null;
  }
}

/** The decoder of one sentence: rows of hypotheses, each with its key-value cache. */
class Stepper {
  static async start({ encoder, decoder }, source) {
    const mask = new ort.Tensor("int64", new BigInt64Array(source.length).fill(1n), [1, source.length]);
    const ids = new ort.Tensor("int64", BigInt64Array.from(source, BigInt), [1, source.length]);
    const { last_hidden_state: encoded } = await encoder.run({ input_ids: ids, attention_mask: mask });
    return new Stepper(decoder, encoded, mask);
  }

  constructor(decoder, encoded, mask) {
    Object.assign(this, { decoder, encoded, mask });
    this.cache = {};
    for (const { name, shape } of decoder.inputMetadata) {
      if (name.startsWith("past_key_values.")) {
        const dimensions = [1, ...shape.slice(1).map((size) => (typeof size === "number" ? size : 0))];
        this.cache[name] = new ort.Tensor("float32", new Float32Array(0), dimensions);
      }
    }
  }

  /** Appends a token to each row; resolves to the logits of each row. */
  async step(tokens) {
    const outputs = await this.decoder.run({
      ...this.cache,
      input_ids: new ort.Tensor("int64", BigInt64Array.from(tokens, BigInt), [tokens.length, 1]),
      encoder_hidden_states: this.encoded,
      encoder_attention_mask: this.mask,
    });
    for (const name of Object.keys(this.cache)) {
      this.cache[name] = outputs[name.replace("past_key_values", "present")];
    }
    // The cache now has the keys and values of the source.
    this.encoded = new ort.Tensor("float32", new Float32Array(0), [tokens.length, 0, this.encoded.dims[2]]);
    const size = outputs.logits.dims[2];
    return tokens.map((_, row) => outputs.logits.data.subarray(row * size, (row + 1) * size));
  }

  /** Keeps rows, in the order given; a row may be kept more than once. */
  pick(rows) {
    if (rows.length === this.mask.dims[0] && rows.every((row, place) => row === place)) return;
    this.mask = pickRows(this.mask, rows);
    this.encoded = pickRows(this.encoded, rows);
    for (const name of Object.keys(this.cache)) this.cache[name] = pickRows(this.cache[name], rows);
  }
}

/** Returns a tensor of the chosen rows. */
function pickRows(tensor, rows) {
  const [count, ...shape] = tensor.dims;
  const size = tensor.data.length / count;
  const data = new tensor.data.constructor(rows.length * size);
  rows.forEach((row, place) => data.set(tensor.data.subarray(row * size, (row + 1) * size), place * size));
  return new ort.Tensor(tensor.type, data, [rows.length, ...shape]);
}
