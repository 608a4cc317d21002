"""The options of the commands: none vanishes and no default changes without this list being changed too.

`python tests/commands/test_interface.py` writes the list.
"""

import json
from pathlib import Path

import click
import pytest
import typer.main

from transduce.commands import VERBS, app

LIST = Path(__file__).with_name("interface.tsv")


def options_of(verb: str) -> list[str]:
    """Returns a line for each argument and option of a command: verb, names, default."""
    group = typer.main.get_command(app)
    command = group.get_command(click.Context(group), verb)
    lines = []
    for parameter in command.params:
        names = "/".join([*parameter.opts, *parameter.secondary_opts])
        default = "required" if parameter.required else json.dumps(parameter.default, default=str)
        lines.append("\t".join([verb, names, default]))
    return lines


def test_the_list_has_all_commands():
    assert list(dict.fromkeys(line.partition("\t")[0] for line in LIST.read_text("utf-8").splitlines())) == [*VERBS]


@pytest.mark.parametrize("verb", VERBS)
def test_the_options_of_a_command_are_those_of_the_list(verb):
    expected = [line for line in LIST.read_text("utf-8").splitlines() if line.partition("\t")[0] == verb]
    assert options_of(verb) == expected, "an interface that others rely on: say in CHANGELOG.md what has changed"


if __name__ == "__main__":
    LIST.write_text("".join(f"{line}\n" for verb in VERBS for line in options_of(verb)), "utf-8", newline="\n")
