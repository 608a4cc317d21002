"""Drives a headless Chromium by the DevTools protocol over a pipe: no driver, no network but a local file server."""

import base64
import functools
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

# The network is cut: no name has an address, and what asks for another host fails and is recorded.
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-component-update "
    "--disable-background-networking --disable-sync --disable-extensions --hide-scrollbars --disable-dev-shm-usage "
    "--host-resolver-rules=MAP\t*\t~NOTFOUND\t,\tEXCLUDE\t127.0.0.1"
)

# Codes of keys, and the text that they write.
KEYS = {
    "Enter": (13, "\r"),
    "Escape": (27, ""),
    "Space": (32, " "),
    "Tab": (9, ""),
    "End": (35, ""),
    "Home": (36, ""),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
}


class Page:
    """A page of the browser."""

    def __init__(self, to_browser: int, from_browser: BinaryIO) -> None:
        self._to, self._from, self._number = to_browser, from_browser, 0
        self._session: str | None = None
        self.requests: list[str] = []
        self.messages: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Returns the result of a command."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._to, json.dumps(command).encode() + b"\0")
        while (message := self._receive()).get("id") != self._number:
            self._record(message)
        assert "error" not in message, (method, message["error"])
        return message["result"]

    def evaluate(self, expression: str) -> Any:
        """Returns the value of a JavaScript expression, which may be a promise."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def open(self, address: str) -> None:
        """Opens an address, and returns when the page has loaded."""
        self.call("Page.navigate", url=address)
        self.evaluate(
            "new Promise((done) => document.readyState === 'complete' ? done() : addEventListener('load', done))"
        )

    def write(self, text: str) -> None:
        """Writes text into the focused element, as a keyboard or a clipboard does."""
        self.call("Input.insertText", text=text)

    def press(self, key: str, *, shift: bool = False) -> None:
        """Presses a key of the keyboard, such as Tab or Enter."""
        code, text = KEYS.get(key, (0, ""))
        event = {
            "key": text if key == "Space" else key,
            "code": key,
            "windowsVirtualKeyCode": code,
            "modifiers": 8 * shift,
        }
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def click(self, expression: str) -> None:
        """Clicks in the middle of an element, which an expression returns."""
        x, y = self.point(expression)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def point(self, expression: str) -> tuple[float, float]:
        """Moves the mouse to the middle of an element, which an expression returns; returns the place."""
        x, y = self.evaluate(
            "((element) => { element.scrollIntoView({ block: 'nearest' }); const box = element.getBoundingClientRect();"
            f" return [box.x + box.width / 2, box.y + box.height / 2]; }})({expression})"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return x, y

    def look(self, width: int, height: int, path: Path, *, scheme: str = "light") -> None:
        """Saves a picture of the page in a window of this size, light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        picture = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(picture["data"]))

    def _receive(self) -> dict[str, Any]:
        content = bytearray()
        while (byte := self._from.read(1)) != b"\0":
            assert byte, "Chromium has ended"
            content += byte
        message: dict[str, Any] = json.loads(content)
        return message

    def _record(self, message: dict[str, Any]) -> None:
        """Records requests and messages of the console."""
        parameters = message.get("params", {})
        if message["method"] == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif message["method"] == "Runtime.consoleAPICalled":
            self.messages.append(" ".join(str(value.get("value", value)) for value in parameters["args"]))
        elif message["method"] == "Log.entryAdded":
            self.messages.append(parameters["entry"]["text"])
        elif message["method"] == "Runtime.exceptionThrown":
            self.messages.append(str(parameters["exceptionDetails"]))


@contextmanager
def chromium() -> Iterator[Page]:
    """Yields a page of a headless Chromium without a network."""
    assert CHROMIUM
    read_commands, to_browser = os.pipe()
    from_browser, write_answers = os.pipe()

    def renumber() -> None:
        os.dup2(read_commands, 3)
        os.dup2(write_answers, 4)

    flags = [flag.replace("\t", " ") for flag in FLAGS.split(" ")]
    with tempfile.TemporaryDirectory() as profile:
        command = [CHROMIUM, *flags, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            command,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(3, 4, read_commands, write_answers),
            preexec_fn=renumber,
        )
        os.close(read_commands)
        os.close(write_answers)
        answers = os.fdopen(from_browser, "rb")
        try:
            yield Page(to_browser, answers)
        finally:
            os.close(to_browser)  # the browser ends when its pipe is closed
            process.wait(20)
            answers.close()


class _Handler(SimpleHTTPRequestHandler):
    """Serves files and records the paths."""

    served: list[str]

    def log_message(self, *_: Any) -> None:
        self.served.append(self.path)


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Serves a folder on this machine; yields its address and the list of requested paths."""
    paths: list[str] = []
    handler = functools.partial(type("Handler", (_Handler,), {"served": paths}), directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", paths
    finally:
        server.shutdown()
        server.server_close()
