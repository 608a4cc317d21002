"""One table of several fine-tunings of the same model: the test sets before, and after each.

    python benchmarks/fine_tuning.py runs/chat runs/chat-mixed runs/chat-grown

`recipes/chat-en-de.yaml` has the commands that make these runs.
"""

import argparse
import json
from pathlib import Path
from typing import Any


def main() -> None:
    """Prints the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="runs that began with the same model")
    print(table([(run.name, read_tests(run)) for run in parser.parse_args().runs]))


def read_tests(run: Path) -> dict[str, dict[str, Any]]:
    """Returns the last record of each test set in the metrics log of a run, by name."""
    lines = (run / "metrics.jsonl").read_text("utf-8").splitlines()
    tests = {record["test"]: record for record in map(json.loads, lines) if "test" in record}
    if not tests:
        raise SystemExit(f"{run} has no test scores: it was trained without --from, or with --no-report")
    return tests


def table(runs: list[tuple[str, dict[str, dict[str, Any]]]]) -> str:
    """Returns a row a test set: the scores before, which all runs must share, and after each run."""
    rows = [["test set", "before", *(name for name, _ in runs)], ["---"] * (2 + len(runs))]
    signatures: dict[str, None] = {}
    for test in runs[0][1]:
        records = [tests[test] for _, tests in runs]
        if any(record["before"] != records[0]["before"] for record in records):
            raise SystemExit(f"{test}: the runs began with different models")
        scores = [records[0]["before"], *(record["after"] for record in records)]
        signatures |= dict.fromkeys(score["signature"] for score in scores if score)
        rows.append([test, *map(cell, scores)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + f"\n\n{', '.join(signatures)}"


def cell(score: dict[str, Any] | None) -> str:
    """Returns a score with its confidence interval."""
    if score is None:
        return "not measured"
    points = score["bleu"] if "bleu" in score else score["f1"]
    return f"{points:.2f} [{score['low']:.2f}, {score['high']:.2f}]"


if __name__ == "__main__":
    main()
