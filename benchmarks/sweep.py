"""Trains variants of a recipe side by side on one device, and prints what each reached.

    python benchmarks/sweep.py RECIPE VARIANTS --out runs/sweep [--first 2] [--minutes 8]

A line of the file VARIANTS is a name and changes in the form of `--set`, with quotes as in a shell:

    r-drop training.steps=9000 'training.regulariser={kind: r_drop}' model.dropout=0.2

A small model uses a part of a GPU only, so that sixteen trainings take little longer than four. The first variants
begin alone until their first report: torch compiles the model for them, and the others find it compiled. After
`--minutes` all stop, and the best weights of each so far are measured. The same command goes on where it stopped.
"""

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

COMMAND = [sys.executable, "-m", "transduce"]
METRICS = "bleu,bleu-lowercased-tokenised,chrf"


class Variant(NamedTuple):
    """A variant of the recipe, and the directory of its run."""

    name: str
    changes: list[str]
    run: Path

    def start(self, recipe: Path) -> "subprocess.Popen[bytes]":
        """Starts its training, which writes to a log beside the run."""
        options = [part for change in self.changes for part in ("--set", change)]
        with self.run.with_suffix(".log").open("ab") as log:
            command = [*COMMAND, "train", str(recipe), "--out", str(self.run), *options]
            return subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})

    def has_begun(self) -> bool:
        """Whether the metrics log has a record, or a part of one."""
        log = self.run / "metrics.jsonl"
        return log.exists() and log.stat().st_size > 0

    def records(self) -> list[dict[str, Any]]:
        """Returns the records of the metrics log."""
        log = self.run / "metrics.jsonl"
        return [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []

    def row(self) -> list[str]:
        """Returns the name, the last step and the best validation BLEU; the name alone where nothing was logged."""
        records = self.records()
        if not records:
            return [self.name, f"none: see {self.run.with_suffix('.log')}", ""]
        scores = [record["bleu"] for record in records if "bleu" in record]
        return [self.name, str(records[-1]["step"]), f"{max(scores, default=float('nan')):.2f}"]


def read_variants(path: Path, out: Path) -> list[Variant]:
    """Reads the file of variants; empty lines and those that begin with # are left out."""
    lines = [shlex.split(line, comments=True) for line in path.read_text("utf-8").splitlines()]
    return [Variant(name, changes, out / name) for name, *changes in filter(None, lines)]


def train(recipe: Path, variants: list[Variant], first: int, minutes: float) -> None:
    """Trains all variants, the `first` ones alone until they have begun; stops those that are not done in time."""
    deadline = time.monotonic() + 60 * minutes
    processes = [variant.start(recipe) for variant in variants[:first]]
    while not all(variant.has_begun() for variant in variants[:first]) and time.monotonic() < deadline:
        time.sleep(1)
        if all(process.poll() is not None for process in processes):
            break
    processes += [variant.start(recipe) for variant in variants[first:]]
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)  # a training saves, and ends
    for process in processes:
        process.wait()


def main() -> None:
    """Trains the variants, and prints the table and the scores of each test set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("variants", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs and their logs")
    parser.add_argument("--first", type=int, default=1, help="variants that begin alone")
    parser.add_argument("--minutes", type=float, default=1e6, help="after which all stop")
    parser.add_argument("--test", action="append", default=[], help="a test set of the recipe; may be repeated")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    variants = read_variants(arguments.variants, arguments.out)
    train(arguments.recipe, variants, arguments.first, arguments.minutes)
    print("| variant | steps | best validation BLEU |\n|---|---|---|")
    for variant in variants:
        print("| " + " | ".join(variant.row()) + " |", flush=True)
    for variant in variants:
        for test in arguments.test:
            print(f"\n{variant.name}, {test}", flush=True)
            subprocess.run([*COMMAND, "evaluate", str(variant.run), "--test", test, "--metric", METRICS])


if __name__ == "__main__":
    main()
