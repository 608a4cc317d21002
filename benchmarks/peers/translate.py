"""Translating speed beside the peers', in turn in one run: `python benchmarks/peers/translate.py RUN [--rounds 3]`.

RUN is a model directory of the base size, trained far enough to end its sentences; its weights are carried to each
engine. Each engine has two cores. A peer takes the fastest of its settings, found first on every third line, for each
text and each width of beam; ours the least margin that costs no more than 0.1 BLEU in validation. A sentence that does
not end goes on for 50 words more than its source, at the peers than the longest source: where many do so, subwords a
second say more than sentences.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from peers import FOLDER, INSIDE, TUNED, environment, machine, python_of, spread, table
from workload import ROOT

from transduce.measure import scores
from transduce.model_directory import Model

METRIC = "bleu"
VALIDATION = "validation"
MARGINS = (3.0, 2.0, 1.5, 1.0, 0.7)
LOST = 0.1  # BLEU, by the margin, at most
Task = dict[str, Any]


class Text(NamedTuple):
    """A test set: its lines, their ids and the references."""

    lines: list[str]
    sentences: list[list[int]]
    references: list[str]


class Engine(NamedTuple):
    """Who translates, in which environment, with which settings to choose among."""

    python: Path
    script: str
    choices: list[Task]


ENGINES = {
    "transduce float32": ("", "translate_transduce.py", [{"precision": "float32", "margin": None, "batch": 8192}]),
    "transduce float32, margin": ("", "translate_transduce.py", [{"precision": "float32", "batch": 8192}]),
    "transduce int8": ("", "translate_transduce.py", [{"precision": "int8", "margin": None, "batch": 8192}]),
    "transduce int8, margin": ("", "translate_transduce.py", [{"precision": "int8", "batch": 8192}]),
    **{
        f"CTranslate2 {kind}": (
            "ctranslate2",
            "translate_ctranslate2.py",
            [
                {
                    "compute_type": kind,
                    "inter_threads": inter,
                    "intra_threads": 2 // inter,
                    "batch": batch,
                    "batch_type": by,
                }
                for inter, (batch, by) in product((1, 2), ((32, "examples"), (128, "examples"), (2048, "tokens")))
            ],
        )
        for kind in ("float32", "int8")
    },
    "Hugging Face": ("huggingface", "translate_huggingface.py", [{"batch": 32}, {"batch": 128}]),
}


def engines() -> dict[str, Engine]:
    """All of them, installed."""
    return {
        name: Engine(python_of(peer) if peer else Path(sys.executable), script, choices)
        for name, (peer, script, choices) in ENGINES.items()
    }


def ran(engine: Engine, task: Task) -> dict[str, Any]:
    """One process's report."""
    path = FOLDER / "work/task.json"
    path.write_text(json.dumps(task), "utf-8")
    settings: Mapping[str, str] = {} if engine.script == "translate_transduce.py" else TUNED
    variables = environment(settings)
    if engine.script == "translate_transduce.py":
        variables["PYTHONPATH"] = str(ROOT / "src")
    done = subprocess.run(
        [engine.python, INSIDE / engine.script, path], env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{engine.script} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def fastest(engine: Engine, base: Task) -> Task:
    """The settings with which an engine does a third of a task soonest."""
    if len(engine.choices) == 1:
        return engine.choices[0]
    third = base | {key: base[key][::3] for key in ("lines", "sentences")}
    return min(engine.choices, key=lambda choice: float(ran(engine, third | choice)["seconds"]))


def bearable(engine: Engine, base: Task, model: Model, validation: Text) -> float | None:
    """The least margin that costs no more than 0.1 BLEU in validation, with int8 products; None where each does."""

    def quality(margin: float | None) -> float:
        task = base | {"precision": "int8", "margin": margin, "batch": 8192, "lines": validation.lines}
        outputs = model.target.decode(ran(engine, task)["outputs"])
        return scores(outputs, [validation.references], [METRIC], language="de")[METRIC].score

    exact = quality(None)
    found = None
    for margin in MARGINS:
        if (lost := exact - quality(margin)) > LOST:
            break
        print(f"margin {margin}: {lost:+.2f} BLEU lost of {exact:.2f} in validation", file=sys.stderr)
        found = margin
    return found


def texts(model: Model, captions: int, news: int) -> dict[str, Text]:
    """The first lines of the two test sets."""
    if "TRANSDUCE_DATA" not in os.environ:
        raise SystemExit("set TRANSDUCE_DATA to the folder that has multi30k/ and wmt14-en-de/ of `transduce fetch`")
    folder = Path(os.environ["TRANSDUCE_DATA"])
    newstest = "wmt14-en-de" if (folder / "wmt14-en-de").is_dir() else "newstest/en-de"
    sets = {
        "Multi30k test2016": (captions, "multi30k/test_2016_flickr.en", "multi30k/test_2016_flickr.de"),
        VALIDATION: (None, "multi30k/val.en", "multi30k/val.de"),  # all: of 500 lines BLEU says too little
        "newstest2014": (news, f"{newstest}/newstest2014.en", f"{newstest}/newstest2014.de"),
    }
    read = {}
    for name, (many, *paths) in sets.items():
        source, target = ((folder / path).read_text("utf-8").splitlines()[:many] for path in paths)
        read[name] = Text(source, model.source.encode(source), target)
    return read


def ratios(rates: Mapping[str, tuple[float, float]]) -> str:
    """Ours by each of the peers', of sentences and of target tokens a second."""
    peers = [label for label in rates if not label.startswith("transduce")]
    rows = []
    for label in rates.keys() - peers:
        beside = [[own / other for own, other in zip(rates[label], rates[peer], strict=True)] for peer in peers]
        rows.append([label, *(f"{sentences:.2f} ({tokens:.2f})" for sentences, tokens in beside)])
    return table(["", *peers], sorted(rows))


def main() -> None:
    """Prints a table for each test set and width of beam."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="the model directory")
    parser.add_argument("--rounds", type=int, default=3, help="how often each engine has its turn")
    parser.add_argument("--lines", type=int, default=300, help="lines of Multi30k's test2016")
    parser.add_argument("--news", type=int, default=100, help="lines of newstest2014, which are twice as long")
    asked = parser.parse_args()
    model = Model.read(asked.run)
    scratch = FOLDER / "work"
    scratch.mkdir(parents=True, exist_ok=True)
    print(f"{machine()}; {asked.rounds} rounds, {asked.lines} and {asked.news} lines; peers with {TUNED}")
    everything = texts(model, asked.lines, asked.news)
    known = engines()
    task = {"model": str(asked.run.resolve()), "scratch": str(scratch), "length_penalty": 0.6}
    margin = bearable(known["transduce int8"], task | {"beam": 4}, model, everything.pop(VALIDATION))
    for (name, text), beam in product(everything.items(), (4, 1)):
        base = task | {"beam": beam, "margin": margin, "lines": text.lines, "sentences": text.sentences}
        chosen = {
            label: (engine, fastest(engine, base))
            for label, engine in known.items()
            if beam > 1 or "margin" not in label  # greedily there is nothing to prune
        }
        times: dict[str, list[float]] = {label: [] for label in chosen}
        last: dict[str, dict[str, Any]] = {}
        for turn in range(asked.rounds):
            for label, (engine, choice) in chosen.items():
                last[label] = ran(engine, base | choice)
                times[label].append(last[label]["seconds"])
                print(f"{name}, beam {beam}, round {turn + 1}, {label}: {times[label][-1]:.2f} s", file=sys.stderr)
        print(f"\n{name}, {'greedy' if beam == 1 else f'beam {beam}'}\n")
        rows, rates = [], {}
        for label, values in times.items():
            outputs = model.target.decode(last[label]["outputs"])
            score = scores(outputs, [text.references], [METRIC], language="de")[METRIC]
            words = sum(len(row) + 1 for row in last[label]["outputs"])
            seconds = statistics.median(values)
            rates[label] = len(text.lines) / seconds, words / seconds
            rows.append(
                [
                    label,
                    spread([len(text.lines) / value for value in values], 1),
                    f"{rates[label][1]:,.0f}",
                    f"{score.score:.2f}",
                    str(last[label]["settings"]),
                ]
            )
        print(table(["engine", "sentences/s, median (least–greatest)", "target tokens/s", "BLEU", "settings"], rows))
        print(f"\nHow many times as fast, by sentences (by target tokens):\n\n{ratios(rates)}", flush=True)


if __name__ == "__main__":
    main()
