"""Training beside the peers', in turn in one run: speed, and how good each is when.

    python benchmarks/peers/train.py [--rounds 3] [--seconds 60] [--minutes 40] [--draw FILE.svg]

The same subword ids, the same model, the same 4,096 positions a step (`systems.py`). A peer runs as it is shipped, with
the settings that `transduce` gives itself, and in bfloat16 where it offers that on a CPU. All of it takes four hours.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import quality
import torch
from peers import FOLDER, RELEASES, SHIPPED, TUNED, environment, machine, spread, table
from systems import System, systems
from workload import Workload, workload

from transduce.runtime.device import has_fast_bfloat16

NEVER = 1_000_000  # steps
PRECISIONS = ("bfloat16", "float32")
# Each peer's faster precision, by the speeds: one that a processor does not multiply in costs more than it saves.
FASTEST = {
    "eole": "bfloat16" if has_fast_bfloat16(torch.device("cpu")) else "float32",
    "Hugging Face": "float32",
    "JoeyNMT": "float32",
}


def measured(system: System, settings: Mapping[str, str], seconds: float, log: Path) -> float:
    """Target tokens a second: the median of what the system reports for `seconds` after its first report."""
    speeds: list[float] = []
    deadline = float("inf")
    with log.open("w", encoding="utf-8") as kept:
        process = subprocess.Popen(
            system.command, env=environment(settings), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        for line in process.stdout:
            kept.write(line)
            if found := system.speed.search(line):
                # The first report has the start in it.
                if deadline == float("inf"):
                    deadline = time.monotonic() + seconds
                else:
                    speeds.append(float(found[1]))
            if time.monotonic() > deadline and len(speeds) >= 3:
                break
        process.kill()
        process.wait()
    if not speeds:
        raise SystemExit(f"{system.command[0]} reported no speed; what it said is in {log}")
    return statistics.median(speeds)


def ours(work: Workload, seconds: float, precision: str) -> dict[str, Any]:
    """`transduce bench train` on the same corpus."""
    corpus = work.recipe.data.train[0].as_dictionary()
    command = [sys.executable, "-m", "transduce", "bench", "train", "--preset", "tiny", "--json", "--device", "cpu"]
    command += ["--data", f"{corpus['source']},{corpus['target']}", "--steps", str(max(20, int(2 * seconds)))]
    for change in (
        "training.batch_tokens=4096",
        f"training.precision={precision}",
        "subwords.size=10000",
        "model.dropout=0.3",
    ):
        command += ["--set", change]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


def speeds_of(work: Workload, rounds: int, seconds: float) -> dict[tuple[str, str], list[float]]:
    """Target tokens a second of each system and its settings, a figure a round."""
    folder = work.folder / "speed"
    turns = [
        (name, kind, system, settings)
        for kind, settings, precision in (
            ("as shipped", SHIPPED, "float32"),
            ("tuned", TUNED, "float32"),
            ("tuned, bfloat16", TUNED, "bfloat16"),
        )
        for name, system in systems(work, folder / precision, NEVER, precision).items()
    ]
    speeds: dict[tuple[str, str], list[float]] = {}
    for number in range(1, rounds + 1):
        for precision in PRECISIONS:
            found = ours(work, seconds, precision)
            if number == 1:
                print(f"transduce: {found['settings']}\n")
            speeds.setdefault(("transduce", precision), []).append(found["tokens_per_second"])
            share = f"{found['share_of_peak']:.0%} of the rate of its matrix products"
            say(f"round {number}, transduce {precision}: {found['tokens_per_second']:,.0f}, {share}")
        for name, kind, system, settings in turns:
            log = work.folder / f"{name}-{kind}.log".replace(" ", "-")
            speeds.setdefault((name, kind), []).append(measured(system, settings, seconds, log))
            say(f"round {number}, {name} {kind}: {speeds[name, kind][-1]:,.0f}")
    return speeds


def curves_of(work: Workload, minutes: float) -> dict[str, quality.Curve]:
    """How good each system was when, ours first; a system that an earlier call has finished is not trained again."""
    folder = work.folder / "quality"
    trainings: dict[str, Callable[[], quality.Curve]] = {"transduce": partial(quality.ours, folder, minutes)}
    for name, precision in FASTEST.items():
        place = folder / precision
        system = systems(work, place, quality.EVERY[name], precision)[name]
        trainings[name] = partial(quality.theirs, name, system, work, place, minutes)
    curves = {}
    for name, train in trainings.items():
        curve = quality.kept(name, folder, minutes)
        if curve is None:
            say(f"{name}: {minutes:g} minutes")
            curve = train()
            quality.keep(name, folder, minutes, curve)
        else:
            say(f"{name}: its {minutes:g} minutes are those of an earlier call; without {folder} it is trained anew")
        curves[name] = curve
    return curves


def say(line: str) -> None:
    """Progress, apart from the tables."""
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each system has its turn; 0: no speeds")
    parser.add_argument("--seconds", type=float, default=60, help="how long a turn is measured")
    parser.add_argument("--minutes", type=float, default=40, help="how long each trains for quality; 0: not at all")
    parser.add_argument("--draw", type=Path, help="where the curves of quality are drawn, an SVG file")
    asked = parser.parse_args()
    work = workload(FOLDER / "work")
    print(f"{machine()}; tuned: {TUNED}\n")
    print(f"peers: {RELEASES}; what each was told is in {work.folder}/speed and quality\n")
    if asked.rounds:
        speeds = speeds_of(work, asked.rounds, asked.seconds)
        mine = [statistics.median(speeds["transduce", precision]) for precision in PRECISIONS]
        rows = [
            [*name, spread(values), *[f"{one / statistics.median(values):.2f}" for one in mine]]
            for name, values in speeds.items()
        ]
        faster = [f"transduce in {precision} is so many times as fast" for precision in PRECISIONS]
        heading = f"target tokens/s, median (least–greatest) of {asked.rounds} turns of {asked.seconds:g} s"
        print(table(["system", "settings", heading, *faster], rows), flush=True)
    if asked.minutes:
        curves = curves_of(work, asked.minutes)
        heads = [f"minutes to BLEU {wanted}" for wanted in quality.QUALITIES]
        head = ["system", "steps", f"validation BLEU after {asked.minutes:g} minutes", *heads]
        print("\n" + table(head, quality.rows(curves, asked.minutes)))
        if asked.draw:
            quality.draw(curves, asked.draw)
        for name, curve in curves.items():
            print(f"{name}: " + ", ".join(f"{point.minutes:.1f} min {point.bleu:.1f}" for point in curve))


if __name__ == "__main__":
    main()
