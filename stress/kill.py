"""Compares trainings that are killed again and again with one that is not: `python stress/kill.py --runs 50`.

Each run is killed three times at random moments, and once while a checkpoint is written. It has one, two or four
processes in turn; of several processes one is killed, or all. The run is then resumed, and must end with weights that
are bit-identical to those of the undisturbed run.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from small_run import start_training, train

PROCESSES = (1, 2, 4)


def kill(process: subprocess.Popen[bytes], only_child: bool, rng: random.Random) -> None:
    """Kills one child of `torchrun`, after which torchrun ends the others, or kills all processes of a training."""
    children = _children(process.pid) if process.poll() is None else []
    for victim in [rng.choice(children)] if only_child and children else [process.pid, *children]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    process.wait()


def _children(parent: int) -> list[int]:
    """Returns the ids of the children of a process."""
    return list(map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split()))


def disturb(folder: Path, out: Path, processes: int, rng: random.Random) -> int:
    """Starts and kills a run four times, the last time during a save; returns the kills that met a running process."""
    kills = 0
    for number in range(4):
        process, step = start_training(folder, out, processes), saved_step(out) + rng.randint(0, 60)
        while process.poll() is None and saved_step(out) < step:
            time.sleep(0.01)
        if number < 3:
            time.sleep(rng.random() * 0.3)
        else:
            while process.poll() is None and not list(out.glob("training/writing-*")):
                time.sleep(0.0005)
        kills += process.poll() is None
        kill(process, processes > 1 and rng.random() < 0.5, rng)
    return kills


def saved_step(out: Path) -> int:
    """Returns the step of the latest checkpoint."""
    return max([int(path.name.removeprefix("step-")) for path in out.glob("training/step-*")], default=0)


def main() -> None:
    """Compares each run with the undisturbed run of as many processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng, identical, kills = random.Random(arguments.seed), 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder, undisturbed = Path(name), {}
        for processes in PROCESSES:
            train(folder, folder / f"undisturbed-{processes}", processes)
            undisturbed[processes] = (folder / f"undisturbed-{processes}" / "model.safetensors").read_bytes()
        for number in range(arguments.runs):
            processes, out = PROCESSES[number % len(PROCESSES)], folder / f"run-{number}"
            kills += disturb(folder, out, processes, rng)
            train(folder, out, processes)
            is_identical = (out / "model.safetensors").read_bytes() == undisturbed[processes]
            identical += is_identical
            print(
                f"run {number + 1}: {processes} processes, {'bit-identical' if is_identical else 'DIFFERENT'}",
                flush=True,
            )
    print(f"{identical} of {arguments.runs} runs are bit-identical, after {kills} kills (seed {arguments.seed})")
    raise SystemExit(identical != arguments.runs or kills != 4 * arguments.runs)


if __name__ == "__main__":
    main()
