"""`transduce bench`."""

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.commands.console import aligned_table, say
from transduce.commands.options import PrecisionOption, refuse_options
from transduce.runtime.json_text import json_text

if TYPE_CHECKING:
    import torch

    from transduce.recipe import Recipe


STEPS = {"cpu": 20, "cuda": 200}  # of training that count


class Work(StrEnum):
    """What is measured."""

    TRAIN = "train"
    TRANSLATE = "translate"


def bench(
    work: Annotated[Work, typer.Argument(help="What to measure.")],
    run: Annotated[
        Path | None, typer.Argument(help="A model directory: to translate with, or whose recipe is trained.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="The model to train; tiny if neither it nor RUN is given.")] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE,TARGET",
            help="Two files to train on, or one to translate; else Multi30k of TRANSDUCE_DATA, or the embedded corpus.",
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="That count: steps, 20, on a GPU 200, or translations of the whole, 5.")
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(min=1, help="Subwords a side of the model that is trained; as many as the text has.")
    ] = None,
    change: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the recipe.")] = [],  # noqa: B006
    batch_tokens: Annotated[int | None, typer.Option(min=1, help="Source positions translated at once; 8192.")] = None,
    precision: Annotated[PrecisionOption | None, typer.Option(help="Of products while translating; float32.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, or one of several: cuda:1.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads that compute.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measures the speed of training steps, or of translating with a trained model."""
    from transduce.runtime.device import choose_device, keep_freed_memory, set_threads

    set_threads(threads)
    keep_freed_memory()
    chosen = choose_device(device)
    if work == Work.TRAIN:
        refuse_options({"--precision": precision}, "is for translating; --set training.precision=… is for training")
        refuse_options(
            {"--batch-tokens": batch_tokens}, "is for translating; --set training.batch_tokens=… is for training"
        )
        recipe, name = _recipe(run, preset, data, change, chosen)
        found = _training(recipe, name, steps or STEPS[chosen.type], chosen, vocabulary)
    else:
        refuse_options({"--preset": preset, "--set": change or None, "--vocabulary": vocabulary}, "is for training")
        found = _translating(run, data, steps or 5, chosen, precision or PrecisionOption.FLOAT32, batch_tokens)
    if as_json:
        print(json_text(found, indent=2))
    else:
        _print(found)


def _print(figures: dict[str, Any]) -> None:
    """Prints the figures and the settings as tables."""
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
    rows.append(("peak memory", f"{figures['peak_memory'] / 2**20:,.0f} MiB"))
    print(aligned_table(rows))
    print()
    print(aligned_table([("setting", "value"), *((name, str(value)) for name, value in figures["settings"].items())]))


def _recipe(
    run: Path | None, preset: str | None, data: str | None, changes: list[str], device: "torch.device"
) -> tuple["Recipe", str]:
    """What is trained, and its name: the recipe of a run, or a preset on the embedded corpus; or on two files."""
    from transduce.model_directory import RECIPE, Model
    from transduce.recipe import from_values, read_resolved_recipe

    source, comma, target = (data or "").partition(",")
    if data and not comma:
        raise ValueError(f"--data {data}: name both sides, SOURCE,TARGET")
    if run is not None:
        refuse_options({"--preset": preset}, "is another model than that of the run")
        Model.read_config(run)  # a folder that is no model is told as one
        values: dict[str, Any] = read_resolved_recipe(run / RECIPE).as_dictionary()
    else:
        values = {"data": {"train": _usual_text()}, "model": {"preset": preset or "tiny"}}
        if device.type == "cuda":  # which holds a whole step, and idles between small pieces
            values["training"] = {"micro_batches": 1}
    if data:
        values = {**values, "data": {**values["data"], "train": {"source": source, "target": target}}}
    name = str(run or preset or "tiny")
    return from_values(values, changes, place=f"bench of {name}"), name


def _usual_text() -> dict[str, Any]:
    """Multi30k where it is at hand, and else the corpus that comes with the package."""
    folder = Path(os.environ.get("TRANSDUCE_DATA", "")).resolve() / "multi30k"
    if "TRANSDUCE_DATA" in os.environ and folder.is_dir():
        return {"source": str(folder / "train.en"), "target": str(folder / "train.de")}
    return {"embedded": "train"}


def _training(
    recipe: "Recipe", name: str, steps: int, device: "torch.device", vocabulary: int | None
) -> dict[str, Any]:
    """Steps of training."""
    from transduce.bench import bench_training

    return bench_training(recipe, name, device, steps, say, vocabulary)


def _translating(
    run: Path | None, data: str | None, runs: int, device: Any, precision: PrecisionOption, batch_tokens: int | None
) -> dict[str, Any]:
    """Translating with a trained model; random weights never end a sentence and would measure something else."""
    from transduce.bench import bench_translating
    from transduce.embedded import split
    from transduce.text.lines import read_lines
    from transduce.translation.line_translator import BATCH_TOKENS
    from transduce.translation.search_method import SearchMethod
    from transduce.translation.translator import Translator

    if run is None:
        raise ValueError("bench translate needs a trained model: name its directory, such as runs/demo of `make demo`")
    lines = read_lines(data) if data else [example.source for example in split("test")]
    translator = Translator.load(run, device=str(device), precision=precision.value)
    method = SearchMethod(translator.decoding)
    return bench_translating(translator, lines, str(run), runs, method, batch_tokens or BATCH_TOKENS)
