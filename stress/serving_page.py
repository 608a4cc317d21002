"""Uses the page of `transduce serve` in headless Chromium with mouse and keyboard, and takes pictures.

    npm pack axe-core && tar xzf axe-core-*.tgz package/axe.min.js
    python stress/serving_page.py RUN --axe package/axe.min.js --pictures FOLDER

RUN translates one direction; a copy of it that says to translate the other way serves for the swap. Fails where the
page does not do what it says, asks another host, writes to the console, or where axe finds a violation in any state.
Without --axe nothing is checked for accessibility.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from chromium import Page, chromium
from local_server import started_server

from transduce.model_directory.model import Model, weights_of
from transduce.model_directory.writing import write_model

PATIENCE = 120  # seconds
DESKTOP, PHONE = (1280, 760), (390, 844)
TEXT = "A man in an orange hat is starring at something. Two dogs play in the snow.\n\nA girl breaks a stick."
HEBREW = "שלום עולם. מה שלומך היום?"

# Answers of a server that is busy once, and of one that has been slow with an older text.
BUSY = """(() => {
  const real = fetch;
  let times = 0;
  window.fetch = (path, options) => String(path).endsWith("sentences") && times++ < 1
    ? Promise.resolve(new Response('{"error": "Too many requests are waiting: try again later"}',
        { status: 503, headers: { "Retry-After": "3" } }))
    : real(path, options);
})()"""
SLOW = """(() => {
  const real = fetch;
  window.aborted = [];
  window.fetch = (path, options) => {
    options?.signal?.addEventListener("abort", () => aborted.push(path));
    const isOld = String(options?.body).includes("old text");
    return isOld ? new Promise((done) => setTimeout(() => done(real(path, { ...options, signal: undefined })), 1500))
      : real(path, options);
  };
})()"""
# A model that writes Hebrew: the same words in another order.
MIRROR = """(() => {
  const real = fetch;
  window.fetch = async (path, options) => {
    const answer = await real(path, options);
    if (path !== "v1/translate") return answer;
    const asked = JSON.parse(options.body), read = await answer.json();
    read.lines.forEach((line, place) => {
      const words = asked.text[place].split(" ").reverse();
      line.translations[0].text = words.join(" ");
      line.words = words.map((word, number) => [word, [0.9, 0.4, 0.1][number % 3]]);
      line.alignment = words.map((_, number) => `${words.length - 1 - number}-${number}`).join(" ");
    });
    return new Response(JSON.stringify(read));
  };
})()"""
STATUS = "document.getElementById('status').textContent"
QUIET = f"['', 'Translated.'].includes({STATUS})"
WORDS = "document.querySelectorAll('#target .word')"
OPTIONS = "document.querySelectorAll('#alternatives [role=option]')"
TRANSLATION = "Array.from(document.querySelectorAll('#target p'), (line) => line.textContent).join('\\n')"
FOCUSED = "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"


class Session(NamedTuple):
    """A page of a server, and where pictures and the rules of axe are."""

    page: Page
    address: str
    pictures: Path | None
    axe: str | None

    def open(self) -> None:
        """Opens the page, and waits until it is ready."""
        self.page.open("about:blank")  # forgets what a check has replaced
        self.page.open(self.address)
        self.wait(f"{STATUS} === '' || document.getElementById('key-form').hidden === false")

    def wait(self, condition: str) -> None:
        """Returns when a condition holds; raises AssertionError where it does not."""
        deadline = time.monotonic() + PATIENCE
        while not self.page.evaluate(condition):
            assert time.monotonic() < deadline, (condition, self.page.evaluate(STATUS), self.page.messages)
            time.sleep(0.05)

    def translate(self, text: str) -> str:
        """Writes a text in the place of that on the page, and returns its translation."""
        self.page.evaluate("document.getElementById('source').focus()")
        self.page.evaluate("document.getElementById('source').select()")
        before = self.page.evaluate(TRANSLATION)
        self.page.write(text)
        self.wait(f"{TRANSLATION} !== {json.dumps(before)} && {QUIET}")
        return str(self.page.evaluate(TRANSLATION))

    def state(self, name: str, size: tuple[int, int] = DESKTOP, *, scheme: str = "light") -> None:
        """Takes a picture of the page as it is, and has axe check it."""
        with tempfile.TemporaryDirectory() as folder:
            self.page.look(*size, (self.pictures or Path(folder)) / f"{name}.png", scheme=scheme)
        if self.axe is None:
            return
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(self.axe + "; 0")
        result = self.page.evaluate("axe.run(document, { iframes: false })")
        violations = [
            (each["id"], each["nodes"][0]["html"], each["nodes"][0]["failureSummary"]) for each in result["violations"]
        ]
        assert not violations, (name, violations)
        print(f"{name}: axe finds no violation, {len(result['passes'])} rules hold")


def write_reversed(run: Path, copy: Path) -> None:
    """Writes a copy of a model whose source language is the target language."""
    model = Model.read(run)
    config = model.config.model_copy(
        update={"source_language": model.config.target_language, "target_language": model.config.source_language}
    )
    write_model(copy, config, weights_of(model.module), (model.source, model.target), {})


def check_typing(session: Session) -> None:
    """Lines stay lines, doubtful words are marked, and a text that was edited is translated anew."""
    session.state("empty")
    translation = session.translate(TEXT)
    lines = translation.split("\n")
    assert [len(line) > 10 for line in lines] == [True, False, True], translation
    assert lines[1] == ""
    session.state("desktop")
    session.state("dark", scheme="dark")
    session.state("phone", PHONE)
    session.page.look(*DESKTOP, Path("/dev/null"))
    marked = "document.querySelectorAll('.doubtful, .very-doubtful')"
    assert session.page.evaluate(f"{marked}.length > 2 && {marked}[0].title.startsWith('Probability ')")
    assert not session.page.evaluate("document.getElementById('legend').hidden")
    edited = session.translate(TEXT.replace("Two dogs play", "Two girls play"))
    assert edited.split("\n")[1:] == lines[1:]
    assert edited != translation


def check_alternatives(session: Session) -> None:
    """A click opens alternatives from a word on; one is chosen, and taken back."""
    page = session.page
    before = session.translate(TEXT)
    page.point(f"{WORDS}[3]")
    session.wait("document.querySelectorAll('#backdrop mark').length > 0")
    session.state("aligned")
    page.click(f"{WORDS}[3]")
    session.wait(f"{OPTIONS}.length > 1")
    session.state("alternatives")
    session.state("alternatives-dark", scheme="dark")
    session.state("alternatives-phone", PHONE)
    page.look(*DESKTOP, Path("/dev/null"))
    option = page.evaluate(f"{OPTIONS}[0].dataset.text")
    kept = page.evaluate(f"Array.from({WORDS}).slice(0, 3).map((word) => word.textContent).join(' ')")
    assert option.startswith(kept), (option, kept)
    page.click(f"{OPTIONS}[0]")
    session.wait(f"{TRANSLATION}.startsWith({json.dumps(option)})")
    assert page.evaluate(TRANSLATION).split("\n")[1:] == before.split("\n")[1:]
    page.click(f"{WORDS}[3]")
    session.wait("!document.getElementById('undo').hidden")
    page.click("document.getElementById('undo')")
    session.wait(f"{TRANSLATION} === {json.dumps(before)}")


def check_keyboard(session: Session) -> None:
    """Everything is reached with Tab; arrow keys move over the words; Escape goes back to the word."""
    page = session.page
    session.translate(TEXT)
    page.evaluate("document.querySelector('header a').focus()")
    for expected in ("source-language", "swap", "target-language", "source", "file", "clear", "word", "copy"):
        page.press("Tab")
        assert page.evaluate(FOCUSED).split()[0] == expected, (page.evaluate(FOCUSED), expected)
    page.evaluate(f"{WORDS}[0].focus()")
    for key, place in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("Home", 0), ("ArrowRight", 1)):
        page.press(key)
        assert page.evaluate(f"document.activeElement === {WORDS}[{place}]"), (key, place)
    session.state("keyboard")
    for key in ("Enter", "Space"):
        page.press(key)
        session.wait(f"{OPTIONS}.length > 1 && document.activeElement === {OPTIONS}[0]")
        page.press("ArrowDown")
        assert page.evaluate(f"document.activeElement === {OPTIONS}[1]")
        page.press("Escape")
        assert page.evaluate(f"document.getElementById('popup').hidden && document.activeElement === {WORDS}[1]")
    page.press("Enter")
    session.wait(f"{OPTIONS}.length > 1 && document.activeElement === {OPTIONS}[0]")
    option = page.evaluate(f"{OPTIONS}[0].dataset.text")
    page.press("Enter")
    session.wait(f"{TRANSLATION}.startsWith({json.dumps(option)})")
    assert page.evaluate("document.activeElement.classList.contains('word')")


def check_attention(session: Session) -> None:
    """The picture is drawn in a frame without an origin, and its scripts run."""
    page = session.page
    session.translate("A girl breaks a stick.")
    page.click(f"{WORDS}[1]")
    session.wait("!document.getElementById('popup').hidden")
    page.click("document.getElementById('explain')")
    session.wait("!document.getElementById('picture').hidden && document.getElementById('attention-note').hidden")
    for name, size, scheme in (
        ("attention", DESKTOP, "light"),
        ("attention-phone", PHONE, "light"),
        ("attention-dark", DESKTOP, "dark"),
    ):
        page.look(*size, Path("/dev/null"), scheme=scheme)
        time.sleep(2)  # the frame is drawn by a process of its own
        session.state(name, size, scheme=scheme)
    page.look(*DESKTOP, Path("/dev/null"))
    assert page.evaluate("document.getElementById('picture').contentDocument === null"), "the frame has our origin"
    page.click("document.getElementById('close-attention')")
    assert not page.evaluate("document.getElementById('attention').open")


def check_languages(session: Session) -> None:
    """The languages are swapped with the text, and detected."""
    page = session.page
    before = session.translate("Two dogs play in the snow.")
    page.click("document.getElementById('swap')")
    session.wait(f"document.getElementById('source').value === {json.dumps(before)} && {WORDS}.length > 0")
    values = "[document.getElementById('source-language').value, document.getElementById('target-language').value]"
    assert page.evaluate(values) == ["de", "en"]
    session.state("swapped")
    page.evaluate(
        "((choice) => { choice.value = 'auto'; choice.dispatchEvent(new Event('change')); })"
        "(document.getElementById('source-language'))"
    )
    session.wait(f"document.querySelector('option[value=auto]').textContent === 'German (detected)' && {QUIET}")
    session.state("detected")


def check_order(session: Session) -> None:
    """A newer text ends the requests of an older one, whose answer does not appear."""
    page = session.page
    new = session.translate("Two dogs play.")
    page.evaluate(SLOW)
    page.evaluate("document.getElementById('source').select()")
    page.write("An old text.")
    time.sleep(1)
    page.evaluate("document.getElementById('source').select()")
    page.write("Two dogs play.")
    session.wait("aborted.length > 0")
    for _ in range(20):
        time.sleep(0.1)
        assert page.evaluate(TRANSLATION) == new


def check_busy(session: Session) -> None:
    """The reader sees that the server is busy, and the page tries again."""
    page = session.page
    page.evaluate(BUSY)
    page.write("Two dogs play in the snow.")
    session.wait(f"{STATUS}.startsWith('Too many requests are waiting: try again later. The page tries again in 3 s')")
    session.state("busy")
    session.wait(f"{WORDS}.length > 0 && {QUIET}")


def check_right_to_left(session: Session) -> None:
    """Text from right to left stands at the right, and its arrow keys go to the left."""
    page = session.page
    page.evaluate(MIRROR)
    session.translate(HEBREW)
    session.state("right-to-left")
    session.state("right-to-left-phone", PHONE)
    page.look(*DESKTOP, Path("/dev/null"))
    page.evaluate(f"{WORDS}[0].focus()")
    page.press("ArrowLeft")
    assert page.evaluate(f"document.activeElement === {WORDS}[1]")
    left, right = (page.evaluate(f"{WORDS}[{place}].getBoundingClientRect().x") for place in (1, 0))
    assert left < right


def check_long_text(session: Session) -> None:
    """A text that is too long scrolls in its field; the message is in view, and the old translation is dimmed."""
    page = session.page
    session.translate("Two dogs play in the snow.")
    page.evaluate("document.getElementById('source').select()")
    page.write("Two dogs play in the snow.\n" * 500)
    session.wait(f"{STATUS}.startsWith('The text is too long')")
    for name, size in (("long", DESKTOP), ("long-phone", PHONE)):
        session.state(name, size)
        assert page.evaluate("document.documentElement.scrollHeight") < 1200
        bottom = page.evaluate("document.getElementById('status').getBoundingClientRect().bottom")
        assert bottom <= size[1], bottom
    assert page.evaluate("document.getElementById('target').classList.contains('stale')")
    page.look(*DESKTOP, Path("/dev/null"))
    session.translate("Two girls play in the snow.")
    assert not page.evaluate("document.getElementById('target').classList.contains('stale')")


def check_other_language(session: Session) -> None:
    """A text in another language than that of the model is translated with a doubt."""
    page = session.page
    page.write("Deux chiens jouent dans la neige avec un homme qui porte un chapeau rouge.")
    session.wait(f"{STATUS}.startsWith('The text seems to be French, and is translated as English')")
    session.state("other-language")


def check_document(session: Session) -> None:
    """A document is dropped on the page, and its translation is fetched; one of another format is refused."""
    page = session.page
    drop = """((name, content) => {
      const data = new DataTransfer();
      data.items.add(new File([content], name));
      for (const kind of ["dragover", "drop"]) {
        document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
      }
    })"""
    note = "document.getElementById('document-note').textContent"
    page.evaluate(f"{drop}('page.html', '<p>Two dogs play in the <b>snow</b>.</p>')")
    session.wait(f"{note} === 'page.html is translated.'")
    session.state("document")
    session.state("document-phone", PHONE, scheme="dark")
    page.look(*DESKTOP, Path("/dev/null"))
    translated = page.evaluate(
        "fetch(document.getElementById('download').href).then(async (answer) => "
        "[answer.headers.get('content-disposition'), await answer.text()])"
    )
    assert "page_de.html" in translated[0], translated
    assert "<b>" in translated[1], translated
    page.evaluate(f"{drop}('scan.pdf', 'x')")
    session.wait(f"{note}.startsWith('scan.pdf cannot be read: documents are .txt, ')")
    session.state("document-refused")
    page.click("document.getElementById('end-document')")
    assert page.evaluate("document.getElementById('document').hidden")


def check_interface(session: Session) -> None:
    """The description of the interface is readable in both schemes, and has the address of the server."""
    page = session.page
    page.open(f"{session.address}docs")
    assert page.evaluate("document.querySelector('.server').textContent") == session.address.rstrip("/")
    for name, size, scheme in (
        ("interface", DESKTOP, "light"),
        ("interface-dark", DESKTOP, "dark"),
        ("interface-phone", PHONE, "light"),
    ):
        session.state(name, size, scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    page.look(*DESKTOP, Path("/dev/null"))


def check_key(session: Session) -> None:
    """A server with keys asks for one, which this tab keeps."""
    page = session.page
    page.write("Two dogs play.")
    session.wait(f"{STATUS} === 'This server needs an API key: enter it above.'")
    for key, status in (("wrong", "Invalid API key"), ("right", "")):
        page.evaluate("document.getElementById('key').select()")
        page.write(key)
        page.press("Enter")
        session.wait(f"{STATUS} === {json.dumps(status)}")
        session.state(f"key-{key}")
    session.wait(f"{WORDS}.length > 0")
    assert page.evaluate("sessionStorage.length === 1 && localStorage.length === 0 && document.cookie === ''")


CHECKS = (
    check_typing,
    check_alternatives,
    check_keyboard,
    check_attention,
    check_languages,
    check_order,
    check_busy,
    check_right_to_left,
    check_long_text,
    check_other_language,
    check_document,
    check_interface,
)


def main() -> None:
    """Runs all checks for the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--axe", type=Path)
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--only", nargs="*", help="Names of checks, such as typing.")
    arguments = parser.parse_args()
    axe = arguments.axe.read_text("utf-8") if arguments.axe else None
    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, chromium() as page:
        folder = Path(name)
        write_reversed(arguments.run, folder / "reversed")
        (folder / "keys").write_text("right\n", encoding="utf-8")
        for runs, options, checks in (
            ((arguments.run, folder / "reversed"), (), CHECKS),
            ((arguments.run,), ("--keys", str(folder / "keys")), (check_key,)),
        ):
            chosen = [
                check
                for check in checks
                if not arguments.only or check.__name__.removeprefix("check_") in arguments.only
            ]
            if not chosen:
                continue
            with started_server(*map(str, runs), options=options) as server:
                address = f"{server.url}/"
                session = Session(page, address, arguments.pictures, axe)
                for check in chosen:
                    session.open()
                    check(session)
                    foreign = [url for url in page.requests if not url.startswith((address, "about:", "data:"))]
                    assert not foreign, foreign
                    page.requests.clear()
                    messages = [message for message in page.messages if "403" not in message]
                    assert not messages, messages
                    print(f"{check.__name__.removeprefix('check_').replace('_', ' ')}: as it should be", flush=True)
    print("no foreign request, no message on the console")


if __name__ == "__main__":
    main()
