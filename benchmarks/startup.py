"""Measures the time to start a command: `python benchmarks/startup.py MODEL [--rounds 5]`.

Runs `python -c "import torch"`, a translation of one line, `--help` and a usage error in turn, and prints medians of
the wall-clock time. Targets: a line takes at most 0.7 s more than torch alone, help and errors less than 0.5 s.
"""

import argparse
import statistics
import subprocess
import sys
import time


def main() -> None:
    """Measures all commands and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a model directory")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    transduce = [sys.executable, "-m", "transduce"]
    commands = {
        'python -c "import torch"': ([sys.executable, "-c", "import torch"], 0),
        "one line translated": ([*transduce, "translate", arguments.model, "--device", "cpu"], 0),
        "transduce --help": ([*transduce, "--help"], 0),
        "a usage error": ([*transduce, "translate"], 2),
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for round_number in range(arguments.rounds + 1):
        for name, (command, code) in commands.items():
            began = time.perf_counter()
            finished = subprocess.run(command, input=b"A man sleeps.\n", capture_output=True)
            if round_number:  # the first round reads the files from the disk
                seconds[name].append(time.perf_counter() - began)
            if finished.returncode != code:
                raise SystemExit(f"{name}: exit code {finished.returncode}\n{finished.stderr.decode()}")
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    print("| | seconds, median (least–greatest) |\n| --- | --- |")
    for name, times in seconds.items():
        print(f"| {name} | {medians[name]:.2f} ({min(times):.2f}–{max(times):.2f}) |")
    torch, line, *_ = medians.values()
    print(f"\nA line takes {line - torch:.2f} s more than torch alone.")


if __name__ == "__main__":
    main()
