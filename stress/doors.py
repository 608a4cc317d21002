"""Counts translations that change with what nobody sees, at every door: `python stress/doors.py RUN TEXT`.

The lines of TEXT, and the same lines with other white space and invisible characters, as in
`text_as_people_write_it.py`, are translated by the command, in shards, in an HTML page, by the server, from Python, and
by the page for the browser. Each door is compared with itself. A line is a paragraph of the HTML page, in which
`&nbsp;` is the no-break space.

    python stress/doors.py runs/multi30k test_2016_flickr.en --lines 1000 --target de
"""

import argparse
import contextlib
import html
import json
import random
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from browser import open_page, translate
from chromium import chromium, served
from local_server import started_server
from text_as_people_write_it import UNSEEN

from transduce import Translator
from transduce.exchange.export_model import export

Door = Callable[[list[str]], list[str]]
AT_ONCE = 50  # lines of a request


def transduce(*arguments: object) -> str:
    """Runs a command; raises SystemExit with its message if it fails."""
    command = [sys.executable, "-m", "transduce", *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(ended.stderr)
    return ended.stdout


@contextlib.contextmanager
def doors(run: Path, target: str, folder: Path) -> Iterator[dict[str, Door]]:
    """Yields the doors by name; files are written into `folder`."""
    text, shards, page = folder / "text", folder / "shards", folder / "page.html"
    translator = Translator.load(run)

    def write(lines: list[str]) -> Path:
        text.write_text("".join(f"{line}\n" for line in lines), "utf-8", newline="")
        return text

    def in_shards(lines: list[str]) -> list[str]:
        shards.unlink(missing_ok=True)
        transduce("translate-corpus", run, write(lines), "--out", shards)
        return shards.read_text("utf-8").split("\n")[:-1]

    def in_html(lines: list[str]) -> list[str]:
        paragraphs = (html.escape(line, quote=False).replace("\u00a0", "&nbsp;") for line in lines)
        page.write_text("".join(f"<p>{paragraph}</p>\n" for paragraph in paragraphs), "utf-8")
        return [html.unescape(one) for one in re.findall("<p>(.*?)</p>", transduce("translate-document", run, page))]

    with started_server(str(run)) as server, chromium() as browser:
        export(run, "browser", folder / "browser", "int8", 0)
        with served(folder / "browser") as (page_address, _):
            open_page(browser, page_address)

            def by_server(lines: list[str]) -> list[str]:
                answers = []
                for start in range(0, len(lines), AT_ONCE):
                    body = {"q": lines[start : start + AT_ONCE], "source": "auto", "target": target, "format": "text"}
                    headers = {"Content-Type": "application/json"}
                    request = urllib.request.Request(f"{server.url}/translate", json.dumps(body).encode(), headers)
                    with urllib.request.urlopen(request) as answer:
                        answers += json.load(answer)["translatedText"]
                return answers

            yield {
                "command": lambda lines: transduce("translate", run, write(lines)).split("\n")[:-1],
                "shards": in_shards,
                "HTML": in_html,
                "server": by_server,
                "Python": lambda lines: translator.translate(lines),
                "browser": lambda lines: translate(browser, lines, 0).texts,
            }


def main() -> None:
    """Prints a row a change, and a column a door."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--target", default="de")
    arguments = parser.parse_args()
    lines = arguments.text.read_text("utf-8").split("\n")[: arguments.lines]
    with tempfile.TemporaryDirectory() as folder, doors(arguments.run, arguments.target, Path(folder)) as all_doors:
        plain = {name: door(lines) for name, door in all_doors.items()}
        print(f"| lines of {len(lines):,} that differ | {' | '.join(all_doors)} |\n|---|{'---|' * len(all_doors)}")
        for change_name, change in UNSEEN.items():
            rng = random.Random(1)
            changed = [change(line, rng) for line in lines]
            counts = [
                sum(ours.strip() != theirs.strip() for ours, theirs in zip(door(changed), plain[name], strict=True))
                for name, door in all_doors.items()
            ]
            print(f"| {change_name} | {' | '.join(map(str, counts))} |", flush=True)


if __name__ == "__main__":
    main()
