"""Hours of work in one process: `python stress/soak.py --minutes 480 --draw docs/soak.svg`.

Four threads train, translate in float32, translate in int8, and explain, over and over. Every round of a thread must
give what its first round gave. The main thread samples memory, open files and threads; the last third of the samples
must not lie above the middle third by more than the tolerance.
"""

import argparse
import hashlib
import json
import os
import statistics
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from small_run import RECIPE

import transduce
from transduce.embedded import split

TOLERANCE = {"memory": 1.03, "open files": 1.0, "threads": 1.0}  # last third over middle third
SAMPLE_SECONDS = 5.0
TEXT_LINES = 500
TRAINING = ["training.steps=500", "training.validate_every=100"]


class Sample(NamedTuple):
    """What the process holds at one moment."""

    seconds: float
    memory: int  # resident bytes
    open_files: int
    threads: int


class Worker:
    """One thread that repeats a round of work; `unit` names what `count` counts."""

    def __init__(self, name: str, unit: str, work: Callable[[], tuple[int, str]]) -> None:
        self.name, self.unit, self.work = name, unit, work
        self.count = self.rounds = 0
        self.first: str | None = None
        self.faults: list[str] = []

    def repeat(self, until: float) -> None:
        """Repeats the round until the time is over, and compares its result with that of the first round."""
        while time.monotonic() < until and not self.faults:
            try:
                count, result = self.work()
            except Exception:
                self.faults.append(traceback.format_exc())
                return
            self.count, self.rounds = self.count + count, self.rounds + 1
            self.first = self.first or result
            if result != self.first:
                self.faults.append(f"round {self.rounds} differs from round 1")


def sample(started: float) -> Sample:
    """Samples this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    memory = pages * os.sysconf("SC_PAGE_SIZE")
    open_files = sum(1 for _ in Path("/proc/self/fd").iterdir())
    return Sample(time.monotonic() - started, memory, open_files, threading.active_count())


def digest(value: object) -> str:
    """Returns a checksum of a result."""
    return hashlib.sha256(repr(value).encode()).hexdigest()


def workers(folder: Path) -> list[Worker]:
    """Makes the model that is translated with, and the four workers."""
    pairs = [(pair.source, pair.target) for pair in list(split("validation"))[:40]]
    (folder / "validation.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs), "utf-8")
    (folder / "recipe.yaml").write_text(RECIPE, "utf-8")
    validation = f"data.validation={{tsv: {folder / 'validation.tsv'}}}"
    recipe = transduce.Recipe.load(folder / "recipe.yaml", [*TRAINING, validation])
    numbers = iter(range(10**9))

    def train_once() -> tuple[int, str]:
        out = folder / f"run-{next(numbers)}"
        steps = sum(1 for _ in transduce.train(recipe, out, device="cpu", threads=1))
        weights = hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()
        if out.name != "run-0":  # the first model is the one that translates
            for path in sorted(out.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            out.rmdir()
        return steps, weights

    train_once()
    lines = [pair.source for pair in list(split("test"))[:TEXT_LINES]]
    plain = transduce.Translator.load(folder / "run-0")
    quantised = transduce.Translator.load(folder / "run-0", precision="int8")

    def translate_with(translator: transduce.Translator, **options: object) -> tuple[int, str]:
        return len(lines), digest(translator.translate(lines, **options))

    def explain_some() -> tuple[int, str]:
        maps = [plain.explain(line) for line in lines[:20]]
        return len(maps), digest([[layer.round(4).tolist() for layer in one.cross] for one in maps])

    return [
        Worker("train", "steps", train_once),
        Worker("translate", "lines", lambda: translate_with(plain, beam=4)),
        Worker("translate int8", "lines", lambda: translate_with(quantised, greedy=True)),
        Worker("explain", "sentences", explain_some),
    ]


def growth(samples: list[Sample]) -> dict[str, float]:
    """Returns for each quantity the median of the last third over that of the middle third."""
    third = len(samples) // 3
    middle, last = samples[third : 2 * third], samples[2 * third :]
    fields = {"memory": "memory", "open files": "open_files", "threads": "threads"}
    return {
        name: statistics.median(getattr(one, field) for one in last)
        / statistics.median(getattr(one, field) for one in middle)
        for name, field in fields.items()
    }


def draw(samples: list[Sample], path: Path) -> None:
    """Draws memory and open files over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes = figure.subplots()
    minutes = [one.seconds / 60 for one in samples]
    axes.plot(minutes, [one.memory / 2**20 for one in samples], color="#1f77b4", label="resident memory, MiB")
    axes.set_ylim(0, 1.25 * max(one.memory for one in samples) / 2**20)
    axes.set_xlabel("minutes")
    axes.set_ylabel("MiB")
    files = axes.twinx()
    files.plot(minutes, [one.open_files for one in samples], color="#ff7f0e", label="open files")
    files.set_ylim(0, 3 * max(one.open_files for one in samples))
    files.set_ylabel("open files")
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(path)


def main() -> None:
    """Works, samples, prints a table, and fails where a result changed or a quantity grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=480)
    parser.add_argument("--draw", type=Path, help="write a plot of memory and open files")
    parser.add_argument("--json", type=Path, help="write the samples")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        team = workers(Path(name))
        started, duration = time.monotonic(), 60 * options.minutes
        until = started + duration
        threads = [threading.Thread(target=worker.repeat, args=(until,), daemon=True) for worker in team]
        for thread in threads:
            thread.start()
        samples = []
        while time.monotonic() < until and all(thread.is_alive() for thread in threads):
            samples.append(sample(started))
            time.sleep(min(SAMPLE_SECONDS, duration / 60))  # 60 samples at least
        for thread in threads:
            thread.join()
    faults = [f"{worker.name}: {fault}" for worker in team for fault in worker.faults]
    for worker in team:
        print(f"{worker.name:15}{worker.count:>12,} {worker.unit:10} in {worker.rounds:,} rounds")
    for quantity, ratio in growth(samples).items():
        print(f"{quantity:15}{ratio:>12.3f} last third over middle third")
        if ratio > TOLERANCE[quantity]:
            faults.append(f"{quantity} grew by a factor of {ratio:.3f}")
    print(f"memory at the end: {samples[-1].memory / 2**20:,.0f} MiB after {samples[-1].seconds / 60:.1f} minutes")
    if options.draw:
        draw(samples, options.draw)
    if options.json:
        options.json.write_text(json.dumps([one._asdict() for one in samples]), "utf-8")
    print("\n".join(faults) or "every round gave what the first round gave")
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
