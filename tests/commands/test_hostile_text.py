"""Escape sequences in recipes, names, texts and answers of servers never reach a terminal."""

import re

import pytest

from micro_run import forked_on_terminal, write_corpus

HOSTILE = "a\x1b]0;title\x07b\x1b[2Jc\rd\u202ee"
VISIBLE = "a\\x1b]0;title\\x07b\\x1b[2Jc\\x0dd\\u202ee"

COMMANDS = """
import sys, warnings
from transduce.commands import main, progress_bars
progress_bars.FIRST_SECONDS = progress_bars.REFRESH_SECONDS = -1
hostile, *arguments = sys.argv[1:]
{before}
try:
    main(arguments)
finally:
    {after}
"""


@pytest.fixture
def on_terminal(tmp_path):
    """Returns a function: all that a command prints on a terminal."""

    def run(*arguments: object, before: str = "", after: str = "pass", **environment: str) -> str:
        script = tmp_path / "command.py"
        script.write_text(COMMANDS.format(before=before, after=after), "utf-8")
        return forked_on_terminal(script, HOSTILE, *arguments, TERM="xterm", COLUMNS="400", **environment)

    return run


def assert_harmless(printed: str) -> None:
    """The text is visible; of escape sequences there are only colours and movements of the cursor, of bars."""
    assert VISIBLE in printed, printed
    rest = re.sub(r"\x1b\[(\d+(;\d+)*m|2K|1A)|\r", "", printed)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", rest), rest
    assert "c\rd" not in printed


FAILING = """
def fail(*_):
    raise {error}
import transduce.recipe.model_summary as summary
summary.summarise_model = fail
"""


@pytest.mark.parametrize(
    ("arguments", "before", "after"),
    [
        (("info", HOSTILE), "", "pass"),  # a path in a message
        (("info", "base", HOSTILE), "", "pass"),  # typer's usage error
        ((HOSTILE,), "", "pass"),
        (("info", "base"), FAILING.format(error="RuntimeError(hostile)"), "pass"),
        (("info", "base"), FAILING.format(error="OSError(5, hostile, hostile)"), "pass"),
        (("info", "base"), "", "warnings.warn(hostile)"),
        (("info", "base"), "", "import logging; logging.getLogger('library').error(hostile)"),
        (("info", "base"), "", "raise LookupError(hostile)"),  # an uncaught exception's traceback
    ],
)
def test_messages(on_terminal, arguments, before, after):
    assert_harmless(on_terminal(*arguments, before=before, after=after, TRANSDUCE_DEBUG="1"))


def test_a_key_of_a_recipe(on_terminal, micro, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text((micro / "recipe.yaml").read_text() + f'"{VISIBLE}": 1\n')  # YAML has the same escapes
    assert_harmless(on_terminal("info", recipe))


def test_examples_of_a_validation(on_terminal, micro, tmp_path):
    folder = tmp_path / HOSTILE
    folder.mkdir()
    for name, count in (("train", 300), ("validation", 7), ("test", 5)):
        write_corpus(folder, name, count)
    for language in ("en", "de"):
        path = folder / f"validation.{language}"
        path.write_text("".join(f"{HOSTILE} {line}\n" for line in path.read_text().splitlines()))
    (folder / "recipe.yaml").write_text((micro / "recipe.yaml").read_text())
    arguments = ("train", folder / "recipe.yaml", "--out", tmp_path / "run", "--set", "training.steps=3")
    assert_harmless(on_terminal(*arguments))


def test_a_sentence_to_draw(on_terminal, fluent, tmp_path):
    assert_harmless(on_terminal("draw", fluent, HOSTILE, "--out", tmp_path / f"{HOSTILE}.html"))


def test_the_reason_of_a_mirror(on_terminal, tmp_path):
    before = """
import io, urllib.error, transduce.fetch.download as download
def answer(request, **_):
    raise urllib.error.HTTPError(request.full_url, 404, hostile, {}, io.BytesIO())
download.urlopen = answer
"""
    assert_harmless(on_terminal("fetch", "multi30k", "--out", tmp_path, before=before))


def test_the_bars_of_a_display(on_terminal):
    before = """
from transduce.commands.console import progress_on_terminal, say
from transduce.runtime.progress import track
import transduce.recipe.model_summary as summary
def show(*_):
    with track(hostile, 10) as progress:
        progress.update(1, hostile)
        say(hostile)
        progress.update(2, hostile)
        print(hostile, file=sys.stderr)
    raise ValueError(hostile)
summary.summarise_model = show
"""
    assert_harmless(on_terminal("info", "base", before=before))
