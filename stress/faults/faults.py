"""Faults of the file system at every call: `python stress/faults/faults.py [--every 1] [--only "train fsync"]`.

A shared library (faults.c, needs gcc) fails the n-th call of a kind below a folder, once or from then on, while a
command runs: a training of 30 steps, a bulk translation, a translation and a picture that replace an older output. Each
command must end with 0, or with 1 or 2 and a message. Afterwards the same command without faults must end with 0 and
with the files of an undisturbed run, and it must not lose a checkpoint or a shard whose writing had been confirmed.
"""

import argparse
import collections
import ctypes
import errno
import hashlib
import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
TIMEOUT_SECONDS = 60
CRASH = 99  # exit code of a child that raised what no command may raise


class Fault(NamedTuple):
    """A kind of call, the error it gives, and whether all later calls of the kind fail too."""

    call: str
    code: int
    lasts: bool


FAULTS = [
    Fault("write", errno.ENOSPC, True),
    Fault("write", errno.EIO, False),
    Fault("open to write", errno.ENOSPC, True),
    Fault("open to read", errno.EIO, False),
    Fault("read", errno.EIO, False),
    Fault("fsync", errno.EIO, False),
    Fault("fsync", errno.EINVAL, True),
    Fault("rename", errno.EIO, False),
    Fault("remove", errno.EPERM, True),
    Fault("mkdir", errno.ENOSPC, True),
    Fault("chmod", errno.EPERM, True),
    Fault("truncate", errno.EIO, False),
    Fault("flock", errno.ENOLCK, True),
]


class Task(NamedTuple):
    """A command; `prepare` fills its folder, `results` are the files that must be as in an undisturbed run."""

    name: str
    arguments: Callable[[Path], Sequence[str]]
    prepare: Callable[[Path], None]
    results: tuple[str, ...]
    old: bytes | None = None  # content of the results before; a command that fails leaves that or the new content


class Ending(NamedTuple):
    """How a command ended: its exit code, what it wrote on standard error, and what it had confirmed."""

    code: int
    message: str
    confirmed: int


def run_forked(task: Task, folder: Path, arm: Callable[[], object], report: Callable[[], int]) -> tuple[Ending, int]:
    """Runs a command in a forked process with faults; returns its end and `report()` of the process."""
    errors, numbers = folder.with_suffix(".errors"), folder.with_suffix(".numbers")
    child = os.fork()
    if child == 0:
        code = CRASH
        try:
            os.setsid()
            for descriptor, path in ((1, Path(os.devnull)), (2, errors)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), descriptor)
            confirmed = count_confirmations()
            os.chdir(folder)
            arm()
            code = command(task.arguments(folder))
            numbers.write_text(f"{report()} {len(confirmed)}")
        finally:
            os._exit(code)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return Ending(-signal.SIGALRM, f"no end in {TIMEOUT_SECONDS} seconds", 0), 0
        time.sleep(0.005)
    code = os.waitstatus_to_exitcode(status)
    calls, confirmed = map(int, numbers.read_text().split()) if numbers.exists() else (0, 0)
    numbers.unlink(missing_ok=True)
    return Ending(code, errors.read_text("utf-8", "replace"), confirmed), calls


def command(arguments: Sequence[str]) -> int:
    """Runs the command line in this process; returns its exit code."""
    from transduce.commands import main

    try:
        main(list(arguments))
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return CRASH
    return 0


def count_confirmations() -> list[int]:
    """Has every checkpoint and every shard whose writing returns added to a list."""
    from transduce.bulk.finished_shards import FinishedShards
    from transduce.run.checkpoints import Checkpoints

    confirmed: list[int] = []
    for owner in (Checkpoints, FinishedShards):
        save = owner.save

        def confirming(self: object, *arguments: object, save: Callable[..., None] = save) -> None:
            save(self, *arguments)
            confirmed.append(1)

        owner.save = confirming  # type: ignore[method-assign, assignment]
    return confirmed


def checksums(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Returns the checksums of the files of a folder that exist."""
    paths = {name: folder / name for name in names}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in paths.items() if path.is_file()}


def find_fault(task: Task, folder: Path, ending: Ending, expected: dict[str, str], again: Ending) -> str | None:
    """Returns what is wrong with a disturbed run and its repetition; None where all is right."""
    last = ending.message.strip().split("\n")[-1]
    if ending.code not in (0, 1, 2):
        return f"ended with {ending.code}: {last}"
    if ending.code and "Traceback" in ending.message:
        return f"ended with a traceback: {last}"
    if ending.code and not last.startswith("transduce: "):
        return f"ended with {ending.code} and without a message: {last!r}"
    if again.code:
        return f"after {last!r} the same command ends with {again.code}: {again.message.strip()[-300:]}"
    # A model that could not be written is not selected: the training says so and goes on.
    if checksums(folder, task.results) != expected and "could not write the model" not in ending.message:
        return f"after {last!r} the same command gives other files"
    return None


def tasks(model: Path, corpus: Path) -> list[Task]:
    """Returns the commands."""

    def nothing(folder: Path) -> None:
        folder.mkdir()

    def old_output(folder: Path) -> None:
        folder.mkdir()
        (folder / "out").write_bytes(b"old\n")

    text = str(corpus / "text.en")
    bulk = ["translate-corpus", str(model), text, "--shard-lines", "10", "--greedy", "--device", "cpu"]
    plain = ["translate", str(model), text, "--greedy", "--device", "cpu", "--overwrite", "--out"]
    train = ["train", str(corpus / "recipe.yaml"), "--device", "cpu", "--threads", "1", "--out"]
    return [
        Task("train", lambda folder: [*train, str(folder / "run")], nothing, ("run/model.safetensors",)),
        Task("bulk", lambda folder: [*bulk, "--out", str(folder / "out.de")], nothing, ("out.de",)),
        Task("translate", lambda folder: [*plain, str(folder / "out")], old_output, ("out",), b"old\n"),
        Task(
            "draw",
            lambda folder: ["draw", str(model), "the cat sleeps", "--out", str(folder / "picture.html"), "--overwrite"],
            nothing,
            ("picture.html",),
        ),
    ]


def make_inputs(folder: Path) -> tuple[Path, Path]:
    """Writes the corpus and the recipe, trains the model; returns the model directory and the corpus."""
    sys.path.insert(0, str(HERE.parent))
    from small_run import RECIPE

    from transduce.embedded import split

    pairs = [(pair.source, pair.target) for pair in list(split("test"))[:240]]
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs[:200]), "utf-8")
    (folder / "validation.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs[200:204]))
    (folder / "text.en").write_text("".join(f"{source}\n" for source, _ in pairs[:40]), "utf-8")
    recipe = RECIPE.replace("{embedded: train}}", "{tsv: pairs.tsv}, validation: {tsv: validation.tsv}}")
    recipe = recipe.replace("batch_tokens: 2048", "batch_tokens: 512\n  validate_every: 10")
    # No average: a checkpoint that could not be written is missing in a mean, and the weights are others.
    recipe = recipe.replace("steps: 400", "steps: 30").replace("average: 3", "average: null")
    (folder / "recipe.yaml").write_text(recipe, "utf-8")
    model = folder / "model"
    train = Task("train", lambda _: ["train", "recipe.yaml", "--out", "model", "--device", "cpu"], Path.mkdir, ())
    ending, _ = run_forked(train, folder, lambda: None, lambda: 0)
    assert ending.code == 0, ending.message
    return model, folder


def main() -> None:
    """Runs every command with every fault at every call, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="fail only each n-th call")
    parser.add_argument("--only", default="", help="tasks and calls whose names have these words")
    options = parser.parse_args()
    library = Path(os.environ.get("TRANSDUCE_FAULTS", ""))
    if not library.is_file():
        restart_with_library()
    faults = ctypes.CDLL(str(library))
    preload()
    counts: collections.Counter[tuple[str, str, str]] = collections.Counter()
    findings = []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        (root / "inputs").mkdir()
        model, corpus = make_inputs(root / "inputs")
        for task in tasks(model, corpus):
            undisturbed = root / f"{task.name}-undisturbed"
            task.prepare(undisturbed)
            first, _ = run_forked(task, undisturbed, lambda: None, lambda: 0)
            assert first.code == 0, first.message
            expected = checksums(undisturbed, task.results)
            for fault in FAULTS:
                if not all(word in f"{task.name} {fault.call}" for word in options.only.split()):
                    continue
                number, calls = 0, 1
                while number <= calls:
                    place = root / f"{task.name}-{number}"
                    task.prepare(place)
                    arm = arming(faults, place, fault, number)
                    ending, counted = run_forked(task, place, arm, lambda: int(faults.faults_calls()))
                    calls = counted if number == 0 else calls
                    kept = checksums(place, task.results)
                    again, _ = run_forked(task, place, lambda: None, lambda: 0)
                    finding = find_fault(task, place, ending, expected, again)
                    if finding is None and ending.code and task.old is not None:
                        allowed = (hashlib.sha256(task.old).hexdigest(), *expected.values())
                        if any(checksum not in allowed for checksum in kept.values()):
                            finding = "left an output that is neither the old nor the new one"
                    if finding is None and again.confirmed + ending.confirmed > first.confirmed + 1 and ending.code:
                        finding = f"{ending.confirmed} were confirmed, and the repetition wrote {again.confirmed}"
                    key = (
                        task.name,
                        f"{fault.call}, {errno.errorcode[fault.code]}",
                        "once" if not fault.lasts else "lasting",
                    )
                    counts[key] += number > 0
                    if finding is not None:
                        findings.append(f"{' '.join(key)}, call {number}: {finding}")
                        print(findings[-1], flush=True)
                    for path in (place, *root.glob(f"{place.name}.*")):
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                    number += options.every if number else 1
    for (task_name, call, length), count in counts.items():
        print(f"{task_name:10} {call:24} {length:8} {count:>6} calls failed")
    print(f"{sum(counts.values()):,} faults, {len(findings)} findings")
    raise SystemExit(bool(findings))


def preload() -> None:
    """Imports here what the commands import, so that a forked process begins at once."""
    for name in ("torch._dynamo", "tensorboard.summary.writer.record_writer", "transduce.commands.train"):
        importlib.import_module(name)
    for name in ("trainer.train", "bulk.translate_shards", "translation.translator", "pages"):
        importlib.import_module(f"transduce.{name}")


def arming(faults: ctypes.CDLL, place: Path, fault: Fault, number: int) -> Callable[[], object]:
    """Returns the function that has the `number`-th call below `place` fail; 0 only counts."""
    below, call = f"{place}/".encode(), fault.call.encode()
    return lambda: faults.faults_arm(below, call, ctypes.c_long(number), fault.code, int(fault.lasts))


def restart_with_library() -> None:
    """Compiles the library and starts this command again with it preloaded."""
    with tempfile.TemporaryDirectory() as name:
        library = Path(name) / "faults.so"
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-O1", str(HERE / "faults.c"), "-o", str(library), "-ldl"], check=True
        )
        environment = {"LD_PRELOAD": str(library), "TRANSDUCE_FAULTS": str(library), "OMP_NUM_THREADS": "1"}
        raise SystemExit(subprocess.call([sys.executable, *sys.argv], env={**os.environ, **environment}))


if __name__ == "__main__":
    main()
