"""Compares recipes, and eole, on three small corpora that no recipe was tuned on, each for the same minutes.

    TRANSDUCE_DATA=… python benchmarks/peers/unseen_corpora.py --minutes 15 --out runs/unseen

- `suggested` is the recipe that `transduce suggest --minutes` writes.
- `earlier` is the recipe that `recipes/own-data.yaml` had before there was `suggest`.
- `eole` trains the model of the suggested recipe on its subwords, with its tokens a step, warm-up and highest rate;
  `eole-lower-rate` has two fifths of that rate.

One training a core runs at a time, each with one thread. All search with a beam of 4 and the length penalty of 0.6.
The weights are the last ones, or what the recipe publishes. The same command goes on where it stopped.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from peers import TUNED, table
from quality import train_checkpoints, translate
from systems import Hyperparameters, configure_systems
from workload import prepare_workload

from transduce.measure.scoring import scores
from transduce.recipe.recipe import Recipe, load
from transduce.runtime.device import count_cores
from transduce.text.lines import read_lines

COMMAND = [sys.executable, "-m", "transduce"]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
SYSTEMS = ("suggested", "earlier", "eole", "eole-lower-rate")
LOWER = 0.4
EVERY = 50  # steps between two checkpoints of eole
EOLE_SEARCH = ["--beam_size", "4", "--length_penalty", "wu", "--alpha", "0.6"]
HELD_OUT = 1000  # pairs of a set that a corpus does not have
EARLIER: dict[str, Any] = {
    "subwords": {"kind": "bpe", "size": 8000},
    "model": {"preset": "tiny", "dropout": 0.2},
    "training": {
        "steps": None,
        "patience": 10,
        "average": 10,
        "batch_tokens": 4096,
        "optimiser": {"kind": "adam"},
        "schedule": {"kind": "inverse_square_root", "warmup": 2000, "peak": 5e-3},
    },
}


def transduce(*arguments: object, log: Path) -> None:
    """Runs a command with one thread; what it says is appended to `log`."""
    with log.open("a", encoding="utf-8") as file:
        command = [*COMMAND, *map(str, arguments)]
        subprocess.run(command, check=True, stdout=file, stderr=file, env={**os.environ, **ONE_THREAD})


def write_chat(data: Path, folder: Path) -> dict[str, Any]:
    """Customer-service chat, English–German; its development set is the test set."""
    corpus = data / "bcontrast-en-de"
    held_out = ["--validation", HELD_OUT, "--test", 0]
    transduce("split", corpus / "train.en", corpus / "train.de", *held_out, "--out", folder, log=folder / "split.log")
    return {
        **{part: pair(folder / part, "source", "target") for part in ("train", "validation")},
        "test": {"test": pair(corpus / "dev", "en", "de")},
    }


def write_manual(data: Path, folder: Path) -> dict[str, Any]:
    """The manual of Python, English–French."""
    corpus = data / "pydocs-en-fr/pydocs"
    held_out = ["--validation", HELD_OUT, "--test", HELD_OUT]
    transduce("split", f"{corpus}.en", f"{corpus}.fr", *held_out, "--out", folder, log=folder / "split.log")
    return {
        **{part: pair(folder / part, "source", "target") for part in ("train", "validation")},
        "test": {"test": pair(folder / "test", "source", "target")},
    }


def write_tatoeba(data: Path, folder: Path) -> dict[str, Any]:
    """20,000 random pairs of Tatoeba, English–German."""
    corpus = data / "tatoeba-en-de"
    sides = {side: read_lines(str(corpus / f"train.{side}")) for side in ("en", "de")}
    chosen = random.Random(1).sample(range(len(sides["en"])), 20_000)
    for side, lines in sides.items():
        (folder / f"train.{side}").write_text("".join(f"{lines[number]}\n" for number in chosen), "utf-8")
    return {
        "train": pair(folder / "train", "en", "de"),
        "validation": pair(corpus / "dev", "en", "de"),
        "test": {"test": pair(corpus / "test", "en", "de")},
    }


CORPORA: dict[str, Callable[[Path, Path], dict[str, Any]]] = {
    "chat": write_chat,
    "manual": write_manual,
    "tatoeba": write_tatoeba,
}


def pair(stem: Path, source: str, target: str) -> dict[str, str]:
    """Returns the two files of a corpus, `STEM.SOURCE` and `STEM.TARGET`."""
    return {"source": f"{stem}.{source}", "target": f"{stem}.{target}"}


def prepare(name: str, out: Path, minutes: float) -> None:
    """Writes a corpus, its earlier recipe and its suggested one, unless they are there."""
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "suggested.yaml").exists():
        return
    data = CORPORA[name](Path(os.environ["TRANSDUCE_DATA"]).resolve(), folder)
    earlier = {"data": data, **EARLIER, "training": {**EARLIER["training"], "minutes": minutes}}
    for recipe, values in {"data": {"data": data}, "earlier": earlier}.items():
        (folder / f"{recipe}.yaml").write_text(json.dumps(values, indent=2), "utf-8")
    options = ["--minutes", minutes, "--out", folder / "suggested.yaml", "--threads", 1]
    transduce("suggest", folder / "data.yaml", *options, log=folder / "suggest.log")


def train(name: str, system: str, out: Path, minutes: float) -> None:
    """Trains a system and translates the test set, unless its translations are there."""
    folder = out / name
    output = folder / f"{system}.txt"
    if output.exists():
        return
    if system.startswith("eole"):
        output.write_text("".join(f"{line}\n" for line in train_eole(folder, system, minutes)), "utf-8")
        return
    log = folder / f"{system}.log"
    transduce("train", folder / f"{system}.yaml", "--out", folder / system, "--threads", 1, log=log)
    options = ["--beam", 4, "--length-penalty", 0.6, "--threads", 1, "--out", output]
    transduce("translate", folder / system, corpus_path(folder, "source"), *options, log=log)


def train_eole(folder: Path, name: str, minutes: float) -> list[str]:
    """Trains eole, and returns the translations of the test set by its last checkpoint."""
    place = folder / name
    place.mkdir(exist_ok=True)
    work = prepare_workload(place / "work", folder / "suggested.yaml", changes=())
    settings = hyperparameters(work.recipe)
    if name == "eole-lower-rate":
        settings = settings._replace(peak=LOWER * settings.peak)
    eole = configure_systems(work, place, EVERY, hyperparameters=settings)["eole"]
    checkpoints = train_checkpoints("eole", eole, place, minutes, {**TUNED, **ONE_THREAD})
    print(f"{folder.name}: the last checkpoint of {name} is of step {max(checkpoints):,}", file=sys.stderr)
    return translate(eole, checkpoints[max(checkpoints)], work, place, "test", EOLE_SEARCH)


def hyperparameters(recipe: Recipe) -> Hyperparameters:
    """Returns what a peer shares with a recipe of a transformer."""
    model, training = recipe.model.as_dictionary(), recipe.training.as_dictionary()
    return Hyperparameters(
        d_model=model["d_model"],
        layers=model["encoder_layers"],
        heads=model["mixer"]["heads"],
        d_ff=model["feed_forward"]["d_ff"],
        dropout=model["dropout"],
        batch_tokens=training["batch_tokens"],
        warmup=training["schedule"]["warmup"],
        peak=training["schedule"]["peak"],
    )


def corpus_path(folder: Path, side: str) -> str:
    """Returns the path of a side of the test set."""
    path: str = load(folder / "suggested.yaml").data.test["test"].as_dictionary()[side]
    return path


def rows(names: Sequence[str], systems: Sequence[str], out: Path) -> list[list[str]]:
    """Returns the rows of the table: BLEU and chrF of each system on the test set of each corpus."""
    table_rows: list[list[str]] = []
    signatures: set[str] = set()
    for name in names:
        references = read_lines(corpus_path(out / name, "target"))
        row = [name]
        for system in systems:
            measured = scores(read_lines(str(out / name / f"{system}.txt")), [references], ["bleu", "chrf"])
            row.append(f"{measured['bleu'].score:.2f}, {measured['chrf'].score:.2f}")
            signatures.update(score.signature for score in measured.values())
        table_rows.append(row)
    print("\n".join(sorted(signatures)))
    return table_rows


def main() -> None:
    """Trains the systems on the corpora and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15, help="of each training")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    options = parser.parse_args()
    if "TRANSDUCE_DATA" not in os.environ:
        raise SystemExit("set TRANSDUCE_DATA to the folder that has bcontrast-en-de/, pydocs-en-fr/ and tatoeba-en-de/")
    out = options.out.resolve()
    with ThreadPoolExecutor(count_cores()) as pool:
        list(pool.map(lambda name: prepare(name, out, options.minutes), options.corpora))
        turns = [(name, system) for name in options.corpora for system in options.systems]
        list(pool.map(lambda turn: train(turn[0], turn[1], out, options.minutes), turns))
    head = ["corpus", *(f"{system}: BLEU, chrF" for system in options.systems)]
    print(table(head, rows(options.corpora, options.systems, out)))


if __name__ == "__main__":
    main()
