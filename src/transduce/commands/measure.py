"""`transduce measure`: scores any output against references, and compares two or more outputs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.commands.bracket_table import bracket_table, format_brackets
from transduce.commands.console import say
from transduce.commands.options import JsonOption, OverwriteOption, refuse_options
from transduce.commands.output_file import check_writable
from transduce.commands.paired_texts import read_paired_texts
from transduce.commands.system_differences import show_differences
from transduce.runtime.json_text import json_text

if TYPE_CHECKING:
    from transduce.measure.scoring import Comparison, Score

RESAMPLES = 1000  # default number of bootstrap resamples for a comparison, and for the metric brackets


def measure(
    outputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="OUTPUT...", help="Files with translations or trees, or - for standard input (the default)."
        ),
    ] = None,
    *,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="File with references; repeat for several references per line; not for comet-qe."
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="File with the source text, for comet, comet-qe and --differences."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Model for comet or comet-qe: its name on the Hugging Face hub, or a checkpoint file.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="One or more of bleu,chrf,ter,spbleu,bleu-lowercased-tokenised,bleu-paper,comet,comet-qe; "
            "or brackets, for trees (default: bleu)."
        ),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            help="Language of the outputs, such as de. It determines the tokeniser of bleu, and is required for "
            "bleu-lowercased-tokenised and bleu-paper."
        ),
    ] = None,
    tokenize: Annotated[
        str | None, typer.Option(help="Name of the sacreBLEU tokeniser for bleu, instead of the default one.")
    ] = None,
    parameters: Annotated[
        str | None, typer.Option(metavar="FILE", help="EVALB parameter file for brackets (default: COLLINS.prm).")
    ] = None,
    bootstrap: Annotated[
        int | None,
        typer.Option(
            help="Number of bootstrap resamples (default: 1000 to compare outputs and for brackets, otherwise none)."
        ),
    ] = None,
    differences: Annotated[
        bool,
        typer.Option(
            "--differences",
            help="Show where two outputs differ, broken down by length, word frequency, n-gram and sentence.",
        ),
    ] = False,
    train: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="With --differences: text in which to count word frequencies (default: the reference)."
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write --differences to an HTML page.")] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Scores outputs; if there are several, compares each with the first, the baseline, by a paired bootstrap test."""
    paths, references = outputs or ["-"], reference or []
    if differences or html is not None:
        unused = {"--metric": metric, "--tokenize": tokenize, "--model": model, "--parameters": parameters}
        refuse_options(unused, "is not for --differences, which shows bleu and chrf")
        if len(paths) != 2 or len(references) != 1:
            raise ValueError("--differences shows where two outputs differ: name two OUTPUTs and one --reference FILE")
        check_writable(html, overwrite=overwrite, option="--html")
        show_differences(
            (paths[0], paths[1]),
            references[0],
            source,
            train,
            language=language,
            bootstrap=RESAMPLES if bootstrap is None else bootstrap,
            html=html,
            as_json=as_json,
        )
        return
    refuse_options({"--train": train}, "is for --differences")
    metrics = [name.strip() for name in (metric or "bleu").split(",")]
    if not references and metrics != ["comet-qe"]:
        raise ValueError("there is no reference to measure against: give --reference FILE")
    if "brackets" in metrics:
        if len(metrics) > 1 or len(references) > 1:
            raise ValueError("brackets measures trees, which are no translations: give no other metric, one reference")
        refuse_options({"--tokenize": tokenize, "--language": language}, "is for translations, not for brackets")
        refuse_options({"--source": source, "--model": model}, "is for the metrics comet and comet-qe")
        resamples = RESAMPLES if bootstrap is None else bootstrap
        _measure_brackets(paths, references[0], parameters, resamples, as_json=as_json)
        return
    refuse_options({"--parameters": parameters}, "is for the metric brackets")
    if "bleu" not in metrics:
        refuse_options({"--tokenize": tokenize}, "is for the metric bleu")
    _check_comet(metrics, references, source, model)
    names = [*paths, *references, *filter(None, [source])]
    texts = read_paired_texts(*names)
    systems, others = texts[: len(paths)], texts[len(paths) : len(paths) + len(references)]
    by_metric = _compare_by_metrics(metrics, systems, others, language, tokenize, bootstrap)
    by_metric.update(_compare_by_comet(metrics, systems, texts[-1], others, model, bootstrap))
    comparisons = {name: by_metric[name] for name in metrics}
    if "bleu" in metrics and tokenize is None:
        say_of_short_lines([line for reference in others for line in reference], language)
    if len(systems) == 1:
        _print_scores({name: comparison.baseline for name, comparison in comparisons.items()}, as_json=as_json)
    else:
        _print_comparisons(comparisons, paths, as_json=as_json)


def say_of_short_lines(references: Sequence[str], language: str | None) -> None:
    """Prints a note if the references are so short that every output has a BLEU of 0."""
    from transduce.measure.metrics import remark_on_short_lines

    if remark := remark_on_short_lines(references, language=language):
        say(f"{remark}; chrf (--metric chrf) measures short lines")


def _check_comet(metrics: list[str], references: list[str], source: str | None, model: str | None) -> None:
    """Raises ValueError if an option that comet or comet-qe needs is missing, or if one is given without them."""
    from transduce.measure.comet import COMET_MODELS

    neural = [name for name in metrics if name in COMET_MODELS]
    if not neural:
        refuse_options({"--source": source, "--model": model}, "is for the metrics comet and comet-qe")
    elif source is None:
        raise ValueError(f"--metric {neural[0]} reads the text that was translated too: give --source FILE")
    if len(neural) > 1:
        refuse_options({"--model": model}, "is for one of comet and comet-qe")
    if metrics == ["comet-qe"]:
        refuse_options({"--reference": references or None}, "is not for comet-qe, which needs none")
    if "comet" in metrics and len(references) > 1:
        raise ValueError("comet takes one reference: give --reference once")


def _compare_by_metrics(
    metrics: list[str],
    systems: list[list[str]],
    references: list[list[str]],
    language: str | None,
    tokenize: str | None,
    bootstrap: int | None,
) -> "dict[str, Comparison]":
    """Compares systems by each metric except comet and comet-qe; a single system is scored without a comparison."""
    from transduce.measure.comet import COMET_MODELS
    from transduce.measure.scoring import Comparison, compare, scores

    names = [name for name in metrics if name not in COMET_MODELS]
    if not names:
        return {}
    if len(systems) > 1:
        resamples = RESAMPLES if bootstrap is None else bootstrap
        return compare(systems, references, names, language=language, tokenize=tokenize, bootstrap=resamples)
    results = scores(systems[0], references, names, language=language, tokenize=tokenize, bootstrap=bootstrap)
    return {name: Comparison(score, ()) for name, score in results.items()}


def _compare_by_comet(
    metrics: list[str],
    systems: list[list[str]],
    source: list[str],
    references: list[list[str]],
    model: str | None,
    bootstrap: int | None,
) -> "dict[str, Comparison]":
    """Compares systems by each of comet and comet-qe that `metrics` contains."""
    from transduce.measure.comet import COMET_MODELS, compare_by_comet, load_comet
    from transduce.runtime.device import choose_device

    resamples = RESAMPLES if bootstrap is None and len(systems) > 1 else bootstrap
    results = {}
    for name in metrics:
        if name in COMET_MODELS:
            comet = load_comet(name, model, gpus=int(choose_device("auto").type == "cuda"))
            lines = references[0] if name == "comet" else None
            results[name] = compare_by_comet(comet, systems, source, lines, resamples)
    return results


def _print_scores(scores: dict[str, "Score"], *, as_json: bool) -> None:
    """Prints one line for each metric, or a JSON object whose keys are the metrics."""
    if as_json:
        print(json_text({name: score._asdict() for name, score in scores.items()}, indent=2))
        return
    width = max(map(len, scores))
    for name, score in scores.items():
        print(f"{name:{width}}  {_format(score)}  {score.signature}")


def _print_comparisons(comparisons: dict[str, "Comparison"], paths: list[str], *, as_json: bool) -> None:
    """Prints the signature of each metric and a line for each output, or a JSON object whose keys are the metrics."""
    if as_json:
        objects = {name: _as_object(comparison, paths) for name, comparison in comparisons.items()}
        print(json_text(objects, indent=2))
        return
    from transduce.measure.bootstrap import describe_p

    width = max(map(len, paths))
    for name, comparison in comparisons.items():
        print(f"{name}  {comparison.baseline.signature}")
        print(f"  {paths[0]:{width}}  {_format(comparison.baseline)}  baseline")
        for path, (score, delta, p) in zip(paths[1:], comparison.differences, strict=True):
            print(f"  {path:{width}}  {_format(score)}  {delta:+.2f}, {describe_p(p)}")


def _as_object(comparison: "Comparison", paths: list[str]) -> dict[str, object]:
    """Converts a comparison to a JSON object.

    The object contains the score of the baseline, with its file as `output`. `compared` lists the other outputs, each
    with its difference from the baseline as `delta` and its p-value as `p`.
    """
    others = [
        {"output": path, **score._asdict(), "delta": delta, "p": p}
        for path, (score, delta, p) in zip(paths[1:], comparison.differences, strict=True)
    ]
    return {"output": paths[0], **comparison.baseline._asdict(), "compared": others}


def _format(score: "Score") -> str:
    interval = "" if score.low is None else f"  [{score.low:.2f}, {score.high:.2f}]"
    return f"{score.score:6.2f}{interval}"


def _measure_brackets(
    paths: list[str], reference: str, parameters: str | None, resamples: int, *, as_json: bool
) -> None:
    """Reads parse trees and prints their scores; if there are several outputs, the first is the baseline."""
    from transduce.measure.bootstrap import describe_p
    from transduce.parsing.bracket_files import read_gold_trees, read_output_trees
    from transduce.parsing.bracket_scores import bracket_scores, compare_brackets
    from transduce.parsing.brackets import COLLINS, parse_parameters
    from transduce.text.lines import read_lines, read_texts

    chosen = COLLINS if parameters is None else parse_parameters(read_lines(parameters), parameters)
    gold_lines, *texts = read_texts(reference, *paths)
    gold = read_gold_trees(gold_lines, reference)
    outputs = [read_output_trees(lines, path, gold) for path, lines in zip(paths, texts, strict=True)]
    if len(outputs) == 1:
        score = bracket_scores(gold.sentences, outputs[0], chosen, resamples)
        print(json_text({"brackets": score.as_object()}, indent=2) if as_json else bracket_table(score))
        return
    comparison = compare_brackets(outputs, gold.sentences, chosen, resamples)
    if as_json:
        others = [
            {"output": path, **score.as_object(), "delta": delta, "p": p}
            for path, (score, delta, p) in zip(paths[1:], comparison.differences, strict=True)
        ]
        compared = {"output": paths[0], **comparison.baseline.as_object(), "compared": others}
        print(json_text({"brackets": compared}, indent=2))
        return
    width = max(map(len, paths))
    differences = ["baseline", *(f"{delta:+.2f}, {describe_p(p)}" for _, delta, p in comparison.differences)]
    scores = [comparison.baseline, *(score for score, _, _ in comparison.differences)]
    print(f"brackets  {comparison.baseline.signature}")
    for path, score, difference in zip(paths, scores, differences, strict=True):
        parts = f"recall {score.recall:.2f}  precision {score.precision:.2f}"
        failed = score.totals.sentences - score.totals.valid
        print(f"  {path:{width}}  {format_brackets(score)}  {parts}  not scored {failed:,}  {difference}")
