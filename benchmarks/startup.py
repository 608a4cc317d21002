"""How long a command takes to begin: `python benchmarks/startup.py MODEL [--rounds 5]`.

`python -c "import torch"`, one line translated, `--help`, an error of usage, in turn; medians of the wall clock. The
bars: a line in at most 0.7 s more than torch alone, help and errors in under 0.5 s.
"""

import argparse
import statistics
import subprocess
import sys
import time


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a directory of a model")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    transduce = [sys.executable, "-m", "transduce"]
    commands = {
        'python -c "import torch"': ([sys.executable, "-c", "import torch"], 0),
        "one line translated": ([*transduce, "translate", asked.model, "--device", "cpu"], 0),
        "transduce --help": ([*transduce, "--help"], 0),
        "an error of usage": ([*transduce, "translate"], 2),
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(asked.rounds + 1):
        for name, (command, code) in commands.items():
            began = time.perf_counter()
            ended = subprocess.run(command, input=b"A man sleeps.\n", capture_output=True)
            if turn:  # the first round reads the files from the disk
                seconds[name].append(time.perf_counter() - began)
            if ended.returncode != code:
                raise SystemExit(f"{name}: exit code {ended.returncode}\n{ended.stderr.decode()}")
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    print("| | seconds, median (least–greatest) |\n| --- | --- |")
    for name, each in seconds.items():
        print(f"| {name} | {medians[name]:.2f} ({min(each):.2f}–{max(each):.2f}) |")
    torch, line, *_ = medians.values()
    print(f"\nA line takes {line - torch:.2f} s more than torch alone.")


if __name__ == "__main__":
    main()
