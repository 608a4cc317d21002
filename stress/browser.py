"""Translates with the browser page of a model in headless Chromium without a network, and compares with the model.

    python stress/browser.py RUN [--precision int8] [--sentences 60] [--pictures FOLDER]

Prints, for greedy and beam search, how many sentences of the embedded test set have the translation that the model has
here, and the milliseconds a sentence. Fails where the page asks for anything but its own files. `--pictures` saves the
page light, dark, narrow, and from right to left.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from chromium import Page, chromium, served

from transduce.embedded.splits import split
from transduce.exchange.export_model import export
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

PATIENCE = 600  # seconds

# A worker that begins as the page's own does must not reach another host either.
FOREIGN = """new Promise((done) => {
  const script = "fetch('http://127.0.0.2:9/').catch((error) => postMessage(String(error)))";
  const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  worker.onmessage = ({ data }) => done(data);
})"""


class BrowserTranslations(NamedTuple):
    """Translations of the page, and the seconds of all of them."""

    texts: list[str]
    seconds: float


def open_page(page: Page, address: str) -> float:
    """Opens the page, and returns the seconds until the model is ready."""
    started = time.perf_counter()
    page.open(address)
    wait_for_status(page, "Ready")
    return time.perf_counter() - started


def wait_for_status(page: Page, beginning: str) -> str:
    """Returns the status of the page once it begins so; raises RuntimeError for an error message."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        status, is_fault = page.evaluate(
            "(({ textContent, classList }) => [textContent, classList.contains('fault')])"
            "(document.getElementById('status'))"
        )
        if is_fault:
            raise RuntimeError(status)
        if status.startswith(beginning):
            return str(status)
        time.sleep(0.1)
    raise RuntimeError(f"the page still says {status!r}")


def write_text(page: Page, lines: Sequence[str]) -> None:
    """Puts lines into the page as one who pastes them does."""
    page.evaluate(
        "((source, text) => { document.getElementById('status').textContent = ''; source.value = text; "
        "source.dispatchEvent(new Event('input')); })"
        f"(document.getElementById('source'), {json.dumps(chr(10).join(lines))})"
    )


def translate(page: Page, lines: Sequence[str], search: int) -> BrowserTranslations:
    """Translates lines with the first search of the page, greedy, or the second, with a beam."""
    write_text(page, [])
    wait_for_status(page, "Ready")
    page.evaluate(f"document.querySelectorAll('input[name=beam]')[{search}].click()")
    write_text(page, lines)
    status = wait_for_status(page, "Translated in ")
    texts = page.evaluate("Array.from(document.getElementById('target').children, (line) => line.textContent)")
    return BrowserTranslations(texts, float(status.split()[2]))


def check_requests(page: Page, address: str) -> None:
    """Raises RuntimeError where the page, or its worker, has asked or can ask for a file of another host."""
    foreign = [url for url in page.requests if not url.startswith((address, f"blob:{address}", "data:"))]
    if foreign:
        raise RuntimeError(f"the page asks for {', '.join(foreign)}")
    if page.messages:
        raise RuntimeError(f"the console has messages: {page.messages}")
    page.evaluate(FOREIGN)
    page.evaluate("new Promise((done) => setTimeout(done, 200))")
    if not any("Content Security Policy" in message for message in page.messages):
        raise RuntimeError("the page's policy does not hold for its worker")


def take_pictures(page: Page, folder: Path, lines: Sequence[str]) -> None:
    """Saves pictures of the page as a person sees it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(page, lines)
    wait_for_status(page, "Translated in ")
    page.look(1200, 720, folder / "light.png")
    page.look(1200, 720, folder / "dark.png", scheme="dark")
    page.look(390, 800, folder / "narrow.png")
    page.evaluate("document.getElementById('source').dir = document.getElementById('target').dir = 'rtl'")
    write_text(page, ["שלום עולם", "مرحبا بالعالم"])
    wait_for_status(page, "Translated in ")
    page.look(1200, 720, folder / "right-to-left.png")


def main() -> None:
    """Runs the benchmark for the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--sentences", type=int, default=60)
    parser.add_argument("--pictures", type=Path)
    arguments = parser.parse_args()
    lines = [example.source for example in split("test", count=arguments.sentences)]
    translator = Translator.load(arguments.run)
    beam = SearchMethod(translator.decoding)
    with tempfile.TemporaryDirectory() as name:
        export(arguments.run, "browser", Path(name) / "page", arguments.precision, 0)
        with served(Path(name) / "page") as (address, _), chromium() as page:
            print(f"ready after {open_page(page, address):.1f} s")
            for search, method in enumerate((beam._replace(greedy=True), beam)):
                here = [best[0].text for best in translator.translate_lines(lines, method)]
                in_page = translate(page, lines, search)
                equal = sum(left == right for left, right in zip(here, in_page.texts, strict=True))
                print(
                    f"{('greedy', 'beam')[search]}: {equal} of {len(lines)} translations are equal, "
                    f"{1000 * in_page.seconds / len(lines):.0f} ms a sentence"
                )
            check_requests(page, address)
            print("no foreign request")
            if arguments.pictures:
                take_pictures(page, arguments.pictures, lines[:4])


if __name__ == "__main__":
    main()
