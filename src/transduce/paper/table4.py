"""Reproduces Table 4, which compares parsers on the same training trees and the same test set (section 6.3)."""

import logging
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from transduce.corpus.corpus_kinds import CorpusSpec
from transduce.corpus.readers import read_parallel_text
from transduce.model_directory.manifest import fingerprint, has_model
from transduce.model_directory.model import Model
from transduce.paper.experiment_scales import ExperimentOptions, Treebank, treebank_of_scale
from transduce.paper.finished_runs import one_of, recorded_seeds
from transduce.paper.printing import STYLES, panels, render_page
from transduce.paper.system_presets import read_data
from transduce.paper.trials import RESAMPLES, Budget, Trial, TrialResult, read_trial, run_trial
from transduce.parsing.bracket_scores import bracket_scores
from transduce.parsing.parser import Parser
from transduce.parsing.tree_scores import read_trees_of
from transduce.recipe.presets import Values
from transduce.recipe.recipe import Recipe, from_values
from transduce.run.train import TrainOptions
from transduce.runtime.device import choose_device
from transduce.storage.atomic import atomic_write_text
from transduce.translation.search_method import SearchMethod, search_method
from transduce.translation.translator import Translator

_log = logging.getLogger("transduce")

BINS = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 1000))  # numbers of words in a sentence
SAMPLE = 500  # number of evenly spaced test sentences that are parsed with and without constrained decoding
LENGTHS, SEARCHES = "by length", "searches"  # names of measures
TEACHER = "in-order"

# The paper's Table 4: parser, training, F1 on section 23 of the Wall Street Journal.
PUBLISHED = [tuple(row) for row in read_data("published.yaml")["table4"]]


class ParserRow(NamedTuple):
    """A parser that we train: its model, its linearisation, and the F1 of the paper's row with which it is compared."""

    name: str
    what: str  # description, which is printed
    model: Values  # the whole model, or changes to the scale's
    published: float | None = None
    linearisation: str = "top_down"
    is_self_trained: bool = False


ROWS = [ParserRow(name, **values) for name, values in read_data("parsers.yaml").items()]
NAMES = [row.name for row in ROWS]


class ParserResult(NamedTuple):
    """A parser and the results of its runs, one for each seed."""

    name: Annotated[str, one_of(NAMES)]
    seeds: list[TrialResult]

    @property
    def row(self) -> ParserRow:
        """The definition of the parser."""
        return next(row for row in ROWS if row.name == self.name)


class ParserComparison(NamedTuple):
    """The results of all parsers.

    `raw_text` describes the text that the self-trained parser reads in addition to the treebank.
    """

    raw_text: str  # description
    parsers: list[ParserResult]


def run_table4(options: ExperimentOptions) -> tuple[str, ParserComparison]:
    """Trains the selected parsers with several seeds.

    Returns a description of the treebank and the recorded results of all parsers.
    """
    treebank, work = treebank_of_scale(options.scale), options.work
    names, minutes = options.select_rows(NAMES), options.minutes
    budget = Budget("steps" if treebank.minutes is None else "time", treebank.steps, minutes or treebank.minutes)
    for seed in range(1, options.seeds + 1):
        for row in ROWS:
            trial = _trial(treebank, row, seed, work)
            is_ready = not row.is_self_trained or read_trial(trial, work, budget) is not None
            if row.name in names and (is_ready or _parse_raw_text(treebank, work, seed, options.training)):
                run_trial(trial, work, [budget], options.training)
    parsers = []
    for row in ROWS:
        trials = (_trial(treebank, row, seed, work) for seed in recorded_seeds(work, row.name))
        results = (read_trial(trial, work, budget) for trial in trials)
        parsers.append(ParserResult(row.name, [result for result in results if result is not None]))
    return treebank.corpus, ParserComparison(treebank.raw_text, parsers)


def recipe_of(treebank: Treebank, row: ParserRow, seed: int, work: Path) -> Recipe:
    """Returns the recipe of a row.

    A self-trained parser is also trained on the trees that `_parse_raw_text` writes to `work`.
    """
    parsed = [{"trees": str(_self_trained(work, seed)), "weight": treebank.raw_weight}]
    # A model of a different kind from the scale's model inherits none of its settings.
    model = {"preset": treebank.model["preset"], **row.model} if "kind" in row.model else treebank.model | row.model
    values = {
        "data": {
            "train": [*treebank.train, *(parsed if row.is_self_trained else [])],
            "test": {"test": treebank.test},
            "linearisation": {"kind": row.linearisation},
            "source_language": "en",
            "max_length": 512,
        },
        "subwords": treebank.subwords,
        "model": model,
        "training": {**treebank.training, "validate_every": None, "seed": seed},
        "decoding": treebank.decoding,
    }
    return from_values(values, place=row.name)


def _trial(treebank: Treebank, row: ParserRow, seed: int, work: Path) -> Trial:
    recipe = recipe_of(treebank, row, seed, work)
    test = recipe.data.test["test"]
    measures: dict[str, Callable[[Model, Sequence[str]], Any]] = {
        LENGTHS: partial(_score_by_length, test),
        SEARCHES: partial(_compare_searches, test),
    }
    return Trial(f"{row.name}-{seed}", recipe, test, measures)


def _self_trained(work: Path, seed: int) -> Path:
    """Returns the path of the file with the trees that the parser `TEACHER` has written."""
    return work / f"self-trained-{seed}.trees"


def _parse_raw_text(treebank: Treebank, work: Path, seed: int, options: TrainOptions) -> bool:
    """Makes sure that there are trees of the raw sentences, and returns False if they cannot be made.

    The sentences are parsed by the parser `TEACHER`. If it has been trained further since then, they are parsed again,
    unless a student has already begun to train on the trees.
    """
    path, teacher = _self_trained(work, seed), work / f"{TEACHER}-{seed}"
    parsed_by = path.with_suffix(".teacher")  # the fingerprint of the parser that wrote the trees
    if path.exists():
        if not parsed_by.exists() or not has_model(teacher) or parsed_by.read_text("utf-8") == fingerprint(teacher):
            return True
        if (student := work / f"self-training-{seed}").exists():
            _log.info(
                f"{student.name} goes on with the trees of an earlier {teacher.name}; for new ones delete {student} "
                f"and {path}"
            )
            return True
    if treebank.raw is None or not has_model(teacher):
        reason = (
            "there is no raw text" if treebank.raw is None else f"train the row {TEACHER} first: it parses the text"
        )
        _log.info(f"self-training-{seed} has no result: {reason}")
        return False
    parser = Parser.load(teacher, device=str(choose_device(options.device)))
    method = search_method(parser.translator.decoding, greedy=True)
    _log.info(f"{TEACHER}-{seed} parses {treebank.raw_text}")
    parses = parser.parse(list(treebank.raw()), method)
    parsed_by.unlink(missing_ok=True)
    atomic_write_text(path, "".join(f"{best[0]}\n" for best in parses if best))
    atomic_write_text(parsed_by, fingerprint(teacher))
    return True


class LengthF1(NamedTuple):
    """F1 on the test sentences that have `shortest` to `longest` words."""

    shortest: int
    longest: int
    sentences: int
    f1: float
    low: float
    high: float

    @property
    def range(self) -> str:
        """The range of sentence lengths in words, as text."""
        return f"{self.shortest}–{self.longest}" if self.longest < 1000 else f"{self.shortest} and more"


def _score_by_length(test: CorpusSpec, model: Model, outputs: Sequence[str]) -> list[list[float | None]]:
    """Returns the values of a `LengthF1` for each of `BINS` that contains at least two sentences."""
    corpus, linearisation = read_parallel_text(test), model.config.linearisation
    assert linearisation is not None
    gold, output = (read_trees_of(linearisation, lines, corpus.source) for lines in (corpus.target, outputs))
    sizes = [len(words.split(" ")) for words in corpus.source]
    values = []
    for shortest, longest in BINS:
        indices = [index for index, size in enumerate(sizes) if shortest <= size <= longest]
        if len(indices) >= 2:
            score = bracket_scores([gold[n] for n in indices], [output[n] for n in indices], bootstrap=RESAMPLES)
            values.append([shortest, longest, len(indices), score.f1, score.low, score.high])
    return values


class SearchScore(NamedTuple):
    """The scores of a sample of the test sentences, parsed with and without constrained decoding.

    `malformed` is the share of unconstrained outputs that are not trees over the words of the sentence. These outputs
    are repaired before F1 is measured.
    """

    sentences: int
    constrained_f1: float
    unconstrained_f1: float
    malformed: float
    sentences_per_second: float  # with constrained decoding


def _compare_searches(test: CorpusSpec, model: Model, _outputs: Sequence[str]) -> list[float]:
    """Parses a sample with and without constrained decoding, and returns the values of a `SearchScore`."""
    config, corpus = model.config, read_parallel_text(test)
    assert config.linearisation is not None
    chosen = range(0, len(corpus.source), -(-len(corpus.source) // SAMPLE))
    sentences = [corpus.source[n].split(" ") for n in chosen]
    gold = read_trees_of(config.linearisation, [corpus.target[n] for n in chosen], [corpus.source[n] for n in chosen])
    parser = Parser(
        Translator.of_models(
            [model.module], model.source, model.target, config.decoding, linearisation=config.linearisation
        )
    )
    method = SearchMethod(config.decoding)
    began = time.perf_counter()
    constrained = [best[0] for best in parser.parse(sentences, method)]
    seconds = time.perf_counter() - began
    free = [best[0] for best in parser.parse(sentences, method._replace(constrained=False))]
    with_it, without = (bracket_scores(gold, [parse.tree for parse in parses]).f1 for parses in (constrained, free))
    malformed = sum(parse.fault is not None for parse in free) / len(free)
    return [*SearchScore(len(sentences), with_it, without, malformed, len(sentences) / seconds)]


def lengths_of(result: TrialResult) -> list[LengthF1]:
    """Returns F1 by sentence length, or an empty list if it was not measured."""
    return [LengthF1(*values) for values in result.measures.get(LENGTHS, [])]


def searches_of(result: TrialResult) -> SearchScore | None:
    """Returns the comparison of constrained with unconstrained decoding, or None if it was not measured."""
    values = result.measures.get(SEARCHES)
    return SearchScore(*values) if values else None


def as_text(comparison: ParserComparison) -> str:
    """Renders Table 4: our parsers next to the paper's F1, both kinds of decoding, and the paper's own table."""
    first_seeds = {name: seeds[0] for name, seeds in comparison.parsers if seeds}
    searches = {name: searches_of(result) for name, result in first_seeds.items()}
    lengths = {name: lengths_of(result) for name, result in first_seeds.items()}
    return render_page(
        "table4.md.jinja",
        parsers=comparison.parsers,
        raw_text=comparison.raw_text,
        searches={name: score for name, score in searches.items() if score},
        lengths={name: bins for name, bins in lengths.items() if bins},
        published=PUBLISHED,
    )


def draw(comparison: ParserComparison, path: Path) -> None:
    """Plots F1 by sentence length, and the F1 of every parser on the test set."""
    results = comparison.parsers
    with panels(path, ["F1 by words of the sentence", "F1 of the test set"], height=3.8) as (lengths, totals):
        for number, (name, seeds) in enumerate(results):
            if not seeds:
                continue
            style = STYLES[number % len(STYLES)]
            if bins := lengths_of(seeds[0]):
                errors = [[one.f1 - one.low for one in bins], [one.high - one.f1 for one in bins]]
                places, f1, colour = range(len(bins)), [one.f1 for one in bins], f"C{number}"
                lengths.errorbar(places, f1, yerr=errors, fmt=style, capsize=3, label=name, color=colour)
                lengths.set_xticks(range(len(bins)), [one.range for one in bins])
            mean = statistics.fmean(seed.score for seed in seeds)
            error = [[mean - seeds[0].low], [seeds[0].high - mean]] if len(seeds) == 1 else None
            totals.errorbar([number], [mean], yerr=error, fmt=style[0], capsize=3, color=f"C{number}")
        totals.set_xticks(range(len(results)), [result.name for result in results], rotation=20)
        if any(result.seeds for result in results):
            lengths.legend(frameon=False, loc="best", fontsize=7)
