"""The doubt `names` on right translations, and on the same with a name deleted.

python benchmarks/names.py [--only tatoeba]

For each text and direction `transduce.text.copied_names.Names` learns from the training set (of newstest 2008 to 2011),
holds out the development set (2012), and judges the references of the test set (2013). From each reference that has a
capitalised word of its source, not the first, that word is deleted. Precision is that of both judgements together.
"""

import argparse
import re
from itertools import islice
from pathlib import Path

from data_folder import data_folder

from transduce.recipe.corpora_of_run import MAX_PAIRS
from transduce.text.copied_names import Names

NEWSTEST = ("news-test2008", "newstest2009", "newstest2010", "newstest2011")


def main() -> None:
    """Prints a row for each text and direction."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="texts whose name has this text")
    only = parser.parse_args().only
    print("| text | known names | unknown words | false alarms | deleted | recall | precision |")
    print("|---|---|---|---|---|---|---|")
    for name, parts in _texts(data_folder("multi30k/, newstest/ and tatoeba-*/")).items():
        for direction in ((0, 1), (1, 0)):
            languages = [parts[0][side][0].suffix[1:] for side in direction]
            label = f"{name.split()[0]} {'-'.join(languages)}"
            if only in label:
                print(f"| {label} | {_row(*([part[side] for side in direction] for part in parts))} |", flush=True)


def _texts(data: Path) -> dict[str, list[list[list[Path]]]]:
    """Returns the files of training, development and test set of each text, by side."""
    texts = {}
    for other in ("de", "fr"):
        sides, news, tatoeba = ("en", other), data / f"newstest/en-{other}", data / f"tatoeba-en-{other}"
        years = (NEWSTEST, ("newstest2012",), ("newstest2013",))
        texts[f"newstest {other}"] = [[[news / f"{year}.{side}" for year in some] for side in sides] for some in years]
        texts[f"Tatoeba {other}"] = [
            [[tatoeba / f"{part}.{side}"] for side in sides] for part in ("train", "dev", "test")
        ]
        parts = ("train", "val", "test_2016_flickr")
        texts[f"Multi30k {other}"] = [[[data / f"multi30k/{part}.{side}"] for side in sides] for part in parts]
    return texts


def _row(training: list[list[Path]], development: list[list[Path]], test: list[list[Path]]) -> str:
    """Returns the figures of a text in one direction."""
    names = Names.learn(islice(_pairs(training), MAX_PAIRS), _pairs(development))
    pairs, deleted, reported = _pairs(test), 0, 0
    alarms = sum(bool(names.missing(*pair)) for pair in pairs)
    for source, target in pairs:
        if word := _shared_name(source, target):
            deleted += 1
            reported += word in names.missing(source, re.sub(rf"\b{re.escape(word)}\b", "", target))
    share = f"{alarms / len(pairs):.2%} of {len(pairs):,} | {deleted} | {reported / deleted:.2f}"
    precision = reported / (reported + alarms) if reported + alarms else float("nan")
    return f"{len(names.known):,} | {'no' if names.ordinary is None else 'yes'} | {share} | {precision:.2f}"


def _pairs(files: list[list[Path]]) -> list[tuple[str, str]]:
    """Returns the pairs of lines of files of both sides."""
    sides = [[line for path in side for line in path.read_text("utf-8").split("\n")[:-1]] for side in files]
    return list(zip(*sides, strict=True))


def _shared_name(source: str, target: str) -> str | None:
    """Returns the first capitalised word of three letters or more, not at the beginning, that the target has too."""
    for word in re.findall(r"(?<=[^.!?:;\"“„«] )\b[^\W\d_]{3,}\b", source):
        if word[0].isupper() and re.search(rf"\b{word}\b", target):
            return str(word)
    return None


if __name__ == "__main__":
    main()
