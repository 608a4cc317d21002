"""Measures training beside busy neighbours: `python benchmarks/peers/neighbours.py [--rounds 2] [--seconds 25]`.

A neighbour is a process that computes without end on one core. transduce trains in threads of one process, which wait
for each other after every operation, and in as many processes, which wait once a step. The systems run in turn in one
call, in float32 with the model and the 4,096 positions a step of `systems.py`; the peers are tuned.
"""

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from peers import FOLDER, RELEASES, TUNED, machine, median_and_range, table
from systems import System, configure_systems
from train import NEVER, measure_peer, say
from workload import ONE_VOCABULARY, RECIPE, prepare_workload

PEERS = ("eole", "Hugging Face")
LOOP = """
import os, sys
os.sched_setaffinity(0, [int(sys.argv[1])])
parent = os.getppid()
while os.getppid() == parent:  # it ends with a benchmark that is killed
    pass
"""
CHANGES = (
    "model.dropout=0.3",
    "training.batch_tokens=4096",
    "training.optimiser={kind: adam}",
    "training.regulariser=null",
    "training.precision=float32",
    "training.minutes=null",
    "training.validate_every=null",
    "training.log_every=5",
)


def train_command(out: Path, micro_batches: int, *options: str) -> System:
    """Returns `transduce train` as one of the systems."""
    command = [sys.executable, "-m", "transduce", "train", str(RECIPE), "--out", str(out), *options]
    for change in (*CHANGES, *ONE_VOCABULARY, f"training.micro_batches={micro_batches}"):
        command += ["--set", change]
    return System(command, re.compile(r"([\d,]+) tokens/s"), "", None)


@contextlib.contextmanager
def neighbours(cores: Sequence[int]) -> Iterator[None]:
    """Computes without end on each of the cores."""
    processes = [subprocess.Popen([sys.executable, "-c", LOOP, str(core)]) for core in cores]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> None:
    """Prints target tokens a second by system and load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="turns of each system under each load")
    parser.add_argument("--seconds", type=float, default=25, help="seconds of a turn")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, help="peers to measure; all if not given")
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    work = prepare_workload(FOLDER / "work")
    configured = configure_systems(work, work.folder / "neighbours", NEVER) if arguments.peers else {}
    loads = {"nothing": cores[:0], "one on one core": cores[:1], "one on each core": cores}
    speeds: dict[tuple[str, str], list[float]] = {}
    print(f"{machine()}; releases of the peers: {RELEASES}; settings of all: {TUNED}\n")
    with tempfile.TemporaryDirectory() as folder:
        count = str(len(cores))
        systems = {
            "transduce, threads": train_command(Path(folder, "threads"), 1),
            "transduce, processes": train_command(Path(folder, "processes"), len(cores), "--processes", count),
            **{name: configured[name] for name in arguments.peers},
        }
        alone = {"transduce, one thread": train_command(Path(folder, "one"), 1, "--threads", "1")}
        for number in range(1, arguments.rounds + 1):
            for load, busy in loads.items():
                for name, system in (systems if busy else systems | alone).items():
                    log = work.folder / f"neighbours-{name}.log".replace(" ", "-")
                    with neighbours(busy):
                        speed = measure_peer(system, TUNED, arguments.seconds, log)
                    speeds.setdefault((name, load), []).append(speed)
                    say(f"round {number}, beside {load}, {name}: {speed:,.0f}")
    rows = [
        [name, *(median_and_range(speeds[name, load]) if (name, load) in speeds else "" for load in loads)]
        for name in (*systems, *alone)
    ]
    print(table(["target tokens/s beside a busy process", *loads], rows))
    shares = [
        [
            name,
            *(
                f"{statistics.median(speeds[name, load]) / statistics.median(speeds[name, 'nothing']):.0%}"
                for load in loads
            ),
        ]
        for name in systems
    ]
    print("\n" + table(["share of the rate beside nothing", *loads], shares))


if __name__ == "__main__":
    main()
