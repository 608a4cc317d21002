"""`transduce suggest`: writes a recipe for a given corpus, this machine and a given training time."""

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.commands.corpus_arguments import CORPUS, FromLanguageOption, ToLanguageOption, is_recipe
from transduce.commands.options import DeviceOption, OverwriteOption, ThreadsOption, refuse_options
from transduce.commands.output_file import check_writable, open_output
from transduce.storage.result_files import is_replaceable

if TYPE_CHECKING:
    from transduce.suggestion.recipe_choice import Suggestion

MAX_MINUTES = 366 * 24 * 60


def suggest(
    files: Annotated[
        list[Path],
        typer.Argument(metavar=CORPUS, help="Corpus, or a recipe (with a validation set) whose settings are kept."),
    ],
    minutes: Annotated[float, typer.Option(min=0.01, help="Time limit of the final training run in minutes.")],
    out: Annotated[Path | None, typer.Option(help="File for the suggested recipe (default: standard output).")] = None,
    from_language: FromLanguageOption = None,
    to_language: ToLanguageOption = None,
    overwrite: OverwriteOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Tries several recipes for a 15th of the minutes each, and writes the best one with estimates for the full run.

    If a corpus is given instead of a recipe, it is first inspected, and split into the folder OUT-data.
    """
    if not minutes <= MAX_MINUTES:
        raise ValueError(f"--minutes {minutes:g}: name minutes of at most {MAX_MINUTES:,}, a year")
    if not is_recipe(files) and out is None:
        raise ValueError("add --out recipe.yaml: the corpus is split into a folder beside this file")
    if out is not None and is_replaceable(out) and not is_recipe([out]):
        raise ValueError(f"--out {out}: the name of a recipe ends in .yaml")
    check_writable(out, overwrite=overwrite)
    if out is None or is_recipe(files):
        options = {"--from": from_language, "--to": to_language}
        refuse_options(options, "is for a corpus without a recipe; write `source_language` and `target_language` in it")
        recipe = files[0]
    else:
        recipe = _inspected_and_split(files, (from_language, to_language), out, overwrite=overwrite)
    from transduce.recipe.recipe import read_values
    from transduce.recipe.recipe_values import make_relative
    from transduce.suggestion.recipe_choice import suggest_recipe

    values = read_values(recipe)
    suggestion = suggest_recipe(values, minutes, place=str(recipe), device=device, threads=threads)
    data = values["data"] if out is None else make_relative(values["data"], out.resolve().parent)
    with open_output(out) as write:
        write(_text(suggestion, data, minutes))
    if out is not None:
        _say_next(suggestion, out)


def _inspected_and_split(
    files: list[Path], codes: tuple[str | None, str | None], out: Path, *, overwrite: bool
) -> Path:
    """Prints the faults of a corpus, splits it into a folder next to `out`, and returns the path of its `data.yaml`."""
    from transduce.commands.inspect import print_faults
    from transduce.commands.split import split_corpus

    folder = out.parent / f"{out.stem}-data"
    print_faults(files, codes)
    return split_corpus(files, folder, codes, overwrite=overwrite)


def _say_next(suggestion: "Suggestion", out: Path) -> None:
    """Prints the name of the chosen candidate, the expected length of its run, and the next command."""
    print(f"{out}: {suggestion.best.candidate.name}, the best of {len(suggestion.probes)} probes")
    print(f"expected on this machine: {suggestion.steps:,} steps, {suggestion.epochs:.1f} epochs")
    print(f"next: transduce train {out} --out runs/{out.stem}")


def _text(suggestion: "Suggestion", data: object, minutes: float) -> str:
    """Returns the suggested recipe as YAML, under comments that explain the choice."""
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
        f"Expected: {suggestion.steps:,} steps, {suggestion.epochs:.1f} epochs, and a validation score well above that",
        f"of the short probe: {score.label} {score.score:.1f}, {score.signature}.",
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
    yaml.dump({"data": data, **suggestion.values}, stream)
    return "".join(f"# {line}".rstrip() + "\n" for line in lines) + "\n" + stream.getvalue()
