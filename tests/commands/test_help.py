"""`--help` is for people: words instead of Python's types, ranges in words, two examples that can be typed."""

import re
import shlex

import pytest
from typer.testing import CliRunner

from micro_run import forked
from transduce.commands import VERBS, app
from transduce.commands.examples import EXAMPLES
from transduce.commands.options import range_in_words


def help_of(verb: str) -> str:
    return CliRunner().invoke(app, [verb, "--help"], terminal_width=100).output


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_words_and_examples(verb: str) -> None:
    shown = help_of(verb)
    assert not re.search(r"<\w|x>=|x<=|list\[|Path", shown), shown
    assert "-q, --quiet" in shown
    for example in EXAMPLES[verb]:
        assert f"  {example}\n" in f"{shown}\n"
        words = shlex.split(example.partition(" | ")[2] or example)
        assert words[:2] == ["transduce", verb]
        for option in (word for word in words if word.startswith("-")):
            assert re.search(rf"(^|\s|, ){option}\b", shown, re.MULTILINE), option


def test_ranges_in_words() -> None:
    assert range_in_words(1, None) == "at least 1"
    assert range_in_words(0, 2**63 - 1) == "at least 0"
    assert range_in_words(0, 65535) == "0 to 65535"
    assert range_in_words(None, 4) == "at most 4"
    assert range_in_words(None, None) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--beam", "0"], "'--beam': write at least 1"),
        (["--beam", "x"], "'--beam': write a whole number"),
        (["--top-p", "x"], "'--top-p': write a number"),
        (["--precision", "fp16"], "'--precision': 'fp16' is not one of 'float32', 'bfloat16', 'int8'"),
    ],
)
def test_values_that_do_not_fit_are_said_plainly(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["translate", "run", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_quiet_training_prints_its_result_alone(micro, tmp_path) -> None:
    loud = forked("train", micro / "recipe.yaml", "--out", tmp_path / "loud")
    quiet = forked("train", micro / "recipe.yaml", "--out", tmp_path / "quiet", "-q")
    assert "step 12/12" in loud.error
    warning = "warning: only 300 pairs; a new model needs thousands to translate other text"
    assert (quiet.code, quiet.error) == (0, f"{warning} (docs/guides/few-texts.md)\n")
    assert quiet.out == loud.out.replace("loud", "quiet")
