"""Runs the demos, one of which trains a translation model and the other a parser.

Each demo trains on the embedded corpus, so that nothing has to be downloaded. It then scores the model on the test sets
`test` and `novel`, which are not used for training, and draws a picture.
"""

import logging
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from transduce import pages
from transduce.corpus.corpus_kinds import EmbeddedTrees
from transduce.embedded import Example, split
from transduce.embedded.baselines import translation_memory, word_by_word
from transduce.measure.scoring import Score, scores
from transduce.parsing.bracket_scores import BracketScore, bracket_scores
from transduce.parsing.parser import Parser
from transduce.parsing.treebank_reader import read_treebank
from transduce.parsing.trees import words_of
from transduce.recipe.presets import Values
from transduce.recipe.recipe import from_values
from transduce.recipe.recipe_values import read_yaml
from transduce.run.train import TrainOptions, run_training
from transduce.runtime.device import choose_device
from transduce.translation.translator import Translator

_log = logging.getLogger("transduce")

TRANSLATING = read_yaml(Path(__file__).with_name("demo_translating.yaml"))
PARSING = read_yaml(Path(__file__).with_name("demo_parsing.yaml"))


def demo_translation(out: Path, minutes: float, options: TrainOptions) -> dict[str, dict[str, Score]]:
    """Trains and evaluates a translation model, and draws a picture of its attention weights.

    Training takes `minutes`. The model and the picture are saved in the directory `out`. Prints the BLEU scores and a
    few translations. Returns the scores by test set and then by system; the systems are the model and two baselines,
    which are a translation memory and word-by-word translation.
    """
    began = time.monotonic()
    _train(TRANSLATING, "sentence pairs", out, minutes, options)
    translator = Translator.load(out, device=str(choose_device(options.device)))
    training = list(split("train"))
    results = {name: _scores_on(name, translator, training) for name in ("test", "novel")}
    _log.info(f"\nsacreBLEU ({results['test']['model'].signature})")
    _print_table((system, [results[name][system].score for name in results]) for system in results["test"])
    for example in list(split("novel"))[:5]:
        _log.info(f"  {example.source}\n  {translator.translate(example.source)}\n")
    picture = out / "attention.html"
    sentence = next(iter(split("test"))).source
    pages.draw_attention(translator.explain(sentence), picture)
    _log.info(f"picture of the attention: {picture}")
    _print_end(began, sentence, f"transduce translate {out}")
    return results


def demo_parsing(out: Path, minutes: float, options: TrainOptions) -> dict[str, BracketScore]:
    """Trains and evaluates a parser, and draws a picture of one of its trees.

    Training takes `minutes`. The model and the picture are saved in the directory `out`. Prints the scores and a few
    trees. Returns the bracket scores of each test set.
    """
    began = time.monotonic()
    _train(PARSING, "trees", out, minutes, options)
    parser = Parser.load(out, device=str(choose_device(options.device)))
    corpora = {name: EmbeddedTrees.model_validate({"embedded_trees": name}) for name in ("test", "novel")}
    gold = {name: list(read_treebank(corpus)) for name, corpus in corpora.items()}
    results = {
        name: bracket_scores(trees, [best[0].tree for best in parser.parse(list(map(words_of, trees)))])
        for name, trees in gold.items()
    }
    _log.info(f"\nbrackets ({results['test'].signature})")
    f1, complete = ([getattr(results[name].totals, figure) for name in gold] for figure in ("f1", "complete_match"))
    _print_table([("F1", f1), ("complete match", complete)])
    for parses in parser.parse([words_of(tree) for tree in gold["novel"][:3]]):
        _log.info(f"  {parses[0]}\n")
    tree, picture = gold["test"][0], out / "tree.html"
    ((parse, *_),) = parser.parse([words_of(tree)])
    pages.draw_tree(parse.tree, picture, other=tree)
    _log.info(f"picture of a tree: {picture}")
    _print_end(began, " ".join(words_of(tree)), f"transduce parse --tokenised {out}")
    return results


def _train(recipe: Values, what: str, out: Path, minutes: float, options: TrainOptions) -> None:
    """Trains a model with the recipe of a demo for `minutes`; `what` describes the training data in the log."""
    _log.info(f"training for {minutes:g} minutes on 40,000 embedded {what}, into {out}")
    run_training(from_values(recipe, [f"training.minutes={minutes}"], place="the demo"), out, options)


def _scores_on(name: str, translator: Translator, training: Sequence[Example]) -> dict[str, Score]:
    """Returns the BLEU scores of the model and of the two baselines on the test set `name`."""
    examples = list(split(name))
    sources, references = [example.source for example in examples], [example.target for example in examples]
    outputs = {
        "model": translator.translate(sources),
        "translation memory": translation_memory(training, sources),
        "word by word": word_by_word(training, sources),
    }
    return {system: scores(lines, [references])["bleu"] for system, lines in outputs.items()}


def _print_table(rows: Iterable[tuple[str, Sequence[float]]]) -> None:
    """Prints a table with one row for each name and one column for each test set."""
    _log.info(f"{'':24}{'unseen test':>14}{'novel pairs':>14}")
    for name, figures in rows:
        _log.info(f"{name:24}{''.join(f'{figure:14.2f}' for figure in figures)}")
    _log.info("")


def _print_end(began: float, sentence: str, command: str) -> None:
    """Prints how long the demo took, and a command with which the user can try the trained model."""
    _log.info(f"done in {(time.monotonic() - began) / 60:.1f} minutes; now type")
    _log.info(f'\n    echo "{sentence}" | {command}\n')
