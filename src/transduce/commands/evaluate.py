"""`transduce evaluate`."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.commands.options import Products
from transduce.commands.said import say
from transduce.commands.written import ready, write

if TYPE_CHECKING:
    from transduce.measure import Score
    from transduce.validation import Corpus


def evaluate(
    run: Annotated[list[Path], typer.Argument(help="Model directories; several are an ensemble.")],
    source: Annotated[str | None, typer.Option(help="The text to translate.")] = None,
    reference: Annotated[str | None, typer.Option(help="What its translation should be.")] = None,
    test: Annotated[str | None, typer.Option(help="A test set that the recipe names, or `validation`.")] = None,
    metric: Annotated[str, typer.Option(help="Metrics, as in `transduce measure`.")] = "bleu,chrf",
    bootstrap: Annotated[int | None, typer.Option(min=2, help="Resamples for intervals.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the translations here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, or one of several: cuda:1.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads that compute.")] = None,
    precision: Annotated[
        Products, typer.Option(help="Of products: int8 is fast on a CPU, bfloat16 on a GPU.")
    ] = Products.FLOAT32,
) -> None:
    """Translates a test set and measures the result."""
    from transduce.directory import Model
    from transduce.machine import choose_device, keep_pages, use_threads
    from transduce.measure import metric_named, scores
    from transduce.translator import Translator

    use_threads(threads)
    keep_pages()
    corpus = _corpus(run[0], source, reference, test)
    config = Model.read_config(run[0])
    names = [name.strip() for name in metric.split(",")]
    for name in names:  # a wrong one is told now, not after hours of translating
        metric_named(name, language=config.target_language)
    ready(out)
    translator = Translator.load(*run, device=str(choose_device(device)), precision=precision.value)
    began = time.perf_counter()
    translations = [best[0] for best in translator.translate(corpus.source)]
    seconds = time.perf_counter() - began
    outputs = [translation.text for translation in translations]
    if out is not None:
        write("".join(f"{line}\n" for line in outputs), out)
    found = scores(outputs, [corpus.target], names, language=config.target_language, bootstrap=bootstrap)
    report = {
        "weights": config.weights.as_dictionary(),
        "sentences": len(outputs),
        "seconds": seconds,
        "tokens_per_second": sum(len(translation.words) + 1 for translation in translations) / seconds,
        "decoding": translator.decoding.as_dictionary(),
    }
    if as_json:
        print(json.dumps({name: score._asdict() for name, score in found.items()} | report, indent=2))
    else:
        _print(found, report)


def _print(found: "dict[str, Score]", report: dict[str, Any]) -> None:
    """A line a metric on standard output; how long it took on standard error."""
    for name, score in found.items():
        interval = f"  [{score.low:.2f}, {score.high:.2f}]" if score.low is not None else ""
        print(f"{name}  {score.score:.2f}{interval}  {score.signature}")
    speed = f"{report['sentences']:,} sentences in {report['seconds']:.1f} s"
    say(f"{speed} ({report['tokens_per_second']:,.0f} subwords/s), {report['weights']['kind']} weights")


def _corpus(run: Path, source: str | None, reference: str | None, test: str | None) -> "Corpus":
    """The test set: two files, or one that the run's recipe names."""
    from transduce.measure import read_lines
    from transduce.validation import Corpus, corpus_of, named_corpus

    if test is not None and source is None and reference is None:
        return corpus_of(named_corpus(run, test))
    if source is None or reference is None or test is not None:
        raise ValueError("name what to evaluate on: --source FILE --reference FILE, or --test NAME")
    corpus = Corpus(read_lines(source), read_lines(reference))
    if len(corpus.source) != len(corpus.target):
        counts = f"{len(corpus.source)} lines and {reference} has {len(corpus.target)}"
        raise ValueError(f"{source} has {counts}: they must be equally many")
    return corpus
