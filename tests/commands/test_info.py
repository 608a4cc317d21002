"""`transduce info` says at which vocabulary it counts parameters."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["base"], "parameters at 37,000 subwords "),
        (["parser", "--vocabulary", 32000], "parameters at 32,000 source and 100 target subwords "),
    ],
)
def test_parameters_stand_beside_the_vocabulary(command, arguments, shown):
    code, out, error = command("info", *arguments)
    assert (code, out.startswith(shown)) == (0, True), (out, error)
