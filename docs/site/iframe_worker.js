// The search of a page that was opened as a file: browsers refuse workers there, so a hidden frame runs the script.
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.window = frame.contentWindow;
      this.loaded = new Promise((done) => (frame.onload = done));
      this.window.document.open();
      this.window.document.write(
        `<script>var postMessage = (data) => parent.postMessage(data, "*");</script><script src="${address}"></script>`
      );
      this.window.document.close();
      addEventListener("message", ({ source, data }) => {
        if (source === this.window) this.dispatchEvent(new MessageEvent("message", { data }));
      });
    }

    postMessage(data) {
      this.loaded.then(() => this.window.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
