// Documents: one is chosen or dropped on the page, sent, and its translation fetched.

import { apiKey } from "./server.js";

const [panel, note, progress, download, end] = ["document", "document-note", "document-progress", "download", "end-document"].map((id) =>
  document.getElementById(id),
);
const file = document.getElementById("file");

/** Lets the reader translate documents; `direction()` has the codes that are chosen, `suffixes` the formats. */
export function listenForDocuments(direction, suffixes) {
  let request = new XMLHttpRequest();
  file.accept = suffixes.join(",");
  const begin = (chosen) => {
    request.abort();
    if (chosen) request = send(chosen, direction(), suffixes);
  };
  file.addEventListener("change", () => {
    begin(file.files[0]);
    file.value = ""; // so that the same file can be chosen again
  });
  end.addEventListener("click", () => {
    request.abort();
    panel.hidden = true;
    file.focus();
  });
  addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  addEventListener("dragleave", ({ relatedTarget }) => {
    if (!relatedTarget) document.body.classList.remove("dropping");
  });
  addEventListener("drop", (event) => {
    document.body.classList.remove("dropping");
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    begin(event.dataTransfer.files[0]);
  });
}

/** Sends a document and shows how far it is; returns the request. A XMLHttpRequest, because it counts what was sent. */
function send(chosen, { source, target }, suffixes) {
  const request = new XMLHttpRequest();
  const began = Date.now();
  let timer;
  const say = (text, isFault = false) => {
    note.textContent = text;
    note.classList.toggle("fault", isFault);
  };
  const finish = (text, isFault) => {
    clearInterval(timer);
    progress.hidden = true;
    end.textContent = "Close";
    say(text, isFault);
  };
  panel.hidden = false;
  progress.hidden = false;
  download.hidden = true;
  end.textContent = "Cancel";
  panel.scrollIntoView({ block: "nearest" });
  const suffix = /\.[^.]*$/.exec(chosen.name)?.[0].toLowerCase() ?? "";
  if (!suffixes.includes(suffix)) {
    finish(`${chosen.name} cannot be read: documents are ${suffixes.join(", ")}.`, true);
    return request;
  }
  say(`Sending ${chosen.name}…`);
  progress.value = 0;
  request.upload.addEventListener("progress", ({ loaded, total }) => {
    progress.value = loaded / total;
  });
  request.upload.addEventListener("load", () => {
    progress.removeAttribute("value");
    const show = () => say(`Translating ${chosen.name}: ${Math.round((Date.now() - began) / 1000)} s`);
    show();
    timer = setInterval(show, 1000);
  });
  request.addEventListener("abort", () => clearInterval(timer));
  request.addEventListener("error", () => finish("The server cannot be reached.", true));
  request.addEventListener("load", () => {
    const answer = request.response ?? {};
    if (request.status !== 200) {
      finish(answer.error ?? `The server answered with status ${request.status}.`, true);
      return;
    }
    // The address that the server knows of itself may not be that of the page; the secret is its last part.
    download.href = `download_file/${answer.translatedFileUrl.split("/").at(-1)}`;
    download.hidden = false;
    finish(`${chosen.name} is translated.`, false);
    download.focus();
  });
  const form = new FormData();
  for (const [name, value] of Object.entries({ source, target, api_key: apiKey(), file: chosen })) {
    if (value !== "") form.append(name, value);
  }
  request.open("POST", "translate_file");
  request.responseType = "json";
  request.send(form);
  return request;
}
