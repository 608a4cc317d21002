// Runs a copy of the page's worker with another translator, and prints what the worker sends for lines.
// Usage: node work.mjs WORKER, beside which lies translator.js; standard input has the lines as JSON.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

globalThis.self = globalThis;
globalThis.postMessage = (message) => {
  console.log(JSON.stringify(message));
  if (["done", "error"].includes(message.kind)) process.exit();
};
await import(pathToFileURL(process.argv[2]));
self.onmessage({ data: { id: 1, lines: JSON.parse(readFileSync(0, "utf-8")), beam: 1 } });
