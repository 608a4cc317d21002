// The worker: translates the newest request, so that the page stays responsive.

import { LongLineError, Translator } from "./translator.js";

const translated = new Map(); // of lines, by beam size and line
const channel = new MessageChannel();
let newest = 0;

/** Resolves after pending messages have been received: to whether request `id` is still the newest one. */
function breathe(id) {
  return new Promise((resolve) => {
    channel.port1.onmessage = () => resolve(id === newest);
    channel.port2.postMessage(null);
  });
}

async function translateLine(translator, line, { id, beam }) {
  const key = `${beam} ${line}`;
  if (!translated.has(key)) {
    const text = await translator.translate(line, beam, () => breathe(id));
    if (text === null) return null;
    if (translated.size > 1000) translated.clear();
    translated.set(key, text);
  }
  return translated.get(key);
}

/** Translates the lines of a request; a line that is too long stays empty, and is named at the end. */
async function answer(translator, request) {
  const started = performance.now();
  let fault = null;
  for (const [place, line] of request.lines.entries()) {
    let text = "";
    try {
      text = await translateLine(translator, line, request);
    } catch (error) {
      if (!(error instanceof LongLineError)) throw error;
      fault ??= `Line ${place + 1} ${error.message}`;
    }
    if (text === null || request.id !== newest) return;
    postMessage({ kind: "line", id: request.id, place, text });
  }
  if (fault) fail(fault, request.id);
  else postMessage({ kind: "done", id: request.id, milliseconds: performance.now() - started });
}

function fail(error, id = null) {
  postMessage({ kind: "error", id, message: error instanceof Error ? error.message : String(error) });
}

try {
  const translator = await Translator.load((part) => postMessage({ kind: "progress", part }));
  let last = Promise.resolve();
  self.onmessage = ({ data }) => {
    newest = data.id;
    last = last.then(() => answer(translator, data)).catch((error) => fail(error, data.id));
  };
  postMessage({ kind: "ready" });
} catch (error) {
  fail(error);
}
