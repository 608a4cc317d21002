"""`transduce measure`: scores any output against references, and compares two or more outputs."""

from typing import TYPE_CHECKING, Annotated

import typer

from transduce.commands.options import refuse_options
from transduce.runtime.json_text import json_text

if TYPE_CHECKING:
    from transduce.measure import Comparison, Score

__all__ = ["measure"]


def measure(
    outputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="OUTPUT...", help="Translations, a line a sentence; - or nothing: standard input."),
    ] = None,
    *,
    reference: Annotated[
        list[str], typer.Option(metavar="FILE", help="What they should be; again for a second reference of each line.")
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
        int | None, typer.Option(help="Resamples for intervals and for the paired test (there 1000 if not given).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Score outputs; two or more are compared by paired bootstrap, the first being the baseline."""
    from transduce.measure import compare, scores
    from transduce.text.lines import read_texts

    paths = outputs or ["-"]
    texts = read_texts(*paths, *reference)
    systems, references = texts[: len(paths)], texts[len(paths) :]
    metrics = [name.strip() for name in metric.split(",")]
    if "bleu" not in metrics:
        refuse_options({"--tokenize": tokenize}, "is for the metric bleu")
    if len(systems) == 1:
        found = scores(systems[0], references, metrics, language=language, tokenize=tokenize, bootstrap=bootstrap)
        _print_scores(found, as_json=as_json)
    else:
        resamples = 1000 if bootstrap is None else bootstrap
        compared = compare(systems, references, metrics, language=language, tokenize=tokenize, bootstrap=resamples)
        _print_comparisons(compared, paths, as_json=as_json)


def _print_scores(scores: dict[str, "Score"], *, as_json: bool) -> None:
    """A line a metric, or an object of them."""
    if as_json:
        print(json_text({name: score._asdict() for name, score in scores.items()}, indent=2))
        return
    width = max(map(len, scores))
    for name, score in scores.items():
        print(f"{name:{width}}  {_shown(score)}  {score.signature}")


def _print_comparisons(compared: dict[str, "Comparison"], paths: list[str], *, as_json: bool) -> None:
    """A line a metric and one for each output below it; in JSON, the others stand in the baseline's object."""
    if as_json:
        print(json_text({name: _as_object(found, paths) for name, found in compared.items()}, indent=2))
        return
    width = max(map(len, paths))
    for name, found in compared.items():
        print(f"{name}  {found.baseline.signature}")
        print(f"  {paths[0]:{width}}  {_shown(found.baseline)}  baseline")
        for path, (score, delta, p) in zip(paths[1:], found.differences, strict=True):
            print(f"  {path:{width}}  {_shown(score)}  {delta:+.2f}, p = {p:.4f}")


def _as_object(found: "Comparison", paths: list[str]) -> dict[str, object]:
    """The baseline's score with `output`, its file, and `compared`: the others with `delta` and `p`."""
    others = [
        {"output": path, **score._asdict(), "delta": delta, "p": p}
        for path, (score, delta, p) in zip(paths[1:], found.differences, strict=True)
    ]
    return {"output": paths[0], **found.baseline._asdict(), "compared": others}


def _shown(score: "Score") -> str:
    interval = "" if score.low is None else f"  [{score.low:.2f}, {score.high:.2f}]"
    return f"{score.score:6.2f}{interval}"
