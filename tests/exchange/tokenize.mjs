// Encodes and decodes with the page's tokenizer: `node tokenize.mjs TOKENIZER.mjs tokenizer.json < request > answer`.

import fs from "node:fs";
import { pathToFileURL } from "node:url";

const [module, description] = process.argv.slice(2);
const { Tokenizer } = await import(pathToFileURL(module));
const tokenizer = new Tokenizer(JSON.parse(fs.readFileSync(description, "utf-8")), [0, 1, 2]);
const { texts, rows } = JSON.parse(fs.readFileSync(0, "utf-8"));
const answer = {
  rows: texts.map((text) => tokenizer.encode(text)),
  texts: rows.map((row) => tokenizer.decode(row)),
  copies: texts.map((text) => tokenizer.copy(text)),
};
process.stdout.write(JSON.stringify(answer));
