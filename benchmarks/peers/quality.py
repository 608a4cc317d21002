"""Time to quality: BLEU on the validation set while each system trains, for equally many minutes.

transduce and JoeyNMT validate during training. eole and Hugging Face only save checkpoints during training, and
translate afterwards. All search greedily; transduce decodes the ids of all systems to text, of which BLEU is measured.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from peers import TUNED, environment
from systems import System
from workload import RECIPE, Workload, parse_ids

from transduce.measure.scoring import scores
from transduce.text.lines import read_lines

STEPS_A_POINT = {"transduce": 500, "JoeyNMT": 250, "eole": 500, "Hugging Face": 250}
QUALITIES = (20, 30, 35)
COLOURS = ("#1f5f8b", "#c0562f", "#4f7f3a", "#7a5a9c")


class Point(NamedTuple):
    """BLEU of a system at a moment of its training."""

    minutes: float
    step: int
    bleu: float


Curve = list[Point]


def train_transduce(folder: Path, minutes: float) -> Curve:
    """Trains the recipe for Multi30k for `minutes`, and returns its curve."""
    run = folder / "transduce"
    shutil.rmtree(run, ignore_errors=True)
    every = STEPS_A_POINT["transduce"]
    changes = [f"minutes={minutes}", "steps=null", f"validate_every={every}", "patience=null", "average=null"]
    command = [sys.executable, "-m", "transduce", "train", str(RECIPE), "--out", str(run), "--set", "decoding.beam=1"]
    command += ["--device", "cpu"]
    command += [part for change in changes for part in ("--set", f"training.{change}")]
    with (folder / "transduce.log").open("w", encoding="utf-8") as log:
        subprocess.run(command, check=True, stdout=log, stderr=subprocess.STDOUT)
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [Point(record["elapsed"] / 60, record["step"], record["bleu"]) for record in records if "bleu" in record]


def train_peer(name: str, system: System, work: Workload, folder: Path, minutes: float) -> Curve:
    """Trains a peer with tuned settings for `minutes` of its process, and returns the curve of its checkpoints."""
    began = time.time()
    checkpoints = train_checkpoints(name, system, folder, minutes)
    return [
        Point((path.stat().st_mtime - began) / 60, step, bleu(translate(system, path, work, folder), work))
        for step, path in sorted(checkpoints.items())
    ]


def train_checkpoints(
    name: str, system: System, folder: Path, minutes: float, settings: Mapping[str, str] = TUNED
) -> dict[int, Path]:
    """Trains a peer for `minutes` of its process, and returns its checkpoints by step."""
    log_path = folder / f"{name}.log".replace(" ", "-")
    with log_path.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(system.command, env=environment(settings), stdout=log, stderr=subprocess.STDOUT)
        try:
            process.wait(timeout=60 * minutes)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        else:
            raise SystemExit(f"{name} ended too early; its messages are in {log_path}")
    return _checkpoints(system, folder)


def translate(
    system: System,
    checkpoint: Path,
    work: Workload,
    folder: Path,
    name: str = "validation",
    options: Sequence[str] = (),
) -> list[str]:
    """Returns the translations of the corpus `name` by a checkpoint, which for JoeyNMT is itself a translation.

    The search is greedy unless `options` of the peer's command say otherwise.
    """
    output = checkpoint
    if system.translate:
        output = folder / f"{name}.txt"
        command = [*system.translate(checkpoint, work.folder / f"{name}.src", output), *options]
        with (folder / "translate.log").open("w", encoding="utf-8") as log:
            subprocess.run(command, check=True, env=environment(TUNED), stdout=log, stderr=subprocess.STDOUT)
    ids = [parse_ids(line) for line in output.read_text("utf-8").splitlines()]
    return work.prepared.target.decode(ids)


def bleu(translations: list[str], work: Workload, name: str = "validation") -> float:
    """Returns sacreBLEU of translations of the corpus `name`."""
    references = read_lines(work.corpora[name].as_dictionary()["target"])
    return float(scores(translations, [references])["bleu"].score)


def load_curve(name: str, folder: Path, minutes: float) -> Curve | None:
    """Returns the curve that an earlier call has saved, or None."""
    path = folder / f"{name}-{minutes:g}.json"
    return [Point(*point) for point in json.loads(path.read_text("utf-8"))] if path.exists() else None


def save_curve(name: str, folder: Path, minutes: float, curve: Curve) -> None:
    """Saves a finished curve for `load_curve`: an interrupted call need not train again."""
    (folder / f"{name}-{minutes:g}.json").write_text(json.dumps(curve), "utf-8")


def rows(curves: Mapping[str, Curve], minutes: float) -> list[list[str]]:
    """Returns for each system steps and BLEU at the end, and the minutes to reach each of `QUALITIES`."""
    table = []
    for name, curve in curves.items():
        reached = [next((point.minutes for point in curve if point.bleu >= quality), None) for quality in QUALITIES]
        last = max((point for point in curve if point.minutes <= minutes), default=Point(0, 0, 0))
        table.append(
            [name, str(last.step), f"{last.bleu:.1f}", *[f"{moment:.1f}" if moment else "not" for moment in reached]]
        )
    return table


def draw(curves: Mapping[str, Curve], out: Path) -> None:
    """Draws BLEU against minutes, a line for each system."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "quality"
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for (name, curve), colour, mark in zip(curves.items(), COLOURS, "osD^", strict=True):
        minutes, bleu = [point.minutes for point in curve], [point.bleu for point in curve]
        axes.plot(minutes, bleu, f"{mark}-", color=colour, ms=4, label=name)
    axes.set(xlabel="minutes of training on two cores", ylabel="validation BLEU", xlim=(0, None), ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(out, metadata={"Date": None})


def _checkpoints(system: System, folder: Path) -> dict[int, Path]:
    """Returns the checkpoints of a system by step, without the last one, which may not be completely written."""
    checkpoints = {}
    for path in sorted(folder.rglob("*")):
        if match := re.fullmatch(system.checkpoint, str(path.relative_to(folder))):
            checkpoints[int(match[1])] = path
    if system.translate and checkpoints:
        del checkpoints[max(checkpoints)]
    return checkpoints
