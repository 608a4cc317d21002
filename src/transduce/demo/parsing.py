"""The demo of parsing: trains on the trees of the embedded corpus, measures, parses and draws, without a download."""

import time
from collections.abc import Callable
from pathlib import Path

from transduce import pages
from transduce.corpus import EmbeddedTrees, read_treebank
from transduce.measure import BracketScore, bracket_scores
from transduce.recipe import from_values
from transduce.recipe.presets import Values
from transduce.runtime.device import choose_device
from transduce.text.trees import Tree, words_of
from transduce.trainer.train import TrainOptions, run_training
from transduce.translation.parser import Parser

__all__ = ["demo_parsing"]

RECIPE: Values = {
    "data": {
        "train": [{"embedded_trees": "train"}],
        "validation": {"embedded_trees": "validation"},
        "test": {"test": {"embedded_trees": "test"}, "novel": {"embedded_trees": "novel"}},
        "source_language": "en",
    },
    "subwords": {"kind": "bpe", "size": 4000, "shared": False},
    # As in the demo of translating.
    "model": {"preset": "tiny", "norm": "pre", "dropout": 0.0, "embeddings": "separate", "next_word": True},
    "training": {
        "steps": None,
        "batch_tokens": 2048,
        "optimiser": {"kind": "muon"},
        "schedule": {"kind": "linear", "warmup": 100, "peak": 0.005},
        "label_smoothing": 0.0,
        "validate_every": None,
        "validate_by": "f1",
        "save_every": 100,
        "average": None,
    },
    "decoding": {"beam": 2, "length_penalty": 0.0, "extra_length": 300},
}


def demo_parsing(
    out: Path, minutes: float, options: TrainOptions, say: Callable[[str], None]
) -> dict[str, BracketScore]:
    """Trains a parser into `out`, then prints scores, trees and the path of a picture; returns the score of each set.

    Both test sets, `test` and `novel`, are unseen in training.
    """
    began = time.monotonic()
    say(f"training for {minutes:g} minutes on 40,000 embedded trees, into {out}")
    run_training(from_values(RECIPE, [f"training.minutes={minutes}"], place="the demo"), out, options, say)
    parser = Parser.load(out, device=str(choose_device(options.device)))
    gold = {name: _gold_trees(name) for name in ("test", "novel")}
    results = {name: _score_on(trees, parser) for name, trees in gold.items()}
    say(f"\nbrackets ({results['test'].signature})")
    say(f"{'':24}{'unseen test':>14}{'novel pairs':>14}")
    for figure in ("f1", "complete_match"):
        row = "".join(f"{getattr(results[name].totals, figure):14.2f}" for name in ("test", "novel"))
        say(f"{figure.replace('f1', 'F1').replace('_', ' '):24}{row}")
    say("")
    for parses in parser.parse([words_of(tree) for tree in gold["novel"][:3]]):
        say(f"  {parses[0]}\n")
    tree, picture = gold["test"][0], out / "tree.html"
    sentence = " ".join(words_of(tree))
    ((parse, *_),) = parser.parse([words_of(tree)])
    pages.draw_tree(parse.tree, picture, other=tree)
    say(f"picture of a tree: {picture}")
    say(f"done in {(time.monotonic() - began) / 60:.1f} minutes; now type")
    say(f'\n    echo "{sentence}" | transduce parse --tokenised {out}\n')
    return results


def _gold_trees(name: str) -> list[Tree]:
    """Returns the trees of a split of the embedded corpus."""
    return list(read_treebank(EmbeddedTrees.model_validate({"embedded_trees": name})))


def _score_on(gold: list[Tree], parser: Parser) -> BracketScore:
    """Returns the score of the trees that the parser writes for the words of `gold`."""
    return bracket_scores(gold, [best[0].tree for best in parser.parse(list(map(words_of, gold)))])
