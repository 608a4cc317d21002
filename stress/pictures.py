"""Draws the pictures of README and the guides: `python stress/pictures.py RUN PARSER --source TEXT --reference TEXT`.

RUN translates English into German and has a test set `test2016`; PARSER writes trees. The two outputs that are compared
are those of beam and greedy search.
"""

import argparse
import contextlib
import tempfile
import time
from pathlib import Path

from chromium import Page, chromium, served
from doors import transduce
from local_server import started_server

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
TEXT = "A man in an orange hat is starring at something. Two dogs play in the snow.\n\nA girl breaks a stick."
SENTENCE = "Two young guys with shaggy hair look at their hands while hanging out in the yard."
STYLE = "<style>body { font: 18px/1.5 sans-serif; margin: 24px 32px; }</style>"
HTML = f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Winter</title>{STYLE}</head>
<body><h1>Two dogs</h1><p>Two <b>brown dogs</b> play in the <i>snow</i>.</p>
<ul><li>A girl breaks a stick.</li><li>A man in an <a href="hat.html">orange hat</a> is watching.</li></ul>
</body></html>
"""


def draw_translating(page: Page, run: Path) -> None:
    """Draws the page of the server, with a word whose alternatives are shown."""
    with started_server(str(run)) as server:
        page.look(1100, 520, FOLDER / "page.png")
        page.open(f"{server.url}/")
        page.evaluate("document.getElementById('source').focus()")
        page.write(TEXT)
        words = "document.querySelectorAll('#target .word')"
        while not page.evaluate(f"{words}.length > 5"):
            time.sleep(0.1)
        page.click(f"{words}[3]")
        while not page.evaluate("document.querySelectorAll('#alternatives [role=option]').length > 1"):
            time.sleep(0.1)
        page.look(1100, 520, FOLDER / "page.png")


def main() -> None:
    """Draws all pictures for the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("parser", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    arguments = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    run, reference = arguments.run, arguments.reference.resolve()
    with tempfile.TemporaryDirectory() as name, chromium() as page, served(Path(name)) as (url, _):
        folder = Path(name)
        draw_translating(page, run)
        transduce("draw", run, SENTENCE, "--out", folder / "attention.html")
        transduce("report", run, "--test", "test2016", "--out", folder / "report.html")
        for search, options in {"beam": (), "greedy": ("--greedy",)}.items():
            transduce("translate", run, arguments.source, "--out", folder / search, *options)
        with contextlib.chdir(folder):  # the page has the names of the files as they are given
            compared = ["beam", "greedy", "--reference", reference]
            transduce("measure", *compared, "--differences", "--html", "compare.html")
        (folder / "before.html").write_text(HTML, "utf-8")
        transduce("translate-document", run, folder / "before.html", "--out", folder / "after.html")
        (folder / "document.html").write_text(
            "<!doctype html><style>iframe { border: 1px solid #8b8d96; width: 49%; height: 300px; }</style>"
            "<iframe src=before.html></iframe> <iframe src=after.html></iframe>"
        )
        for name, height, place in (
            ("attention", 700, "html"),
            ("report", 500, "html"),
            ("curve", 640, "#training"),
            ("compare", 620, "html"),
            ("document", 330, "html"),
        ):
            page.open("about:blank")
            page.open(f"{url.rstrip('/')}/{'report' if name == 'curve' else name}.html")
            page.look(1100, height, FOLDER / f"{name}.png")
            page.evaluate(f"document.querySelector('{place}').scrollIntoView()")
            time.sleep(0.5)  # frames are drawn by processes of their own
            page.look(1100, height, FOLDER / f"{name}.png")
        transduce(
            "draw",
            arguments.parser,
            "The old man sees a dog in the park.",
            "--tree",
            "--overwrite",
            "--out",
            FOLDER / "tree.svg",
        )


if __name__ == "__main__":
    main()
