"""`transduce evaluate`: translates or parses a test set and scores the result."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from transduce.commands.bracket_table import bracket_table
from transduce.commands.console import say
from transduce.commands.input_checks import check_models
from transduce.commands.measure import say_of_short_lines
from transduce.commands.options import (
    JsonOption,
    MachineChoice,
    OverwriteOption,
    SearchChoice,
    TargetChoice,
    refuse_options,
    search_method_of_options,
)
from transduce.commands.output_file import check_writable, write_output
from transduce.commands.paired_texts import read_paired_texts
from transduce.runtime.json_text import json_text
from transduce.runtime.progress import stage

if TYPE_CHECKING:
    from transduce.corpus.corpus_kinds import CorpusSpec
    from transduce.corpus.readers import ParallelText
    from transduce.measure.scoring import Score
    from transduce.model_directory.config import Config
    from transduce.parsing.trees import Tree
    from transduce.translation.search_method import SearchMethod
    from transduce.translation.translator import Translator

METRICS = "bleu,chrf"
IDENTIFIED_LINES = 50  # number of lines at the start of a test set from which its language is identified


def evaluate(
    run: Annotated[list[Path], typer.Argument(help="Model directories; several form an ensemble.")],
    search: SearchChoice,
    languages: TargetChoice,
    machine: MachineChoice,
    source: Annotated[str | None, typer.Option(help="File with the source text.")] = None,
    reference: Annotated[
        str | None, typer.Option(help="File with the reference translations, or with gold trees for a parser.")
    ] = None,
    test: Annotated[str | None, typer.Option(help="Name of a test set in the recipe, or `validation`.")] = None,
    metric: Annotated[
        str | None, typer.Option(help="Metrics, as in `transduce measure` (default: bleu,chrf); not for parsers.")
    ] = None,
    bootstrap: Annotated[
        int | None, typer.Option(min=2, help="Number of bootstrap resamples for confidence intervals (default: none).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the translations or trees to this file.")] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Translates a test set and scores the translations; a parser parses the words of the gold trees instead."""
    if texts := [str(path) for path in run if path.is_file()]:
        raise ValueError(f"{' '.join(texts)}: name texts by options: --source FILE --reference FILE")
    check_models(run)
    from transduce.evaluation.score_test_set import request_for_corpus
    from transduce.model_directory.model import Model
    from transduce.translation.source_request import target_language_of
    from transduce.translation.translator import Translator

    device = machine.set_up()
    configs = [Model.read_config(directory) for directory in run]
    method = search_method_of_options(configs[0].decoding, search)
    # The test set is read and checked before the model translates, which may take hours.
    named = _named_test_set(run[0], test, {"--to": languages.to, "--tag": languages.tag})
    request = request_for_corpus(configs[0], named) if named else languages.request()
    run_model: Callable[[Translator, SearchMethod], Outputs]
    if configs[0].linearisation is None:
        corpus = _test_set(source, reference, named)
        _say_other_language(corpus.source, request.source_language or configs[0].source_language)
        language = target_language_of(configs[0], request)
        names = _checked_metrics(metric, language)
        run_model = partial(_translate, corpus, names, language, bootstrap)
    else:
        refuse_options({"--source": source, "--metric": metric}, "is not for parsers")
        run_model = partial(_parse, _gold_trees(reference, named), bootstrap)
    check_writable(out, overwrite=overwrite, inputs=[source, reference])
    translator = Translator.load(*run, device=device, precision=machine.precision_name, **request._asdict())
    with stage(str(test or source or reference)):
        outputs = run_model(translator, method)
    if out is not None:
        write_output("".join(f"{line}\n" for line in outputs.lines), out)
    if as_json:
        print(json_text(_report(outputs, configs, translator, method), indent=2))
    else:
        print(outputs.table)
        speed = f"{len(outputs.lines):,} sentences in {outputs.seconds:.1f} s"
        kinds = ", ".join(config.weights.kind for config in configs)
        say(f"{speed} ({outputs.tokens / outputs.seconds:,.0f} {outputs.unit}/s), {kinds} weights")


class Outputs(NamedTuple):
    """A model's output for a test set, with its scores both as JSON objects and as a printable table."""

    lines: list[str]
    tokens: int
    unit: str  # what the tokens are: subwords or symbols
    seconds: float
    scores: dict[str, Any]
    table: str


def _report(
    outputs: Outputs, configs: "Sequence[Config]", translator: "Translator", method: "SearchMethod"
) -> dict[str, Any]:
    """Returns the scores as JSON values, together with the weights used, the decoding settings and the speed."""
    weights = [config.weights.as_dictionary() for config in configs]
    return outputs.scores | {
        "weights": weights[0] if len(weights) == 1 else weights,
        "sentences": len(outputs.lines),
        "seconds": outputs.seconds,
        "tokens_per_second": outputs.tokens / outputs.seconds,
        "decoding": method.decoding.as_dictionary(),
        "precision": translator.torch_engine.precision,
        **({"target_language": translator.target_language} if translator.target_language else {}),
    }


def _translate(
    corpus: "ParallelText",
    metrics: Sequence[str],
    language: str | None,
    bootstrap: int | None,
    translator: "Translator",
    method: "SearchMethod",
) -> Outputs:
    """Translates the source side of `corpus` and scores the translations."""
    from transduce.evaluation.score_test_set import translate_test

    if "bleu" in metrics:
        say_of_short_lines(corpus.target, language)
    lines, tokens, seconds, results = translate_test(corpus, metrics, language, bootstrap, translator, method)
    objects = {name: score._asdict() for name, score in results.items()}
    return Outputs(lines, tokens, "subwords", seconds, objects, "\n".join(map(_format, results, results.values())))


def _parse(
    gold: "Sequence[tuple[Tree, Tree | None]]", bootstrap: int | None, translator: "Translator", method: "SearchMethod"
) -> Outputs:
    """Parses the words of the gold trees and scores the results.

    The score `repaired` is the number of outputs that were not valid trees and had to be repaired.
    """
    from transduce.parsing.tree_scores import parse_test

    lines, tokens, seconds, score, repaired = parse_test(gold, bootstrap, translator, method)
    objects = {"brackets": score.as_object(), "repaired": repaired}
    return Outputs(lines, tokens, "symbols", seconds, objects, f"{bracket_table(score)}\n{'repaired':22}{repaired:8}")


def _format(name: str, score: "Score") -> str:
    """Formats the name of a metric, its score, the confidence interval if there is one, and the signature."""
    interval = f"  [{score.low:.2f}, {score.high:.2f}]" if score.low is not None else ""
    return f"{name}  {score.score:.2f}{interval}  {score.signature}"


def _checked_metrics(metric: str | None, language: str | None) -> list[str]:
    """Returns the names of the metrics to compute, from the comma-separated list `metric` or else from METRICS.

    Raises ValueError for an unknown metric, and for a metric that needs a language if `language` is None.
    """
    from transduce.measure.metrics import metric_named

    names = [name.strip() for name in (metric or METRICS).split(",")]
    for name in names:
        metric_named(name, language=language)
    return names


def _named_test_set(run: Path, test: str | None, languages: Mapping[str, str | None]) -> "CorpusSpec | None":
    """Returns the test set called `test` in the run's recipe, or None if `test` is None.

    Raises ValueError if one of the options in `languages` is given too, because the test set determines them.
    """
    from transduce.recipe.corpora_of_run import named_test_set

    if test is None:
        return None
    refuse_options(languages, f"is recorded with the test set --test {test}")
    return named_test_set(run, test)


def _gold_trees(reference: str | None, named: "CorpusSpec | None") -> "list[tuple[Tree, Tree | None]]":
    """Reads and cleans gold trees, either from `reference`, a file or a folder, or from the test set `named`.

    Raises ValueError unless exactly one of the two is given.
    """
    from transduce.corpus.corpus_kinds import Trees
    from transduce.parsing.tree_scores import read_gold_trees_of

    if reference is not None and named is None:
        return read_gold_trees_of(Trees(trees=reference), reference)
    if named is None or reference is not None:
        raise ValueError("name what to evaluate on: --reference TREES, or --test NAME")
    return read_gold_trees_of(named, "--test")


def _say_other_language(sources: "Sequence[str]", code: str | None) -> None:
    """Prints a warning if the sources do not seem to be in the language `code`, from which the model translates.

    Does nothing if `code` is None or py3langid is not installed.
    """
    from transduce.inspection.languages import load_language_identifier
    from transduce.serving.language_names import LanguageDetector, language_name

    identify = None if code is None else load_language_identifier()
    if code is None or identify is None:
        return
    if other := LanguageDetector(identify).other_language(" ".join(sources[:IDENTIFIED_LINES]), code):
        name = language_name(other.language)
        say(
            f"warning: the source text seems to be {name}, and the model translates from {language_name(code)}: are "
            "source and reference exchanged?"
        )


def _test_set(source: str | None, reference: str | None, named: "CorpusSpec | None") -> "ParallelText":
    """Reads the test set, either from the files `source` and `reference` or from the recipe's test set `named`.

    Raises ValueError unless exactly one of the two is given.
    """
    from transduce.corpus.readers import ParallelText, read_parallel_text

    if named is not None and source is None and reference is None:
        return read_parallel_text(named)
    if source is None or reference is None or named is not None:
        raise ValueError("name what to evaluate on: --source FILE --reference FILE, or --test NAME")
    return ParallelText(*read_paired_texts(source, reference))
