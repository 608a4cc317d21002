"""`transduce measure`: scores any output against references, and compares two or more outputs."""

from typing import TYPE_CHECKING, Annotated

import typer

from transduce.commands.options import JsonOption, refuse_options
from transduce.runtime.json_text import json_text

if TYPE_CHECKING:
    from transduce.measure import Comparison, Score

__all__ = ["measure"]

RESAMPLES = 1000  # of a comparison


def measure(
    outputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="OUTPUT...", help="Translations, one a line; standard input if - or nothing is given."),
    ] = None,
    *,
    reference: Annotated[
        list[str], typer.Option(metavar="FILE", help="References; again for another reference of each line.")
    ],
    metric: Annotated[
        str, typer.Option(help="One or several of bleu,chrf,ter,bleu-lowercased-tokenised,bleu-paper.")
    ] = "bleu",
    language: Annotated[
        str | None, typer.Option(help="Language of the outputs, such as de; the last two metrics need it.")
    ] = None,
    tokenize: Annotated[
        str | None, typer.Option(help="Tokeniser of bleu, one of sacreBLEU's; 13a if not given.")
    ] = None,
    bootstrap: Annotated[
        int | None, typer.Option(help="Resamples for confidence intervals and the paired test (there 1000).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Scores outputs; compares two or more with the first, the baseline, by a paired bootstrap test."""
    from transduce.measure import compare, scores
    from transduce.text.lines import read_texts

    paths = outputs or ["-"]
    texts = read_texts(*paths, *reference)
    systems, references = texts[: len(paths)], texts[len(paths) :]
    metrics = [name.strip() for name in metric.split(",")]
    if "bleu" not in metrics:
        refuse_options({"--tokenize": tokenize}, "is for the metric bleu")
    if len(systems) == 1:
        results = scores(systems[0], references, metrics, language=language, tokenize=tokenize, bootstrap=bootstrap)
        _print_scores(results, as_json=as_json)
    else:
        resamples = RESAMPLES if bootstrap is None else bootstrap
        comparisons = compare(systems, references, metrics, language=language, tokenize=tokenize, bootstrap=resamples)
        _print_comparisons(comparisons, paths, as_json=as_json)


def _print_scores(scores: dict[str, "Score"], *, as_json: bool) -> None:
    """Prints a line for each metric, or a JSON object by metric."""
    if as_json:
        print(json_text({name: score._asdict() for name, score in scores.items()}, indent=2))
        return
    width = max(map(len, scores))
    for name, score in scores.items():
        print(f"{name:{width}}  {_format(score)}  {score.signature}")


def _print_comparisons(comparisons: dict[str, "Comparison"], paths: list[str], *, as_json: bool) -> None:
    """Prints for each metric its signature and a line for each output, or a JSON object by metric."""
    if as_json:
        objects = {name: _as_object(comparison, paths) for name, comparison in comparisons.items()}
        print(json_text(objects, indent=2))
        return
    width = max(map(len, paths))
    for name, comparison in comparisons.items():
        print(f"{name}  {comparison.baseline.signature}")
        print(f"  {paths[0]:{width}}  {_format(comparison.baseline)}  baseline")
        for path, (score, delta, p) in zip(paths[1:], comparison.differences, strict=True):
            print(f"  {path:{width}}  {_format(score)}  {delta:+.2f}, p = {p:.4f}")


def _as_object(comparison: "Comparison", paths: list[str]) -> dict[str, object]:
    """Returns the baseline's score with its file as `output`; `compared` lists the other outputs, `delta` and `p`."""
    others = [
        {"output": path, **score._asdict(), "delta": delta, "p": p}
        for path, (score, delta, p) in zip(paths[1:], comparison.differences, strict=True)
    ]
    return {"output": paths[0], **comparison.baseline._asdict(), "compared": others}


def _format(score: "Score") -> str:
    """Returns a score with its confidence interval."""
    interval = "" if score.low is None else f"  [{score.low:.2f}, {score.high:.2f}]"
    return f"{score.score:6.2f}{interval}"
