"""Cross-validation of the preset `parser-small`: trains on all folds of files but one, parses the words of that one.

    python benchmarks/parsing/parser_folds.py --train $TRANSDUCE_DATA/ptb-sample/*.mrg --folds 5 --work runs/folds

The folds are those of `pcfg.py`, so that the figures stand beside its own. `--also` adds another treebank to every
training; `--from` begins every training with a parser of another treebank, and `--grow-vocabulary` adds subwords of
this one. With `--raw TEXT...` and `--teachers WORK` each fold also trains on trees of raw sentences: the parser of the
same fold in WORK, the folder of an earlier call, parses them greedily. A fold that was trained is not trained again.
Scores are of the parsed sentences of all folds together.
"""

import argparse
import logging
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from folds import read_cleaned, report_scores, train_and_test

from transduce.parsing.parser import Parser, split_treebank_words
from transduce.parsing.trees import Tree, format_tree, words_of
from transduce.recipe.recipe import Recipe, from_values
from transduce.recipe.starting_point import StartingPoint
from transduce.run.train import TrainOptions, run_training
from transduce.runtime.device import set_up_device
from transduce.storage.atomic import atomic_write_text
from transduce.text.lines import read_lines
from transduce.translation.search_method import search_method

SELF_TRAINED = "self-trained.trees"
LONGEST_RAW = 40  # words


def fold_recipe(options: argparse.Namespace, trees: Path) -> Recipe:
    """Returns the recipe of a fold whose files of training lie in the folder `trees`."""
    also = [{"trees": str(folder), "weight": options.weight} for folder in options.also]
    if options.raw:
        also.append({"trees": str(trees.parent / SELF_TRAINED), "weight": options.raw_weight})
    data = {"train": [{"trees": str(trees)}, *also], "test": {}}
    training = {
        "steps": None,
        "epochs": None,
        "minutes": options.minutes,
        "batch_tokens": 2048,
        "average": 5,
        "save_every": 100,
        "validate_every": None,
    }
    if options.start_from is not None:
        start = StartingPoint.of(options.start_from)
        return from_values({"data": data, "training": training}, options.set, place="the folds", start=start)
    data |= {"linearisation": {"kind": "in_order"}, "source_language": "en", "max_length": 512}
    values = {"data": data, "model": {"preset": "parser-small"}, "training": {**training, "schedule": {"warmup": 300}}}
    return from_values(values, options.set, place="the folds")


def parse_raw_text(teacher: Path, out: Path, options: argparse.Namespace) -> None:
    """Writes the trees that a parser gives raw sentences of 4 to `LONGEST_RAW` words, unless they are there."""
    if out.exists():
        return
    split_words = split_treebank_words()
    words = (split_words(line) for path in options.raw for line in read_lines(str(path)))
    short = [sentence for sentence in words if 4 <= len(sentence) <= LONGEST_RAW]
    chosen = short[:: max(1, len(short) // options.raw_sentences)][: options.raw_sentences]
    parser = Parser.load(teacher, device=str(set_up_device("auto", options.threads)))
    parses = parser.parse(chosen, search_method(parser.translator.decoding, greedy=True))
    atomic_write_text(out, "".join(f"{best[0]}\n" for best in parses if best))


def parse_fold(number: int, training: Sequence[Path], test: Sequence[Path], options: argparse.Namespace) -> list[Tree]:
    """Trains on one part of the files and returns the parses of the words of the other."""
    work: Path = options.work / f"fold-{number}"
    trees = work / "trees"
    trees.mkdir(parents=True, exist_ok=True)
    for file in training:
        shutil.copyfile(file, trees / file.name)
    if options.raw:
        parse_raw_text(options.teachers / work.name / "run", work / SELF_TRAINED, options)
    train_options = TrainOptions(
        "auto", options.threads, start_from=options.start_from, grow_vocabulary=options.grow_vocabulary
    )
    run_training(fold_recipe(options, trees), work / "run", train_options)
    parser = Parser.load(work / "run", device=str(set_up_device("auto", options.threads)))
    return [best[0].tree for best in parser.parse(list(map(words_of, read_cleaned(test))))]


def main() -> None:
    """Trains, parses, and prints the scores of all folds pooled."""
    logging.basicConfig(format="%(message)s")
    logging.getLogger("transduce").setLevel(logging.INFO)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, nargs="+", required=True, help="files of trees")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--work", type=Path, required=True, help="the folder of the trainings, which are resumed")
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="treebanks that every fold trains on too")
    parser.add_argument("--weight", type=float, default=1.0, help="uses of their trees an epoch")
    parser.add_argument("--from", type=Path, dest="start_from", help="a parser with which every training begins")
    parser.add_argument("--grow-vocabulary", type=int, help="with --from: subwords, at most, that the words gain")
    parser.add_argument("--raw", type=Path, nargs="*", default=[], help="raw text, one sentence a line")
    parser.add_argument("--raw-sentences", type=int, default=5_000, help="taken at equal distances")
    parser.add_argument("--raw-weight", type=float, default=0.5, help="uses of their trees an epoch")
    parser.add_argument("--teachers", type=Path, help="the --work of an earlier call, whose parsers parse the raw text")
    parser.add_argument("--minutes", type=float, default=15.0, help="of the training of a fold")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a key of the recipe")
    parser.add_argument("--out", type=Path, help="write the parsed trees here, one a line, fold after fold")
    options = parser.parse_args()
    if bool(options.raw) != bool(options.teachers):
        parser.error("--raw and --teachers go together")
    gold, parsed, began = list[Tree](), list[Tree](), time.perf_counter()
    for number, (training, test) in enumerate(train_and_test(options.train, options.folds), start=1):
        gold += read_cleaned(test)
        parsed += parse_fold(number, training, test, options)
        print(f"after fold {number}, {(time.perf_counter() - began) / 60:.1f} minutes:\n{report_scores(gold, parsed)}")
    if options.out is not None:
        options.out.write_text("".join(f"{format_tree(tree)}\n" for tree in parsed), "utf-8")


if __name__ == "__main__":
    main()
