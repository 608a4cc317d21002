"""Time to quality: BLEU on the validation set while each system trains, ours and the peers', for as many minutes each.

Ours runs its recipe and validates inside its time, as does JoeyNMT. eole and Hugging Face only save inside theirs, and
translate afterwards. All search greedily; BLEU is of the text, put together from subwords by ours.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from peers import TUNED, environment
from systems import System
from workload import RECIPE, Workload, numbers

from transduce.measure import scores
from transduce.text.lines import read_lines

EVERY = {"transduce": 500, "JoeyNMT": 250, "eole": 500, "Hugging Face": 250}  # steps between two points of a curve
QUALITIES = (20, 30, 35)
COLOURS = ("#1f5f8b", "#c0562f", "#4f7f3a", "#7a5a9c")


class Point(NamedTuple):
    """How good a system was at a moment of its training."""

    minutes: float
    step: int
    bleu: float


Curve = list[Point]


def ours(folder: Path, minutes: float) -> Curve:
    """The recipe for Multi30k, for `minutes`."""
    run = folder / "transduce"
    shutil.rmtree(run, ignore_errors=True)
    every = EVERY["transduce"]
    changes = [f"minutes={minutes}", "steps=null", f"validate_every={every}", "patience=null", "average=null"]
    command = [sys.executable, "-m", "transduce", "train", str(RECIPE), "--out", str(run), "--set", "decoding.beam=1"]
    command += ["--device", "cpu"]
    command += [part for change in changes for part in ("--set", f"training.{change}")]
    with (folder / "transduce.log").open("w", encoding="utf-8") as log:
        subprocess.run(command, check=True, stdout=log, stderr=subprocess.STDOUT)
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [Point(each["elapsed"] / 60, each["step"], each["bleu"]) for each in records if "bleu" in each]


def theirs(name: str, system: System, work: Workload, folder: Path, minutes: float) -> Curve:
    """A peer with tuned settings: trained for `minutes` from the start of its process, then judged by what it left."""
    began = time.time()
    with (folder / f"{name}.log".replace(" ", "-")).open("w", encoding="utf-8") as log:
        process = subprocess.Popen(system.command, env=environment(TUNED), stdout=log, stderr=subprocess.STDOUT)
        try:
            process.wait(timeout=60 * minutes)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        else:
            raise SystemExit(f"{name} ended before its time; what it said is in {log.name}")
        found = _left(system, folder)
        return [
            Point((place.stat().st_mtime - began) / 60, step, _bleu(_translated(system, place, folder, log), work))
            for step, place in sorted(found.items())
        ]


def kept(name: str, folder: Path, minutes: float) -> Curve | None:
    """The curve of an earlier, interrupted call, so that hours need not be spent again."""
    path = folder / f"{name}-{minutes:g}.json"
    return [Point(*point) for point in json.loads(path.read_text("utf-8"))] if path.exists() else None


def keep(name: str, folder: Path, minutes: float, curve: Curve) -> None:
    """Writes a finished curve where `kept` looks."""
    (folder / f"{name}-{minutes:g}.json").write_text(json.dumps(curve), "utf-8")


def rows(curves: Mapping[str, Curve], minutes: float) -> list[list[str]]:
    """For each system: steps and BLEU at the end, and when it first was as good as each of QUALITIES."""
    table = []
    for name, curve in curves.items():
        reached = [next((point.minutes for point in curve if point.bleu >= quality), None) for quality in QUALITIES]
        last = max((point for point in curve if point.minutes <= minutes), default=Point(0, 0, 0))
        table.append([name, str(last.step), f"{last.bleu:.1f}", *[f"{at:.1f}" if at else "not" for at in reached]])
    return table


def draw(curves: Mapping[str, Curve], out: Path) -> None:
    """BLEU against minutes, a line a system."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "quality"
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for (name, curve), colour, mark in zip(curves.items(), COLOURS, "osD^", strict=True):
        axes.plot([at.minutes for at in curve], [at.bleu for at in curve], f"{mark}-", color=colour, ms=4, label=name)
    axes.set(xlabel="minutes of training on two cores", ylabel="validation BLEU", xlim=(0, None), ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(out, metadata={"Date": None})


def _left(system: System, folder: Path) -> dict[int, Path]:
    """What the system left, by step; what it was writing when it was stopped is not whole and is left out."""
    found = {}
    for place in sorted(folder.rglob("*")):
        if step := re.fullmatch(system.left, str(place.relative_to(folder))):
            found[int(step[1])] = place
    if system.translate and found:
        del found[max(found)]
    return found


def _translated(system: System, place: Path, folder: Path, log: object) -> list[list[int]]:
    """The ids of the translations by what a system left."""
    output = place
    if system.translate:
        output = folder / "output.txt"
        command = system.translate(place, output)
        subprocess.run(command, check=True, env=environment(TUNED), stdout=log, stderr=subprocess.STDOUT)  # type: ignore[call-overload]
    return [numbers(line) for line in output.read_text("utf-8").splitlines()]


def _bleu(outputs: list[list[int]], work: Workload) -> float:
    """sacreBLEU's of the detokenised text."""
    validation = work.recipe.data.validation
    assert validation is not None
    references = read_lines(os.path.expandvars(validation.as_dictionary()["target"]))
    return float(scores(work.prepared.target.decode(outputs), [references])["bleu"].score)
