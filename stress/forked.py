"""Commands of `transduce` in forked processes, under limits, with what each needed."""

import contextlib
import faulthandler
import gc
import importlib
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from transduce.commands import VERBS, python_name
from transduce.commands import main as transduce

MODULES = (
    "torch._dynamo",
    "torch._inductor",
    "torch.utils.tensorboard",
    "tensorboard.summary.writer.event_file_writer",
)
MODULES += ("sacrebleu.tokenizers.tokenizer_13a", "transduce.measure.scoring", "transduce.recipe.model_summary")
MODULES += ("transduce.run.train", "transduce.translation.translator", "typer._adapters", "pydantic.type_adapter")


def preload() -> None:
    """Imports what commands import, which forked processes then have; computation gets one thread."""
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
    for module in (*MODULES, *(f"transduce.commands.{python_name(verb)}" for verb in VERBS)):
        importlib.import_module(module)
    torch.set_num_threads(1)  # the variable is too late where torch is loaded; threads of OpenMP do not survive a fork


class Limits(NamedTuple):
    """The limits of a command."""

    seconds: float  # of wall-clock time
    processor_seconds: int
    memory: int  # bytes beyond those of the forking process


class Outcome(NamedTuple):
    """How a command ended; the code is negative where a signal killed it."""

    code: int
    output: bytes
    messages: str
    seconds: float
    memory: int  # bytes at the peak beyond those of the forking process, but for the libraries' files, some 90 MB


def run_forked(folder: Path, arguments: Sequence[object], limits: Limits, stdin: bytes = b"") -> Outcome:
    """Runs a command in a forked process; its input, output and messages are files of `folder`."""
    (folder / "stdin").write_bytes(stdin)
    for name in ("stdout", "stderr"):
        (folder / name).unlink(missing_ok=True)
    gc.freeze()  # a collection in the child would copy every page of the parent
    before, began = _own_memory("RssAnon"), time.perf_counter()
    process = os.fork()
    if not process:
        _execute(folder, [str(argument) for argument in arguments], limits)
    _, status, usage = os.wait4(process, 0)
    seconds = time.perf_counter() - began
    output, messages = (folder / "stdout").read_bytes(), (folder / "stderr").read_text("utf-8", "replace")
    memory = max(0, usage.ru_maxrss * 1024 - before)
    return Outcome(os.waitstatus_to_exitcode(status), output, messages, seconds, memory)


def _own_memory(kind: str) -> int:
    """Returns bytes of this process by kind: `RssAnon` is resident and of no file, `VmData` is allocated."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{kind}:")) * 1024


def _execute(folder: Path, arguments: list[str], limits: Limits) -> None:
    """Runs a command in this process, under limits, and ends the process."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        os.dup2(os.open(folder / name, os.O_RDWR | os.O_CREAT), descriptor)
    memory, code = _own_memory("VmData") + limits.memory, 1
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (limits.processor_seconds, limits.processor_seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()
    faulthandler.dump_traceback_later(0.95 * limits.seconds)  # where it hangs
    signal.setitimer(signal.ITIMER_REAL, limits.seconds)
    try:
        transduce(arguments)
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
