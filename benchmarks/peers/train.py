"""Compares training with the peers: speed, and BLEU over time. The systems run in turn in one call.

    python benchmarks/peers/train.py [--rounds 3] [--seconds 60] [--minutes 40] [--draw FILE.svg]

For speed all have the same subword ids, the same model and 4,096 positions a step (`systems.py`). A peer runs as it is
shipped, then with the settings that `transduce` makes, and in bfloat16 where it and the processor have that. For BLEU
over time `transduce` trains its recipe, whose sides have vocabularies of their own. A whole call takes four hours.
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
from peers import FOLDER, RELEASES, SHIPPED, TUNED, environment, machine, median_and_range, table
from systems import System, configure_systems
from workload import Workload, prepare_workload

from transduce.runtime.device import has_fast_bfloat16

NEVER = 1_000_000  # steps
# On a processor without bfloat16 products, bfloat16 is not measured: a step takes over ten seconds.
HAS_BFLOAT16 = has_fast_bfloat16(torch.device("cpu"))
PRECISIONS = ("bfloat16", "float32") if HAS_BFLOAT16 else ("float32",)
KINDS = [("as shipped", SHIPPED, "float32"), ("tuned", TUNED, "float32"), ("tuned, bfloat16", TUNED, "bfloat16")]
# The faster precision of each peer.
FASTEST = {
    "eole": "bfloat16" if HAS_BFLOAT16 else "float32",
    "Hugging Face": "float32",
    "JoeyNMT": "float32",
}


def measure_peer(system: System, settings: Mapping[str, str], seconds: float, log: Path) -> float:
    """Returns the median of the target tokens a second that a peer reports, for `seconds` after its first report."""
    speeds: list[float] = []
    deadline = float("inf")
    with log.open("w", encoding="utf-8") as log_file:
        process = subprocess.Popen(
            system.command, env=environment(settings), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        for line in process.stdout:
            log_file.write(line)
            if match := system.speed.search(line):
                # The first report includes the start.
                if deadline == float("inf"):
                    deadline = time.monotonic() + seconds
                else:
                    speeds.append(float(match[1].replace(",", "")))
            if time.monotonic() > deadline and len(speeds) >= 3:
                break
        process.kill()
        process.wait()
    if not speeds:
        raise SystemExit(f"{system.command[0]} reported no speed; its messages are in {log}")
    return statistics.median(speeds)


def measure_transduce(work: Workload, seconds: float, precision: str) -> dict[str, Any]:
    """Returns the report of `transduce bench train` on the same corpus."""
    corpus = work.recipe.data.train[0].as_dictionary()
    command = [sys.executable, "-m", "transduce", "bench", "train", "--preset", "tiny", "--json", "--device", "cpu"]
    command += ["--data", f"{corpus['source']},{corpus['target']}", "--steps", str(max(20, int(2 * seconds)))]
    for change in (
        "training.batch_tokens=4096",
        "training.optimiser={kind: adam}",
        f"training.precision={precision}",
        "subwords.size=10000",
        "model.dropout=0.3",
    ):
        command += ["--set", change]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)
    report: dict[str, Any] = json.loads(finished.stdout)
    return report


def measure_speeds(work: Workload, rounds: int, seconds: float) -> dict[tuple[str, str], list[float]]:
    """Returns target tokens a second in each round, by system and settings."""
    folder = work.folder / "speed"
    turns = [
        (name, kind, system, settings)
        for kind, settings, precision in KINDS
        if precision in PRECISIONS
        for name, system in configure_systems(work, folder / precision, NEVER, precision).items()
    ]
    speeds: dict[tuple[str, str], list[float]] = {}
    for number in range(1, rounds + 1):
        for precision in PRECISIONS:
            report = measure_transduce(work, seconds, precision)
            if number == 1:
                print(f"transduce: {report['settings']}\n")
            speeds.setdefault(("transduce", precision), []).append(report["tokens_per_second"])
            share = f"{report['share_of_peak']:.0%} of the rate of its matrix products"
            say(f"round {number}, transduce {precision}: {report['tokens_per_second']:,.0f}, {share}")
        for name, kind, system, settings in turns:
            log = work.folder / f"{name}-{kind}.log".replace(" ", "-")
            speeds.setdefault((name, kind), []).append(measure_peer(system, settings, seconds, log))
            say(f"round {number}, {name} {kind}: {speeds[name, kind][-1]:,.0f}")
    return speeds


def measure_curves(work: Workload, minutes: float) -> dict[str, quality.Curve]:
    """Returns the curve of each system, ours first; the curve of an earlier call is loaded."""
    folder = work.folder / "quality"
    trainings: dict[str, Callable[[], quality.Curve]] = {"transduce": partial(quality.train_transduce, folder, minutes)}
    for name, precision in FASTEST.items():
        place = folder / precision
        system = configure_systems(work, place, quality.STEPS_A_POINT[name], precision)[name]
        trainings[name] = partial(quality.train_peer, name, system, work, place, minutes)
    curves = {}
    for name, train in trainings.items():
        curve = quality.load_curve(name, folder, minutes)
        if curve is None:
            say(f"{name}: {minutes:g} minutes")
            curve = train()
            quality.save_curve(name, folder, minutes, curve)
        else:
            say(f"{name}: loaded from an earlier call; delete {folder} to train again")
        curves[name] = curve
    return curves


def say(line: str) -> None:
    """Prints a line of progress on standard error."""
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Measures the systems and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each system; 0: no speeds")
    parser.add_argument("--seconds", type=float, default=60, help="seconds of a turn")
    parser.add_argument("--minutes", type=float, default=40, help="minutes of each training for quality; 0: none")
    parser.add_argument("--draw", type=Path, help="SVG file for the curves of quality")
    arguments = parser.parse_args()
    work = prepare_workload(FOLDER / "work")
    print(f"{machine()}; tuned: {TUNED}\n")
    print(f"peers: {RELEASES}; their configurations are in {work.folder}/speed and quality\n")
    if arguments.rounds:
        speeds = measure_speeds(work, arguments.rounds, arguments.seconds)
        medians = [statistics.median(speeds["transduce", precision]) for precision in PRECISIONS]
        rows = [
            [*name, median_and_range(values), *[f"{median / statistics.median(values):.2f}" for median in medians]]
            for name, values in speeds.items()
        ]
        ratios = [f"speed of transduce in {precision} by this" for precision in PRECISIONS]
        heading = f"target tokens/s, median (least–greatest) of {arguments.rounds} turns of {arguments.seconds:g} s"
        print(table(["system", "settings", heading, *ratios], rows), flush=True)
    if arguments.minutes:
        curves = measure_curves(work, arguments.minutes)
        heads = [f"minutes to BLEU {bleu}" for bleu in quality.QUALITIES]
        head = ["system", "steps", f"validation BLEU after {arguments.minutes:g} minutes", *heads]
        print("\n" + table(head, quality.rows(curves, arguments.minutes)))
        if arguments.draw:
            quality.draw(curves, arguments.draw)
        for name, curve in curves.items():
            points = (f"step {point.step:,}, {point.minutes:.1f} min: {point.bleu:.1f}" for point in curve)
            print(f"{name}: {'; '.join(points)}")


if __name__ == "__main__":
    main()
