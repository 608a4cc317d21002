"""Trainings killed again and again, compared with one that was not: `python benchmarks/kill.py --runs 50`.

Each is killed three times at random moments, and once while a checkpoint is written, in one, two and four processes in
turn; of several processes one dies, or all. Then it is told to go on, and has to end with the undisturbed bits.
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

from small_run import started, trained

PROCESSES = (1, 2, 4)


def kill(process: subprocess.Popen[bytes], one: bool, drawn: random.Random) -> None:
    """Kills one process that `torchrun` has started, whose end is the end of all, or all of them and itself."""
    children = _children(process.pid) if process.poll() is None else []
    for victim in [drawn.choice(children)] if one and children else [process.pid, *children]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    process.wait()


def _children(parent: int) -> list[int]:
    """The processes that one has started."""
    return list(map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split()))


def disturbed(folder: Path, out: Path, processes: int, drawn: random.Random) -> int:
    """Kills a run three times after some more steps each, then inside a save; gives how often it was still at work."""
    killed = 0
    for number in range(4):
        process, wanted = started(folder, out, processes), saved(out) + drawn.randint(0, 60)
        while process.poll() is None and saved(out) < wanted:
            time.sleep(0.01)
        if number < 3:
            time.sleep(drawn.random() * 0.3)
        else:
            while process.poll() is None and not list(out.glob("training/writing-*")):
                time.sleep(0.0005)
        killed += process.poll() is None
        kill(process, processes > 1 and drawn.random() < 0.5, drawn)
    return killed


def saved(out: Path) -> int:
    """The step of the newest checkpoint."""
    return max([int(path.name.removeprefix("step-")) for path in out.glob("training/step-*")], default=0)


def main() -> None:
    """All runs, each against the undisturbed one of as many processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    drawn, same, kills = random.Random(asked.seed), 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder, undisturbed = Path(name), {}
        for processes in PROCESSES:
            trained(folder, folder / f"undisturbed-{processes}", processes)
            undisturbed[processes] = (folder / f"undisturbed-{processes}" / "model.safetensors").read_bytes()
        for number in range(asked.runs):
            processes, out = PROCESSES[number % len(PROCESSES)], folder / f"run-{number}"
            kills += disturbed(folder, out, processes, drawn)
            trained(folder, out, processes)
            equal = (out / "model.safetensors").read_bytes() == undisturbed[processes]
            same += equal
            print(f"run {number + 1}: {processes} processes, {'the same bits' if equal else 'OTHER BITS'}", flush=True)
    print(f"{same} of {asked.runs} runs ended with the undisturbed bits, after {kills} kills (seed {asked.seed})")
    raise SystemExit(same != asked.runs or kills != 4 * asked.runs)


if __name__ == "__main__":
    main()
