"""A training that takes a second: its corpus, its recipe, and processes that run `transduce` and may be killed."""

import contextlib
import itertools
import multiprocessing
import os
import pty
import random
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from multiprocessing import forkserver
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest

WORDS = "ant bee cat dog eel fox gnu hen ibis jay kite lark mole newt owl pig".split()

RECIPE = """
data:
  train: {source: train.en, target: train.de}
  validation: {source: validation.en, target: validation.de}
  test: {spare: {source: test.en, target: test.de}}
  source_language: en
  target_language: de
subwords: {kind: bpe, size: 320}
model:
  preset: tiny
  d_model: 24
  encoder_layers: 2
  decoder_layers: 1
  mixer: {kind: attention, heads: 2, d_k: 6, d_v: 5}
  cross: {kind: attention, heads: 3, d_k: 4, d_v: 7}
  feed_forward: {kind: feed_forward, d_ff: 40}
  dropout: 0.1
training:
  steps: 12
  batch_tokens: 512
  optimiser: {kind: adam}
  precision: float32  # the same on every machine
  micro_batches: 2
  schedule: {kind: inverse_square_root, warmup: 4, peak: 0.03}  # all validations have BLEU 0: the average is published
  validate_every: 3
  save_every: 4
  log_every: 2
  keep: 2
  average: 2
decoding: {beam: 2, extra_length: 4}
"""


class Ended(NamedTuple):
    """How a process ended; the code is negative where a signal killed it."""

    code: int
    out: str
    error: str


class Moment(NamedTuple):
    """When a process is sent a signal: at the n-th operation on files, or at the line that begins with a text.

    Operations are flushes, renamings, removals and new folders, each before it is done, and the writing of weights,
    when half is written.
    """

    at: int | str
    signal: int = signal.SIGKILL


def write_corpus(folder: Path, name: str, count: int) -> None:
    """Pairs of lines: words, and the same words spelt backwards with a full stop."""
    drawn = random.Random(name)
    lines = [[drawn.choice(WORDS) for _ in range(drawn.randint(2, 9))] for _ in range(count)]
    (folder / f"{name}.en").write_text("".join(" ".join(words) + "\n" for words in lines))
    (folder / f"{name}.de").write_text("".join(" ".join(word[::-1] for word in words) + ".\n" for words in lines))


def transduce(*arguments: object, given: str | bytes = b"", **environment: str) -> Ended:
    """`python -m transduce` in a process of its own."""
    content = given.encode() if isinstance(given, str) else given
    ended = subprocess.run(
        [sys.executable, "-m", "transduce", *map(str, arguments)],
        input=content,
        capture_output=True,
        timeout=60,
        env={**os.environ, **environment},
    )
    return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def forked(*arguments: object, moment: Moment | None = None, given: bytes = b"", **environment: str) -> Ended:
    """The same in a process that begins with everything imported, and may be sent a signal at a moment."""
    (ended,) = _run_forked([environment], None, arguments, moment, given)
    return ended


def forked_together(processes: int, *arguments: object, script: Path | None = None) -> Ended:
    """The same, or a Python script, in several processes with the variables that `--processes` sets.

    Returns the first code that is not 0, else 0, and the outputs one after the other.
    """
    from transduce.runtime.local_processes import process_variables

    with tempfile.TemporaryDirectory() as folder:
        codes, outs, errors = zip(*_run_forked(process_variables(processes, folder), script, arguments), strict=True)
    return Ended(next(filter(None, codes), 0), "".join(outs), "".join(errors))


def forked_on_terminal(script: Path, *arguments: object, **environment: str) -> str:
    """All that a Python script prints on a terminal, forked as `forked` is."""
    terminal, stream = pty.openpty()
    printed: list[bytes] = []

    def collect() -> None:
        with contextlib.suppress(OSError):  # the end of a terminal
            while content := os.read(terminal, 100_000):
                printed.append(content)

    reader = threading.Thread(target=collect)
    reader.start()
    _run_forked([environment], script, arguments, terminal=os.ttyname(stream))
    os.close(stream)
    reader.join(60)
    os.close(terminal)
    return b"".join(printed).decode()


def _run_forked(
    environments: list[dict[str, str]],
    script: Path | None,
    arguments: tuple[object, ...],
    moment: Moment | None = None,
    given: bytes = b"",
    terminal: str | None = None,
) -> list[Ended]:
    """Runs one process for each environment, all at once; with `terminal`, nothing is given or returned."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["preloaded"])
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]  # the same `transduce` as here
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, paths))):
        forkserver.ensure_running()
    with tempfile.TemporaryDirectory() as name:
        folders, processes = [Path(name, str(number)) for number in range(len(environments))], []
        for folder, environment in zip(folders, environments, strict=True):
            folder.mkdir()
            (folder / "in").write_bytes(given)
            streams = tuple(str(folder / name) for name in ("in", "out", "error"))
            values = (script, [*map(str, arguments)], streams if terminal is None else (terminal,) * 3, moment)
            processes.append(context.Process(target=_command, args=(*values, environment), daemon=True))
        try:
            for process in processes:
                process.start()
            for process in processes:
                process.join(120)
                assert process.exitcode is not None, "the process hangs"
        finally:
            for process in processes:
                process.kill()
                process.join()
        return [
            Ended(process.exitcode, *("" if terminal else (folder / n).read_bytes().decode() for n in ("out", "error")))
            for process, folder in zip(processes, folders, strict=True)
        ]


def _command(
    script: Path | None,
    arguments: list[str],
    streams: Sequence[str],
    moment: Moment | None,
    environment: dict[str, str],
) -> None:
    """What the process does; `streams` are the paths of standard input, output and error."""
    os.environ |= environment
    sys.argv = [str(script or "transduce"), *arguments]
    sys.stdin = os.fdopen(os.open(streams[0], os.O_RDONLY | os.O_NOCTTY))
    for number in (1, 2):
        os.dup2(os.open(streams[number], os.O_WRONLY | os.O_CREAT | os.O_NOCTTY), number)
    if os.isatty(1):
        sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
    if moment is not None:
        _arm(moment)
    if script is not None:
        try:
            runpy.run_path(str(script), run_name="__main__")
        except Exception:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
            sys.exit(1)
        return
    from transduce.commands import main

    main()


def _arm(moment: Moment) -> None:
    """Has this process signal itself at `moment`."""
    say, operations = sys.stderr.write, itertools.count(1)

    def written(text: str) -> int:
        length = say(text)
        if isinstance(moment.at, str) and text.startswith(moment.at):
            os.kill(os.getpid(), moment.signal)
        return length

    def counted(call):
        def called(*arguments, **options):
            if next(operations) == moment.at:
                os.kill(os.getpid(), moment.signal)
            return call(*arguments, **options)

        return called

    def half(save_file):
        def saved(tensors, path, *arguments):
            save_file(tensors, path, *arguments)
            if next(operations) == moment.at:
                os.truncate(path, path.stat().st_size // 2)
                os.kill(os.getpid(), moment.signal)

        return saved

    sys.stderr.write = written
    for name in ("fsync", "rename", "replace", "unlink", "rmdir", "mkdir"):
        setattr(os, name, counted(getattr(os, name)))
    import safetensors.torch

    safetensors.torch.save_file = half(safetensors.torch.save_file)


@pytest.fixture
def command(capfd):
    """Runs the command line in this process; returns exit code, standard output and standard error."""

    def called(*arguments):
        from transduce.commands import main

        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        return ended.value.code, *capfd.readouterr()

    return called


@pytest.fixture(scope="session")
def micro(tmp_path_factory) -> Path:
    """A folder with the corpus and `recipe.yaml`; tests leave it as it is."""
    folder = tmp_path_factory.mktemp("micro")
    for name, count in (("train", 300), ("validation", 7), ("test", 5)):
        write_corpus(folder, name, count)
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder


@pytest.fixture(scope="session")
def trained(micro) -> Path:
    """The micro run, never stopped; tests leave it as it is."""
    ended = transduce("train", micro / "recipe.yaml", "--out", micro / "trained")
    assert ended.code == 0, ended.error
    (micro / "trained.log").write_text(ended.error)
    return micro / "trained"


@pytest.fixture(scope="session")
def fluent(micro) -> Path:
    """A run that has learned something: most words are right, and sentences end."""
    changes = [
        "training.steps=150",
        "training.batch_tokens=1024",
        "training.micro_batches=1",
        "training.schedule.warmup=30",
        "training.schedule.peak=0.01",
        "training.average=null",
        "training.validate_every=150",
        "training.save_every=75",
        "subwords.size=420",
        "model.d_model=32",
        "model.dropout=0.0",
        "model.initialisation=fused-glorot",  # of so narrow a model, smaller weights take longer than this to grow
    ]
    ended = forked(
        "train", micro / "recipe.yaml", "--out", micro / "fluent", *(f"--set={change}" for change in changes)
    )
    assert ended.code == 0, ended.error
    return micro / "fluent"
