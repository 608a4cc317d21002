"""`transduce suggest`: writes a recipe for a corpus, this machine and a number of minutes."""

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.commands.options import DeviceOption, OverwriteOption, ThreadsOption
from transduce.commands.output_file import check_writable, open_output

if TYPE_CHECKING:
    from transduce.suggestion.recipe_choice import Suggestion

MAX_MINUTES = 366 * 24 * 60


def suggest(
    recipe: Annotated[
        Path, typer.Argument(help="A recipe that names training and validation corpora; what it sets stays.")
    ],
    minutes: Annotated[float, typer.Option(min=0.01, help="The minutes that the training may take.")],
    out: Annotated[
        Path | None, typer.Option(help="The file of the suggested recipe; standard output if not given.")
    ] = None,
    overwrite: OverwriteOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Tries several recipes for a 15th of the minutes each, and writes the best with what its run will take."""
    from transduce.recipe.recipe import read_values
    from transduce.suggestion.recipe_choice import suggest_recipe

    if not minutes <= MAX_MINUTES:
        raise ValueError(f"--minutes {minutes:g}: name minutes of at most {MAX_MINUTES:,}, a year")
    check_writable(out, overwrite=overwrite)
    recipe_values = read_values(recipe)
    suggestion = suggest_recipe(recipe_values, minutes, place=str(recipe), device=device, threads=threads)
    with open_output(out) as write:
        write(_text(suggestion, recipe_values, minutes))


def _text(suggestion: "Suggestion", recipe_values: dict[str, Any], minutes: float) -> str:
    """Returns the recipe as YAML, below comments that say what it is based on."""
    from ruamel.yaml import YAML

    score = suggestion.score
    width = max(len(probed.candidate.name) for probed in suggestion.probes)
    lines = [
        f"Suggested for {suggestion.pairs:,} pairs and {minutes:g} minutes by probes of "
        f"{suggestion.probe_minutes:.3g} minutes on this machine:",
        "",
        f"  {'probe':{width}}  steps  validation loss",
        *(
            f"  {probed.candidate.name:{width}}  {probed.steps:5,}  {probed.loss:15.3f}"
            + ("  chosen" if probed is suggestion.best else "")
            for probed in suggestion.probes
        ),
        "",
        f"Expected: {suggestion.steps:,} steps, {suggestion.epochs:.1f} epochs; a validation above that of the chosen "
        "probe,",
        f"{score.label} {score.score:.1f}, {score.signature}.",
    ]
    if suggestion.adds_r_drop:
        lines.append("The training has R-Drop, because it is long enough for it; it needs more memory than the probes.")
    if math.isfinite(suggestion.peak_memory):
        lines.append(f"Peak memory of the probes: {suggestion.peak_memory / 2**20:,.0f} MiB.")
    stream = io.StringIO()
    yaml = YAML(pure=True)
    yaml.width = 120
    yaml.representer.add_representer(
        type(None), lambda this, _: this.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    yaml.dump({"data": recipe_values["data"], **suggestion.values}, stream)
    return "".join(f"# {line}".rstrip() + "\n" for line in lines) + "\n" + stream.getvalue()
