"""What each step of the guide "Few texts" gains: 5,000 pairs of Multi30k, and the German side of the other pairs.

    python benchmarks/few_texts.py --minutes 8 --out runs/few-texts --threads 1

Each step trains for the same time, with the changes of the steps before it. `large-steps` differs from
`small-vocabulary` by the batches and their rate, `large-vocabulary` by the number of subwords. The same command
resumes, only measures what is trained, and with more minutes goes on. `back-translation` needs `both-directions`.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from data_folder import data_folder

PAIRS = 5_000

TRAINING = {
    "steps": None,  # the minutes end it
    "batch_tokens": 1024,
    "optimiser": {"kind": "adam"},
    "schedule": {"kind": "inverse_square_root", "warmup": 1000, "peak": 0.002},
    "validate_every": 500,
    "save_every": 50,
    "average": 10,
}
"""For some minutes of one core."""

LARGE_STEPS = {
    "batch_tokens": 4096,
    "schedule": {"kind": "inverse_square_root", "warmup": 400, "peak": 0.005},
    "validate_every": 100,
}
"""A quarter of the steps in the same time, with the rate of larger batches."""

STEPS: dict[str, dict[str, Any]] = {
    "large-steps": {"subwords": {"kind": "bpe", "size": 2_000}, "training": LARGE_STEPS},
    "large-vocabulary": {"subwords": {"kind": "bpe", "size": 10_000}},
    "small-vocabulary": {"subwords": {"kind": "bpe", "size": 2_000}},
    "subword-dropout": {"subwords": {"kind": "bpe", "size": 2_000, "dropout": 0.1}},
    "both-directions": {"subwords": {"kind": "bpe", "size": 2_000, "dropout": 0.1}},
    "back-translation": {"subwords": {"kind": "bpe", "size": 2_000, "dropout": 0.1}},
}
"""The settings of each step; its corpora are those of `corpora`."""


def transduce(*arguments: object) -> str:
    """Runs a command; its standard error is shown, its standard output returned."""
    command = [sys.executable, "-m", "transduce", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def write_corpora(corpus: Path, out: Path) -> int:
    """Writes the first pairs, and the German side of the others; returns the number of the others."""
    out.mkdir(parents=True, exist_ok=True)
    lines = {side: (corpus / f"train.{side}").read_text("utf-8").split("\n")[:-1] for side in ("en", "de")}
    for side, text in lines.items():
        (out / f"train.{side}").write_text("".join(f"{line}\n" for line in text[:PAIRS]), "utf-8")
    rest = lines["de"][PAIRS:]
    (out / "mono.de").write_text("".join(f"{line}\n" for line in rest), "utf-8")
    return len(rest)


def corpora(step: str, corpus: Path, out: Path, synthetic: int) -> dict[str, Any]:
    """Returns the section `data` of a step."""
    train: Any = {"source": str(out / "train.en"), "target": str(out / "train.de")}
    validation: Any = {"source": str(corpus / "val.en"), "target": str(corpus / "val.de")}
    if step == "both-directions":
        train, validation = ({**files, "direction": "both"} for files in (train, validation))
    if step == "back-translation":
        pairs = {"tsv": str(out / "synthetic.tsv"), "tag": "synthetic"}
        train = [{**train, "weight": round(synthetic / PAIRS, 1)}, pairs]
    test = {"source": str(corpus / "test_2016_flickr.en"), "target": str(corpus / "test_2016_flickr.de")}
    languages = {"source_language": "en", "target_language": "de"}
    return {**languages, "train": train, "validation": validation, "test": {"test2016": test}}


def main() -> None:
    """Trains each step, measures it and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS), help="all if not given")
    parser.add_argument("--threads", help="of a training")
    options = parser.parse_args()
    corpus, out = data_folder("multi30k/") / "multi30k", options.out.resolve()
    synthetic = write_corpora(corpus, out)
    threads = ["--threads", options.threads] if options.threads else []
    print("| step | BLEU of test2016 | 95 % interval |\n|---|---|---|")
    for step in options.steps:
        settings = STEPS[step]
        if step == "back-translation":
            made = ["--pairs", "backward", "--to", "en", "--temperature", "1", "--out", out / "synthetic.tsv"]
            transduce("translate-corpus", out / "both-directions", out / "mono.de", *made, *threads)
        recipe = {
            **settings,
            "data": corpora(step, corpus, out, synthetic),
            "model": {"preset": "tiny", "dropout": 0.2},
            "training": {**TRAINING, **settings.get("training", {}), "minutes": options.minutes},
        }
        (out / f"{step}.yaml").write_text(json.dumps(recipe, indent=2), "utf-8")
        transduce("train", out / f"{step}.yaml", "--out", out / step, *threads)
        measured = transduce("evaluate", out / step, "--test", "test2016", "--bootstrap", 1000, "--json", *threads)
        bleu = json.loads(measured)["bleu"]
        print(f"| {step} | {bleu['score']:.2f} | {bleu['low']:.2f}–{bleu['high']:.2f} |", flush=True)
    print(f"\n{bleu['signature']}")


if __name__ == "__main__":
    main()
