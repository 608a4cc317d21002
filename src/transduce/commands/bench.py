"""`transduce bench`: measures the speed of training or translation."""

import math
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.commands.console import aligned_table
from transduce.commands.options import JsonOption, MachineChoice, SetOption, TargetChoice, refuse_options
from transduce.runtime.json_text import json_text

if TYPE_CHECKING:
    from transduce.recipe.recipe import Recipe


STEPS = {"cpu": 20, "cuda": 200}  # default number of training steps, by device
TRANSLATIONS = 5  # default number of times that the whole text is translated


class Work(StrEnum):
    """The kind of work whose speed is measured."""

    TRAIN = "train"
    TRANSLATE = "translate"


def bench(
    work: Annotated[Work, typer.Argument(help="What to measure.")],
    run: Annotated[
        Path | None, typer.Argument(help="Model directory: the model to translate with, or whose recipe to train.")
    ] = None,
    *,
    languages: TargetChoice,
    machine: MachineChoice,
    preset: Annotated[
        str | None, typer.Option(help="Preset of the model to train, instead of RUN (default: tiny).")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE,TARGET",
            help="Two files to train on (default: the corpus of RUN, else Multi30k in TRANSDUCE_DATA, else the "
            "embedded corpus), or one file to translate (default: the embedded test set).",
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Training steps (default: 20, or 200 on a GPU), or passes over the text to translate (default: 5).",
        ),
    ] = None,
    vocabulary: Annotated[
        int | None,
        typer.Option(min=1, help="Vocabulary size per side of the model to train (default: that of the text)."),
    ] = None,
    change: SetOption = [],  # noqa: B006
    as_json: JsonOption = False,
) -> None:
    """Measures the speed of training steps, or of translation with a trained model."""
    device = machine.set_up()
    if work == Work.TRAIN:
        refuse_options({"--to": languages.to, "--tag": languages.tag}, "is for translating")
        refuse_options(
            {"--precision": machine.precision}, "is for translating; --set training.precision=… is for training"
        )
        import torch

        from transduce.bench.training_speed import bench_training

        recipe, name = _recipe(run, preset, data, change)
        figures = bench_training(recipe, name, torch.device(device), steps or STEPS[device.split(":")[0]], vocabulary)
    else:
        refuse_options({"--preset": preset, "--set": change or None, "--vocabulary": vocabulary}, "is for training")
        options = {"device": device, "precision": machine.precision_name, **languages.request()._asdict()}
        figures = _bench_translating(run, data, steps or TRANSLATIONS, **options)
    if as_json:
        print(json_text(figures, indent=2))
    else:
        _print(figures)


def _print(figures: dict[str, Any]) -> None:
    """Prints the measurements and the settings as tables."""
    rows = [
        ("target tokens", f"{figures['tokens_per_second']:,.0f} /s"),
        ("sentences", f"{figures['sentences_per_second']:,.1f} /s"),
        *((part, f"{value:,.1f} ms") for part, value in figures["milliseconds"].items()),
    ]
    if "lengths" in figures:
        rows.append(("mean length", f"{figures['lengths']['mean']:.1f} tokens"))
        rows.append(("greatest length", f"{figures['lengths']['longest']} tokens"))
    rows.append(("matrix rate", f"{figures['matrix_rate'] / 1e9:,.0f} GFLOP/s"))
    if figures["share_of_peak"]:
        rows.append(("share of the matrix rate", f"{100 * figures['share_of_peak']:.0f} %"))
    if math.isfinite(figures["peak_memory"]):
        rows.append(("peak memory", f"{figures['peak_memory'] / 2**20:,.0f} MiB"))
    print(aligned_table(rows))
    print()
    print(aligned_table([("setting", "value"), *((name, str(value)) for name, value in figures["settings"].items())]))


def _recipe(run: Path | None, preset: str | None, data: str | None, changes: list[str]) -> tuple["Recipe", str]:
    """Returns the recipe to train, taken from a run or a preset, and its name; `data` replaces its training corpus."""
    from transduce.model_directory.manifest import RECIPE
    from transduce.model_directory.model import Model
    from transduce.recipe.recipe import from_values, read_resolved_recipe
    from transduce.settings import merged

    source, comma, target = (data or "").partition(",")
    if data and not comma:
        raise ValueError(f"--data {data}: name both sides, SOURCE,TARGET")
    if run is not None:
        refuse_options({"--preset": preset}, "is another model than that of the run")
        Model.read_config(run)  # raises ValueError if `run` is not a model directory
        # No test set is read, because the test sets of a fine-tuned run may have tags that its training corpora lack.
        unused = {"data": {"validation": None}, "training": {"patience": None}}
        values: dict[str, Any] = merged(read_resolved_recipe(run / RECIPE).as_dictionary(), unused)
        values["data"].pop("test")
    else:
        values = {"data": {"train": _default_corpus()}, "model": {"preset": preset or "tiny"}}
    if data:
        values = {**values, "data": {**values["data"], "train": {"source": source, "target": target}}}
    name = str(run or preset or "tiny")
    return from_values(values, changes, place=f"bench of {name}"), name


def _default_corpus() -> dict[str, Any]:
    """Returns the recipe entry for Multi30k if TRANSDUCE_DATA contains it, and for the embedded corpus otherwise."""
    folder = Path(os.environ.get("TRANSDUCE_DATA", "")).resolve() / "multi30k"
    if "TRANSDUCE_DATA" in os.environ and folder.is_dir():
        return {"source": str(folder / "train.en"), "target": str(folder / "train.de")}
    return {"embedded": "train"}


def _bench_translating(run: Path | None, data: str | None, runs: int, **options: Any) -> dict[str, Any]:
    """Measures the speed of translation with the trained model `run`; passes `options` to `Translator.load`.

    Raises ValueError if `run` is None, because a model with random weights would never end a sentence.
    """
    from transduce.bench.translation_speed import bench_translating
    from transduce.embedded import split
    from transduce.text.lines import read_lines
    from transduce.translation.search_method import SearchMethod
    from transduce.translation.translator import BATCH_TOKENS, Translator

    if run is None:
        raise ValueError("bench translate needs a trained model: name its directory, such as runs/demo of `make demo`")
    lines = read_lines(data) if data else [example.source for example in split("test")]
    translator = Translator.load(run, **options)
    method = SearchMethod(translator.decoding)
    return bench_translating(translator, lines, str(run), runs, method, BATCH_TOKENS)
