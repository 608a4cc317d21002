"""`transduce evaluate`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.commands.console import say
from transduce.commands.options import MarginOption, OverwriteOption, PrecisionOption, decoding_settings
from transduce.commands.output import check_writable, write_output
from transduce.runtime.json_text import json_text

if TYPE_CHECKING:
    from transduce.measure import Score
    from transduce.trainer.validation import ParallelText


def evaluate(
    run: Annotated[list[Path], typer.Argument(help="Model directories; several are an ensemble.")],
    source: Annotated[str | None, typer.Option(help="The text to translate.")] = None,
    reference: Annotated[str | None, typer.Option(help="What its translation should be.")] = None,
    test: Annotated[str | None, typer.Option(help="A test set that the recipe names, or `validation`.")] = None,
    metric: Annotated[str, typer.Option(help="Metrics, as in `transduce measure`.")] = "bleu,chrf",
    language: Annotated[
        str | None, typer.Option(help="Of the translations, such as de; the model's target language if not given.")
    ] = None,
    bootstrap: Annotated[int | None, typer.Option(min=2, help="Resamples for intervals.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the translations here.")] = None,
    overwrite: OverwriteOption = False,
    margin: MarginOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, or one of several: cuda:1.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads that compute.")] = None,
    precision: Annotated[
        PrecisionOption, typer.Option(help="Of products: int8 is fast on a CPU, bfloat16 on a GPU.")
    ] = PrecisionOption.FLOAT32,
) -> None:
    """Translates a test set and measures the result."""
    from transduce.measure import metric_named, scores
    from transduce.model_directory import Model
    from transduce.runtime.device import choose_device, keep_freed_memory, set_threads
    from transduce.translation.search_method import SearchMethod
    from transduce.translation.translator import Translator

    set_threads(threads)
    keep_freed_memory()
    configs = [Model.read_config(each) for each in run]
    corpus = _corpus(run[0], source, reference, test)
    language = language or configs[0].target_language
    names = [name.strip() for name in metric.split(",")]
    for name in names:  # a wrong one is told now, not after hours of translating
        metric_named(name, language=language)
    check_writable(out, overwrite=overwrite)
    decoding = decoding_settings(run[0], {"margin": margin})
    translator = Translator.load(*run, device=str(choose_device(device)), precision=precision.value)
    began = time.perf_counter()
    translations = [best[0] for best in translator.translate_lines(corpus.source, SearchMethod(decoding))]
    seconds = time.perf_counter() - began
    outputs = [translation.text for translation in translations]
    if out is not None:
        write_output("".join(f"{line}\n" for line in outputs), out)
    found = scores(outputs, [corpus.target], names, language=language, bootstrap=bootstrap)
    weights = [config.weights.as_dictionary() for config in configs]
    report = {
        "weights": weights[0] if len(weights) == 1 else weights,
        "sentences": len(outputs),
        "seconds": seconds,
        "tokens_per_second": sum(len(translation.tokens) + 1 for translation in translations) / seconds,
        "decoding": decoding.as_dictionary(),
        "precision": precision.value,
    }
    if as_json:
        print(json_text({name: score._asdict() for name, score in found.items()} | report, indent=2))
    else:
        _print(found, report, ", ".join(each["kind"] for each in weights))


def _print(found: "dict[str, Score]", report: dict[str, Any], weights: str) -> None:
    """A line a metric on standard output; how long it took on standard error."""
    for name, score in found.items():
        interval = f"  [{score.low:.2f}, {score.high:.2f}]" if score.low is not None else ""
        print(f"{name}  {score.score:.2f}{interval}  {score.signature}")
    speed = f"{report['sentences']:,} sentences in {report['seconds']:.1f} s"
    say(f"{speed} ({report['tokens_per_second']:,.0f} subwords/s), {weights} weights")


def _corpus(run: Path, source: str | None, reference: str | None, test: str | None) -> "ParallelText":
    """The test set: two files, or one that the run's recipe names."""
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
