"""`transduce evaluate`: translates a test set and measures the result."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.commands.console import say
from transduce.commands.options import (
    DeviceOption,
    JsonOption,
    MarginOption,
    OverwriteOption,
    PrecisionName,
    PrecisionOption,
    ThreadsOption,
)
from transduce.commands.output import check_writable, write_output
from transduce.runtime.json_text import json_text

if TYPE_CHECKING:
    from transduce.measure import Score
    from transduce.trainer.validation import ParallelText


def evaluate(
    run: Annotated[list[Path], typer.Argument(help="Model directories; several are an ensemble.")],
    source: Annotated[str | None, typer.Option(help="The text to translate.")] = None,
    reference: Annotated[str | None, typer.Option(help="Its reference translation.")] = None,
    test: Annotated[str | None, typer.Option(help="A test set that the recipe names, or `validation`.")] = None,
    metric: Annotated[str, typer.Option(help="Metrics, as in `transduce measure`.")] = "bleu,chrf",
    language: Annotated[
        str | None, typer.Option(help="Language of the translations, such as de; the model's if not given.")
    ] = None,
    bootstrap: Annotated[int | None, typer.Option(min=2, help="Resamples for confidence intervals.")] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the translations to this file.")] = None,
    overwrite: OverwriteOption = False,
    margin: MarginOption = None,
    as_json: JsonOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    precision: PrecisionOption = PrecisionName.FLOAT32,
) -> None:
    """Translates a test set and measures the result."""
    from transduce.measure import metric_named, scores
    from transduce.model_directory import Model
    from transduce.runtime.device import set_up_device
    from transduce.translation.search_method import search_method
    from transduce.translation.translator import Translator

    chosen = set_up_device(device, threads)
    configs = [Model.read_config(directory) for directory in run]
    corpus = _test_set(run[0], source, reference, test)
    language = language or configs[0].target_language
    names = [name.strip() for name in metric.split(",")]
    for name in names:  # checked now and not after hours of translating
        metric_named(name, language=language)
    check_writable(out, overwrite=overwrite)
    method = search_method(configs[0].decoding, margin=margin)
    translator = Translator.load(*run, device=str(chosen), precision=precision.value)
    began = time.perf_counter()
    translations = [best[0] for best in translator.translate_lines(corpus.source, method)]
    seconds = time.perf_counter() - began
    outputs = [translation.text for translation in translations]
    if out is not None:
        write_output("".join(f"{line}\n" for line in outputs), out)
    results = scores(outputs, [corpus.target], names, language=language, bootstrap=bootstrap)
    weights = [config.weights.as_dictionary() for config in configs]
    report = {
        "weights": weights[0] if len(weights) == 1 else weights,
        "sentences": len(outputs),
        "seconds": seconds,
        "tokens_per_second": sum(len(translation.tokens) + 1 for translation in translations) / seconds,
        "decoding": method.decoding.as_dictionary(),
        "precision": precision.value,
    }
    if as_json:
        print(json_text({name: score._asdict() for name, score in results.items()} | report, indent=2))
    else:
        _print(results, report, ", ".join(config.weights.kind for config in configs))


def _print(results: "dict[str, Score]", report: dict[str, Any], weights: str) -> None:
    """Prints a line for each metric on standard output, and the speed on standard error."""
    for name, score in results.items():
        interval = f"  [{score.low:.2f}, {score.high:.2f}]" if score.low is not None else ""
        print(f"{name}  {score.score:.2f}{interval}  {score.signature}")
    speed = f"{report['sentences']:,} sentences in {report['seconds']:.1f} s"
    say(f"{speed} ({report['tokens_per_second']:,.0f} subwords/s), {weights} weights")


def _test_set(run: Path, source: str | None, reference: str | None, test: str | None) -> "ParallelText":
    """Reads the test set: two files, or one that the run's recipe names."""
    from transduce.text.lines import read_texts
    from transduce.trainer.validation import ParallelText, named_test_set, read_parallel_text

    if test is not None and source is None and reference is None:
        return read_parallel_text(named_test_set(run, test))
    if source is None or reference is None or test is not None:
        raise ValueError("name what to evaluate on: --source FILE --reference FILE, or --test NAME")
    corpus = ParallelText(*read_texts(source, reference))
    if len(corpus.source) != len(corpus.target):
        counts = f"{len(corpus.source)} lines and {reference} has {len(corpus.target)}"
        raise ValueError(f"{source} has {counts}: they must be equally many")
    return corpus
