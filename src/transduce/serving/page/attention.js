// The picture of the attention of a sentence, in a dialog. The picture runs in a frame that reaches nothing.

import { ask } from "./server.js";

const dialog = document.getElementById("attention");
const note = document.getElementById("attention-note");
const frame = document.getElementById("picture");
let controller = new AbortController();

document.getElementById("close-attention").addEventListener("click", () => dialog.close());
dialog.addEventListener("close", () => {
  controller.abort();
  frame.hidden = true;
  frame.removeAttribute("src");
});

/** Opens the dialog with the picture of a sentence and its translation; calls `onClose` when it is closed. */
export async function showAttention(text, translation, direction, onClose) {
  controller = new AbortController();
  dialog.addEventListener("close", onClose, { once: true });
  const { signal } = controller;
  say("Drawing…");
  dialog.showModal();
  try {
    const picture = await (await ask("v1/attention", { text, translation, ...direction }, signal, say)).text();
    frame.onload = () => {
      frame.onload = null; // the picture itself loads too
      frame.contentWindow.postMessage(picture, "*"); // the frame has no origin that could be named
    };
    frame.src = "page/frame.html";
    frame.hidden = false;
    say("");
  } catch (error) {
    if (!signal.aborted) say(error.message);
  }
}

function say(text) {
  note.textContent = text;
  note.hidden = text === "";
}
