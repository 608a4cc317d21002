"""Runs real commands on inputs whose structure is damaged: `python structure.py --tries 20000 --seed 1`.

Model directories, checkpoints, stores, recipes and translation memories get other types, sizes, dtypes, shapes, keys,
links, folders, FIFOs and sockets, under checksums that hold. A command must end with code 0, or with code 1 or 2 and a
message, within ten seconds and 1 GB, and touch nothing outside of its folder. All else is a finding; `--only N` repeats
try N of a seed, and with `TRANSDUCE_DEBUG=1` shows tracebacks.
"""

import argparse
import collections
import contextlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from changes import change_file, change_json, change_memory, change_store, change_tensors, plant_file, write_sealed
from forked import Limits, Outcome, preload, run_forked

from transduce.embedded import split
from transduce.translation.translator import Translator

LIMITS = Limits(seconds=10, processor_seconds=10, memory=2 << 30)
PATIENCE = 6  # times the seconds for a try that took too long, as it may on a machine with other work
MEMORY = 1 << 30  # more is a finding
SECRET = "sesame-4711"
STEPS = 12
# So that `training` may be on another disk, links to folders are followed.
FOLLOWED = ("folder, link to its copy outside", "folder, link to a folder outside")
TEXT, LINES = b"a cat\n\nthe dog sleeps\n", 3
RECIPE = f"""
data:
  train: {{tsv: pairs.tsv}}
  validation: {{tsv: validation.tsv}}
  test: {{spare: {{tsv: validation.tsv}}, memory: {{tmx: ../try/memory.tmx}}}}
  source_language: en
  target_language: de
subwords: {{kind: bpe, size: 320}}
model:
  preset: tiny
  d_model: 24
  encoder_layers: 1
  decoder_layers: 1
  mixer: {{kind: attention, heads: 2, d_k: 6, d_v: 5}}
  cross: {{kind: attention, heads: 3, d_k: 4, d_v: 7}}
  feed_forward: {{kind: feed_forward, d_ff: 40}}
training:
  steps: {STEPS}
  batch_tokens: 512
  precision: float32
  micro_batches: 2
  schedule: {{kind: inverse_square_root, warmup: 4, peak: 0.01}}
  validate_every: 12
  save_every: 4
  log_every: 4
  keep: 3
  average: 2
decoding: {{beam: 2, extra_length: 4}}
"""


class Inputs(NamedTuple):
    """The folders of all tries."""

    base: Path

    @property
    def run(self) -> Path:
        """The run that every try damages a copy of."""
        return self.base / "inputs" / "run"

    @property
    def recipe(self) -> Path:
        """The recipe of the run."""
        return self.base / "inputs" / "recipe.yaml"

    @property
    def outside(self) -> Path:
        """Files and folders that links lead to, and that no command may touch."""
        return self.base / "outside"

    @property
    def folder(self) -> Path:
        """The folder of a try."""
        return self.base / "try"

    @property
    def damaged(self) -> Path:
        """The damaged copy of the run."""
        return self.folder / "run"


class Try(NamedTuple):
    """A damaged input and the command that reads it."""

    change: str
    command: str
    arguments: Sequence[object]


MODEL_FILES = ("config.json", "recipe.yaml", "tokenizer.json", "manifest.json", "model.safetensors")


def damage_model(inputs: Inputs, rng: random.Random) -> Try:
    """Damages a file of a model directory."""
    run = shutil.copytree(inputs.run, inputs.damaged)
    path = run / rng.choice((*MODEL_FILES, "config.json", "model.safetensors"))
    if rng.random() < 0.25:
        path = rng.choice((path, run / "README.md", run / "metrics.jsonl", run / "training"))
        change = change_file(path, inputs.outside, rng)
    elif rng.random() < 0.1:
        change = plant_file(run, MODEL_FILES, inputs.outside, rng)
    else:
        change = change_content(path, rng)
    names = ("verify", "info", "translate", "translate", "score", "score", "evaluate", "average", "train", "train on")
    return Try(f"model: {change}", *choose_command(names, inputs, rng))


def damage_checkpoint(inputs: Inputs, rng: random.Random) -> Try:
    """Damages a file of a checkpoint, mostly of the newest, or puts something else in its place."""
    run = shutil.copytree(inputs.run, inputs.damaged)
    steps = sorted((run / "training").glob("step-*"))
    step = rng.choice((*steps, steps[-1], steps[-1]))
    path = step / rng.choice(
        ("state.json", "state.json", "manifest.json", "model.safetensors", "optimiser.safetensors")
    )
    if rng.random() < 0.25:
        change = change_file(rng.choice((path, path, step)), inputs.outside, rng)
    elif rng.random() < 0.1:
        change = plant_file(run, MODEL_FILES, inputs.outside, rng)
    else:
        change = change_content(path, rng)
    return Try(
        f"checkpoint: {change}", *choose_command(("verify", "average", "average", "train", "train on"), inputs, rng)
    )


def damage_store(inputs: Inputs, rng: random.Random) -> Try:
    """Damages the description or a file of the prepared corpus."""
    run = shutil.copytree(inputs.run, inputs.damaged)
    store = run / "training" / "store"
    if rng.random() < 0.2:
        change = change_file(rng.choice((store, *sorted(store.iterdir()))), inputs.outside, rng)
    else:
        change = change_store(store, rng)
    return Try(f"store: {change}", *choose_command(("verify", "prepare", "prepare", "train", "train on"), inputs, rng))


def damage_recipe(inputs: Inputs, rng: random.Random) -> Try:
    """Damages a recipe."""
    shutil.copytree(inputs.run, inputs.damaged)
    path = shutil.copy(inputs.run / "recipe.yaml", inputs.folder / "recipe.yaml")
    if rng.random() < 0.1:
        change = change_file(path, inputs.outside, rng)
    else:
        change, content = change_json(json.loads(path.read_bytes()), rng)
        path.write_bytes(content)
    command, arguments = rng.choice(
        (
            ("info", ["info", path, *rng.choice(([], ["--json"]))]),
            ("prepare", ["train", path, "--prepare", "--out", inputs.folder / "out"]),
            ("train on", ["train", path, "--out", inputs.damaged, f"--set=training.steps={STEPS + 1}"]),
        )
    )
    return Try(f"recipe: {change}", command, arguments)


def damage_memory(inputs: Inputs, rng: random.Random) -> Try:
    """Writes a translation memory with an unusual structure."""
    path = inputs.folder / "memory.tmx"
    change, content = change_memory(inputs.outside, rng)
    path.write_bytes(content)
    if rng.random() < 0.1:
        change = change_file(path, inputs.outside, rng)
    if rng.random() < 0.4:
        return Try(f"memory: {change}", "evaluate", ["evaluate", inputs.run, "--test", "memory"])
    recipe = inputs.folder / "recipe.yaml"
    recipe.write_text(inputs.recipe.read_text().replace("{tsv: pairs.tsv}", f"{{tmx: {path}}}").replace("320", "265"))
    shutil.copy(inputs.recipe.parent / "validation.tsv", inputs.folder)
    return Try(f"memory: {change}", "prepare", ["train", recipe, "--prepare", "--out", inputs.folder / "out"])


Damage = Callable[[Inputs, random.Random], Try]

# The kinds of input, each with its percentage of the tries.
DAMAGES: dict[str, tuple[Damage, int]] = {
    "model": (damage_model, 38),
    "checkpoint": (damage_checkpoint, 16),
    "store": (damage_store, 20),
    "recipe": (damage_recipe, 20),
    "memory": (damage_memory, 6),
}


def change_content(path: Path, rng: random.Random) -> str:
    """Changes the tensors or the JSON of a file, renews its checksum, and returns the name of the change."""
    content = path.read_bytes()
    if path.suffix == ".safetensors":
        change, content = change_tensors(content, rng)
    else:
        change, content = change_json(json.loads(content), rng)
    write_sealed(path, content)
    return f"{path.name}, {change}" if path.name in ("manifest.json", "optimiser.safetensors") else change


def choose_command(names: Sequence[str], inputs: Inputs, rng: random.Random) -> tuple[str, list[object]]:
    """Returns the name and the arguments of a command on the damaged run."""
    run, name = inputs.damaged, rng.choice(names)
    validation = inputs.recipe.parent / "validation"
    files = ["--source", f"{validation}.en", "--target", f"{validation}.de"]
    train = ["train", inputs.recipe, "--out", run]
    options: list[object] = {
        "verify": [["info", run, "--verify"]],
        "info": [["info", run], ["info", run, "--json"]],
        "translate": [["translate", run, option] for option in ("--beam=3", "--greedy", "--json", "--alignments")],
        "score": [["score", run, *files]],
        "evaluate": [["evaluate", run, "--test", "spare", option] for option in ("--json", "--beam=3")],
        "average": [["average", run, "--out", inputs.folder / "out", "--last", rng.choice((1, 3))]],
        "prepare": [["train", inputs.recipe, "--prepare", "--out", run]],
        "train": [train],
        "train on": [[*train, f"--set=training.steps={STEPS + 1}"]],
    }[name]
    return name, rng.choice(options)


def find_fault(attempt: Try, outcome: Outcome) -> str | None:
    """Returns what is wrong with the end of a command; None where nothing is."""
    code, output, messages, seconds, memory = outcome
    place = " < ".join(re.findall(r'File ".*?/((?:transduce|torch|json|numpy)/.*?), line', messages)[:4])
    if code < 0:
        return f"killed by signal {-code} after {seconds:.1f} s {place}"
    if memory > MEMORY or "MemoryError" in messages or "allocate" in messages:
        return f"{memory / 2**20:,.0f} MiB, or more wanted: {last_line(messages)}"
    is_debugged = os.environ.get("TRANSDUCE_DEBUG") == "1"
    if code not in (0, 1, 2) or ("Traceback" in messages and not is_debugged):
        return f"code {code}: {messages[-2000:]}"
    if code and (lines := re.findall(r"^transduce: (.*)", messages, re.M)) != (lines[:1] or None):
        return f"code {code} with {len(lines)} messages: {messages[-300:]}"
    if unforeseen := re.search(r"^transduce: [A-Za-z_.]*(Error|Exception|Exit)\b.*", messages, re.M):
        return f"code {code}: unforeseen: {unforeseen[0]}"
    return None if code else find_wrong_success(attempt, output.decode())


def find_wrong_success(attempt: Try, output: str) -> str | None:
    """Returns what is wrong with the output of a command that succeeded; None where nothing is."""
    if SECRET in output and "link" not in attempt.change:
        return "prints a file outside of the folder"
    if re.search(r"\b(nan|inf)\b", output, re.I):
        return f"prints a number that is not finite: {output[:100]!r}"
    if attempt.command == "translate" and output.count("\n") != LINES:
        return f"{LINES} lines gave {output!r}"
    if attempt.command == "verify" and attempt.change == "store: store, dtype":
        return "accepts a store of another dtype"
    if "not finite" in attempt.change and attempt.command in ("translate", "score", "evaluate"):
        return "accepts weights that are not finite"
    if "--json" in attempt.arguments:
        parsed = output.splitlines() if attempt.command == "translate" else [output]
        try:
            for text in parsed:
                json.loads(text)
        except ValueError:
            return f"prints invalid JSON: {output[:100]!r}"
    return None


def last_line(messages: str) -> str:
    """Returns the last line of messages."""
    return (messages.splitlines() or [""])[-1]


def list_files(*folders: Path) -> dict[str, tuple[int, ...]]:
    """Returns what a change of any file or folder below `folders` would change; links are not followed."""
    files = {}
    for folder in folders:
        for parent, _, names in os.walk(folder):
            for path in (parent, *(f"{parent}/{name}" for name in (*names, "."))):
                status = os.lstat(path)
                files[path] = (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return files


def make_inputs(base: Path) -> Inputs:
    """Trains the run of all tries, and loads its model once, so that every library is ready."""
    preload()
    inputs = Inputs(base)
    (base / "temporary").mkdir()
    inputs.recipe.parent.mkdir()
    inputs.recipe.write_text(RECIPE)
    pairs = [(pair.source, pair.target) for pair in list(split("test"))[:63]]
    for name, part in (("pairs", pairs[:60]), ("validation", pairs[60:63])):
        path = inputs.recipe.parent / name
        path.with_suffix(".tsv").write_text("".join(f"{source}\t{target}\n" for source, target in part))
        path.with_suffix(".en").write_text("".join(f"{source}\n" for source, _ in part))
        path.with_suffix(".de").write_text("".join(f"{target}\n" for _, target in part))
    limits = LIMITS._replace(seconds=100)
    outcome = run_forked(base, ["train", inputs.recipe, "--out", inputs.run, "--device", "cpu"], limits)
    if outcome.code:
        raise SystemExit(f"the training ended with code {outcome.code}: {outcome.messages}")
    Translator.load(inputs.run).translate(["a cat"])
    return inputs


def begin_try(inputs: Inputs) -> None:
    """Makes the folders of a try anew."""
    for folder in (inputs.folder, inputs.outside):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    for folder in ("folder", "copies"):
        (inputs.outside / folder).mkdir()
        (inputs.outside / folder / "secret.txt").write_text(SECRET)
    (inputs.outside / "secret.txt").write_text(SECRET)
    os.mkfifo(inputs.outside / "pipe")


def run_try(
    inputs: Inputs, rng: random.Random, damages: Sequence[tuple[Damage, int]], limits: Limits
) -> tuple[Try, Outcome, str | None]:
    """Damages an input, runs a command, and returns what was tried, how it ended and what is wrong with that."""
    begin_try(inputs)
    damage, _ = rng.choices(damages, [share for _, share in damages])[0]
    attempt = damage(inputs, rng)
    kept = [inputs.outside, inputs.recipe.parent]
    if attempt.command not in ("average", "prepare", "train", "train on"):  # they write
        kept.append(inputs.folder)
    before = list_files(*kept)
    outcome = run_forked(inputs.base, attempt.arguments, limits, TEXT if attempt.command == "translate" else b"")
    after = list_files(*kept)
    touched = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    if touched and not attempt.change.endswith(FOLLOWED):
        return attempt, outcome, f"touches {', '.join(touched)}"
    return attempt, outcome, find_fault(attempt, outcome)


class Figures:
    """What the tries of one kind came to."""

    def __init__(self) -> None:
        self.codes: collections.Counter[int] = collections.Counter()
        self.findings, self.seconds, self.memory = 0, 0.0, 0

    def add(self, outcome: Outcome, finding: str | None) -> None:
        """Counts a try."""
        self.codes[outcome.code] += 1
        self.findings += finding is not None
        self.seconds, self.memory = max(self.seconds, outcome.seconds), max(self.memory, outcome.memory)

    def row(self) -> str:
        """Returns the figures as cells of a table."""
        counts = self.codes.total(), self.codes[2], self.codes[1], self.codes[0], self.findings
        return " | ".join([*map("{:,}".format, counts), f"{self.seconds:.1f}", f"{self.memory >> 20:,}"])


def print_table(figures: dict[tuple[str, ...], Figures], *columns: str) -> None:
    """Prints the figures of every kind as a table."""
    names = [*columns, "tries", "code 2", "code 1", "code 0", "findings", "slowest (s)", "most memory (MiB)"]
    print(f"\n| {' | '.join(names)} |\n|{'---|' * len(names)}")
    for kind in sorted(figures):
        print(f"| {' | '.join(kind)} | {figures[kind].row()} |")


def run_tries(
    inputs: Inputs, seed: int, numbers: Iterable[int], damages: Sequence[tuple[Damage, int]], limits: Limits
) -> Iterator[tuple[int, Try, Outcome, str | None]]:
    """Yields the number of each try, what was tried, how it ended, and its finding or None."""
    for number in numbers:
        attempt, outcome, finding = run_try(inputs, random.Random(f"{seed} {number}"), damages, limits)
        if outcome.code == -signal.SIGALRM:
            patient = limits._replace(seconds=PATIENCE * limits.seconds)
            attempt, outcome, finding = run_try(inputs, random.Random(f"{seed} {number}"), damages, patient)
        yield number, attempt, outcome, finding


HUGE_PAGES = {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def main() -> None:
    """Runs tries, and prints findings and figures by kind."""
    if not HUGE_PAGES.items() <= os.environ.items():  # a fork copies the table of pages: 6 ms in place of 20
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **HUGE_PAGES})
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one try")
    parser.add_argument("--limit", type=float, default=LIMITS.seconds, help="seconds of a command")
    parser.add_argument("--input", choices=DAMAGES, help="damage one kind of input alone")
    arguments = parser.parse_args()
    damages = [DAMAGES[arguments.input]] if arguments.input else list(DAMAGES.values())
    numbers = range(arguments.tries) if arguments.only is None else [arguments.only]
    figures: dict[tuple[str, ...], Figures] = collections.defaultdict(Figures)
    with tempfile.TemporaryDirectory() as name:
        inputs = make_inputs(Path(name))
        os.environ["TMPDIR"] = str(inputs.base / "temporary")
        os.chdir(inputs.base / "temporary")
        limits = LIMITS._replace(seconds=arguments.limit)
        with contextlib.suppress(KeyboardInterrupt):  # which ends the tries, and prints the figures so far
            for number, attempt, outcome, finding in run_tries(inputs, arguments.seed, numbers, damages, limits):
                for name in (attempt.change, attempt.change.split(":")[0]):
                    figures[name, attempt.command].add(outcome, finding)
                figures["all", ""].add(outcome, finding)
                if arguments.only is not None:
                    print(attempt.change, *attempt.arguments, outcome.code, sep="\n")
                    print(outcome.output.decode(), outcome.messages, sep="\n")
                if finding:
                    print(f"try {number}, {attempt.change}, {attempt.command}: {finding}", flush=True)
        os.chdir("/")
    kinds = {kind: row for kind, row in figures.items() if ":" in kind[0]}
    print_table(kinds, "change", "command")
    print_table({kind: row for kind, row in figures.items() if kind not in kinds}, "input", "command")
    raise SystemExit(figures["all", ""].findings > 0)


if __name__ == "__main__":
    main()
