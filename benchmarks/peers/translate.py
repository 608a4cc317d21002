"""Compares the speed of translation with the peers: `python benchmarks/peers/translate.py RUN [--cores 1]`.

RUN is a model directory, trained far enough to end its sentences; the peers translate with its exports. Each engine has
the same cores, two if not given. The engines run in turn in one call; a turn translates the text twice, and is timed
the second time. A peer has the fastest of its settings for each text and beam, measured on every third line; transduce
the least margin that costs at most 0.1 BLEU in validation. The longest output has 50 tokens more than its source, and
at the peers 50 more than the longest source: where many outputs are that long, compare tokens a second instead of
sentences.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from peers import FOLDER, INSIDE, TUNED, environment, machine, median_and_range, python_of, table
from workload import ROOT

from transduce.exchange.export_model import export
from transduce.measure.scoring import scores
from transduce.model_directory.model import Model

METRIC = "bleu"
MULTI30K = {"test": "test_2016_flickr", "validation": "val"}
MARGINS = (3.0, 2.0, 1.5, 1.0, 0.7)
MOST_LOSS = 0.1  # of BLEU, by the margin
Task = dict[str, Any]


class Text(NamedTuple):
    """A test set: its lines, their ids and the references."""

    lines: list[str]
    sentences: list[list[int]]
    references: list[str]


class Engine(NamedTuple):
    """An engine: the interpreter of its environment, its script, and the settings to choose from."""

    python: Path
    script: str
    choices: list[Task]


CORES = (1, 2)


def threads_of(cores: int) -> list[tuple[int, int]]:
    """Returns the numbers of CTranslate2's workers, and of the threads of each, that use all cores."""
    return [(workers, cores // workers) for workers in CORES if workers <= cores]


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
                {"compute_type": kind, "batch": batch, "batch_type": by}
                for batch, by in ((32, "examples"), (128, "examples"), (2048, "tokens"))
            ],
        )
        for kind in ("float32", "int8")
    },
    "Hugging Face": ("huggingface", "translate_huggingface.py", [{"batch": 32}, {"batch": 128}]),
}


EXPORTS = {"ctranslate2": "ctranslate2", "huggingface": "hugging-face"}  # target of `transduce export` of each peer


def install_engines(names: Sequence[str], cores: int) -> dict[str, Engine]:
    """Installs the engines and returns them by name."""
    engines = {}
    for name in names:
        peer, script, choices = ENGINES[name]
        if peer == "ctranslate2":
            choices = [
                {**choice, "inter_threads": workers, "intra_threads": threads}
                for choice, (workers, threads) in product(choices, threads_of(cores))
            ]
        engines[name] = Engine(python_of(peer) if peer else Path(sys.executable), script, choices)
    return engines


def run_engine(engine: Engine, task: Task) -> dict[str, Any]:
    """Runs a task in a process, and returns its report."""
    path = FOLDER / "translation/task.json"
    path.write_text(json.dumps(task), "utf-8")
    settings: Mapping[str, str] = {} if engine.script == "translate_transduce.py" else TUNED
    variables = environment(settings)
    if engine.script == "translate_transduce.py":
        variables["PYTHONPATH"] = str(ROOT / "src")
    finished = subprocess.run(
        [engine.python, INSIDE / engine.script, path], env=variables, capture_output=True, text=True, check=False
    )
    if finished.returncode:
        raise SystemExit(f"{engine.script} failed:\n{finished.stderr[-3000:]}")
    report: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return report


def fastest_settings(engine: Engine, base: Task) -> Task:
    """Returns the settings with which an engine is fastest on a third of a task."""
    if len(engine.choices) == 1:
        return engine.choices[0]
    third = base | {key: base[key][::3] for key in ("lines", "sentences")}
    return min(engine.choices, key=lambda choice: float(run_engine(engine, third | choice)["seconds"]))


def least_margin(engine: Engine, base: Task, model: Model, validation: Text) -> float | None:
    """Returns the least margin that costs at most `MOST_LOSS` in validation, in int8; None if all cost more."""

    def quality(margin: float | None) -> float:
        task = base | {"precision": "int8", "margin": margin, "batch": 8192, "lines": validation.lines}
        outputs = model.target.decode(run_engine(engine, task)["outputs"])
        return scores(outputs, [validation.references], [METRIC], language="de")[METRIC].score

    exact = quality(None)
    least = None
    for margin in MARGINS:
        if (lost := exact - quality(margin)) > MOST_LOSS:
            break
        print(f"margin {margin}: {lost:+.2f} BLEU lost of {exact:.2f} in validation", file=sys.stderr)
        least = margin
    return least


def corpora() -> Path:
    """Returns the folder of the corpora."""
    if "TRANSDUCE_DATA" not in os.environ:
        raise SystemExit("set TRANSDUCE_DATA to the folder that has multi30k/ and wmt14-en-de/ of `transduce fetch`")
    return Path(os.environ["TRANSDUCE_DATA"])


def read_text(model: Model, source: Path, reference: Path, count: int | None) -> Text:
    """Returns the first `count` lines of a test set; None: all."""
    lines, references = (path.read_text("utf-8").splitlines()[:count] for path in (source, reference))
    return Text(lines, model.source.encode(lines), references)


def read_news(model: Model, count: int) -> Text:
    """Returns the first `count` lines of newstest2014."""
    folder = corpora() / ("wmt14-en-de" if (corpora() / "wmt14-en-de").is_dir() else "newstest/en-de")
    return read_text(model, folder / "newstest2014.en", folder / "newstest2014.de", count)


def ratio_table(rates: Mapping[str, tuple[float, float]]) -> str:
    """Returns a table of our speeds divided by those of each peer, in sentences and in target tokens a second."""
    peers = [label for label in rates if not label.startswith("transduce")]
    rows = []
    for label in rates.keys() - peers:
        ratios = [[ours / theirs for ours, theirs in zip(rates[label], rates[peer], strict=True)] for peer in peers]
        rows.append([label, *(f"{sentences:.2f} ({tokens:.2f})" for sentences, tokens in ratios)])
    return table(["", *peers], sorted(rows))


def main() -> None:
    """Prints a table for each test set and beam."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="the model directory")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each engine")
    parser.add_argument("--lines", type=int, default=300, help="lines of the test set")
    for name, stem in MULTI30K.items():
        files = f"its two files; Multi30k's {stem} if not given"
        parser.add_argument(f"--{name}", type=Path, nargs=2, metavar=("SOURCE", "REFERENCE"), help=files)
    parser.add_argument("--cores", type=int, choices=CORES, default=2, help="cores of every engine")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=[*ENGINES], help="all if not given")
    parser.add_argument("--news", type=int, default=100, help="lines of newstest2014, which are twice as long; 0: none")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cores])
    model = Model.read(arguments.run)
    scratch = FOLDER / "translation"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    for peer, target in EXPORTS.items():
        if any(ENGINES[name][0] == peer for name in arguments.engines):
            export(arguments.run, target, scratch / target, "float32", 0)
    print(f"{machine()}; {arguments.rounds} rounds, {arguments.lines} and {arguments.news} lines; peers with {TUNED}")
    for name, stem in MULTI30K.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, [corpora() / "multi30k" / f"{stem}.{language}" for language in ("en", "de")])
    # All of the validation set: the BLEU of some hundred lines would be too uncertain.
    validation = read_text(model, *arguments.validation, None)
    texts = {arguments.test[0].stem: read_text(model, *arguments.test, arguments.lines)}
    if arguments.news:
        texts["newstest2014"] = read_news(model, arguments.news)
    engines = install_engines(arguments.engines, arguments.cores)
    task = {"model": str(arguments.run.resolve()), "exports": str(scratch), "length_penalty": 0.6}
    with_margin = [engine for name, engine in engines.items() if name.endswith("margin")]
    margin = least_margin(with_margin[0], task | {"beam": 4}, model, validation) if with_margin else None
    for (name, text), beam in product(texts.items(), (4, 1)):
        base = task | {"beam": beam, "margin": margin, "lines": text.lines, "sentences": text.sentences}
        chosen = {
            label: (engine, fastest_settings(engine, base))
            for label, engine in engines.items()
            if beam > 1 or "margin" not in label  # greedy search has nothing to prune
        }
        times: dict[str, list[float]] = {label: [] for label in chosen}
        last: dict[str, dict[str, Any]] = {}
        for turn in range(arguments.rounds):
            for label, (engine, choice) in chosen.items():
                last[label] = run_engine(engine, base | choice)
                times[label].append(last[label]["seconds"])
                print(f"{name}, beam {beam}, round {turn + 1}, {label}: {times[label][-1]:.2f} s", file=sys.stderr)
        print(f"\n{name}, {'greedy' if beam == 1 else f'beam {beam}'}\n")
        rows, rates = [], {}
        for label, values in times.items():
            outputs = model.target.decode(last[label]["outputs"])
            score = scores(outputs, [text.references], [METRIC], language="de")[METRIC]
            tokens = sum(len(row) + 1 for row in last[label]["outputs"])
            turns_a_second = statistics.median(1 / value for value in values)  # the median that the table shows
            rates[label] = len(text.lines) * turns_a_second, tokens * turns_a_second
            rows.append(
                [
                    label,
                    median_and_range([len(text.lines) / value for value in values], 1),
                    f"{rates[label][1]:,.0f}",
                    f"{score.score:.2f}",
                    str(last[label]["settings"]),
                ]
            )
        print(table(["engine", "sentences/s, median (least–greatest)", "target tokens/s", "BLEU", "settings"], rows))
        print(
            f"\nOur speed divided by the peer's, in sentences (in target tokens) a second:\n\n{ratio_table(rates)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
