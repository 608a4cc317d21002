"""The table of docs/commands.md has every verb, each answers `--help`, and the options it names are there."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from transduce.commands import GROUPS, VERBS, app

COMMANDS = (Path(__file__).parents[2] / "docs" / "commands.md").read_text("utf-8")
ROWS = re.findall(r"^\| `transduce ([\w-]+)([^`]*)` \| (.*) \|$", COMMANDS, flags=re.MULTILINE)


def test_the_table_has_every_verb_and_no_other() -> None:
    assert [verb for verb, _, _ in ROWS] == list(VERBS)


def test_page_and_help_have_the_groups_in_their_order() -> None:
    headings = [line.removeprefix("## ") for line in COMMANDS.splitlines() if line.startswith("## ")]
    assert headings[: len(GROUPS)] == list(GROUPS)
    shown = CliRunner().invoke(app, ["--help"], terminal_width=200).output
    assert re.findall(r"^([A-Z][\w ]+):$", shown, flags=re.MULTILINE)[-len(GROUPS) :] == list(GROUPS)
    assert re.findall(r"^  ([a-z][\w-]*)  +[A-Z]", shown, flags=re.MULTILINE) == list(VERBS)


@pytest.mark.parametrize(("verb", "usage", "meaning"), ROWS, ids=[verb for verb, _, _ in ROWS])
def test_every_verb_answers_help_and_has_the_options_that_the_table_names(verb: str, usage: str, meaning: str) -> None:
    result = CliRunner().invoke(app, [verb, "--help"], terminal_width=200)
    assert result.exit_code == 0
    assert VERBS[verb] in result.output
    for option in re.findall(r"--[a-z][a-z-]*", usage + meaning):
        assert re.search(rf"{option}\b", result.output), option


def test_every_command_in_the_page_is_a_verb() -> None:
    assert set(re.findall(r"^ +\$? ?transduce ([a-z][\w-]*)", COMMANDS, flags=re.MULTILINE)) <= set(VERBS)


def test_the_count_of_parameters_in_the_page_is_what_info_prints() -> None:
    [(vocabulary, shown)] = re.findall(r"^ +parameters at ([\d,]+) subwords +([\d,]+)", COMMANDS, flags=re.MULTILINE)
    result = CliRunner().invoke(app, ["info", "base", "--vocabulary", vocabulary.replace(",", ""), "--json"])
    assert json.loads(result.output)["parameters"] == int(shown.replace(",", ""))
