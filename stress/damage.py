"""Damages files of a model directory and its checkpoints, one at a time: `python damage.py --damages 1000`.

Bits are flipped, files are cut, and links, folders, FIFOs and sockets take the place of files. `verify` must name each
damaged file, and no damaged file may be loaded.
"""

import argparse
import random
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

from changes import FILE_CHANGES
from small_run import train

from transduce.model_directory.manifest import MANIFEST, verify
from transduce.model_directory.model import Model
from transduce.run.checkpoints import Checkpoints, DamagedError
from transduce.storage.checksums import checksums_of_files

SECONDS = 60  # for a file; more is a hang
MEMORY = 4 << 30  # bytes; a file of 10 GB must not be read whole


def is_reported(run: Path, path: Path) -> bool:
    """Whether the damage of `path` is reported with its name, and the file is not loaded."""
    checkpoints = Checkpoints(run / "training", keep=1)
    signal.alarm(SECONDS)  # ends the process
    try:
        if path.parent == run:
            return is_named(path, lambda: verify(run)) and is_named(path, lambda: Model.read(run))
        step = int(path.parent.name.removeprefix("step-"))
        return is_named(path, lambda: checkpoints.find_damage(step)) and is_named(path, lambda: checkpoints.load(step))
    finally:
        signal.alarm(0)


def is_named(path: Path, read: Callable[[], object]) -> bool:
    """Whether `read` raises an error or returns faults, with the name of the file."""
    try:
        faults = read()
    except (DamagedError, ValueError) as error:
        return path.name in str(error)
    except MemoryError:
        return False
    return isinstance(faults, list) and any(path.name in fault for fault in faults)


def damage(path: Path, content: bytes, rng: random.Random) -> str:
    """Cuts a file off or flips one of its bits; returns which."""
    if rng.random() < 0.1:
        path.write_bytes(content[: rng.randrange(len(content))])
        return "cut"
    place = rng.randrange(len(content))
    flipped = content[place] ^ (1 << rng.randrange(8))
    path.write_bytes(content[:place] + bytes([flipped]) + content[place + 1 :])
    return "a bit flipped"


def replace(path: Path, outside: Path, rng: random.Random) -> str:
    """Puts a folder, a link, a FIFO, a socket or another file in the place of a file, or nothing; returns which."""
    change = rng.choice(
        [change for change in FILE_CHANGES if change != "link to its copy outside"]
    )  # which is no damage
    path.unlink()
    FILE_CHANGES[change](path, outside, rng)
    return change


def restore(path: Path, content: bytes) -> None:
    """Puts the file back in its place."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.write_bytes(content)


def main() -> None:
    """Damages, checks and restores files, and prints the count of reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--damages", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng, reported = random.Random(arguments.seed), 0
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "run"
        train(Path(name), run)
        outside = Path(name) / "outside"
        (outside / "folder").mkdir(parents=True)
        (outside / "secret.txt").write_bytes(b"x")
        model = (MANIFEST, "config.json", "model.safetensors", "recipe.yaml", "tokenizer.json")
        files = [*(run / name for name in model), *run.glob("training/step-*/*")]
        sealed = [path for path in files if path.name != MANIFEST]
        for _ in range(arguments.damages):
            is_replaced = rng.random() < 0.3
            path = rng.choice(files if is_replaced else sealed)
            content = path.read_bytes()
            change = replace(path, outside, rng) if is_replaced else damage(path, content, rng)
            if is_reported(run, path):
                reported += 1
            else:
                print(f"{path.relative_to(run)} ({change}) is not reported, or is loaded", flush=True)
            restore(path, content)
        assert checksums_of_files(files)
        assert not verify(run)
    print(f"{reported:,} of {arguments.damages:,} reported by name and refused", end=" ")
    print(f"(seed {arguments.seed}, {len(files)} files)")
    raise SystemExit(reported != arguments.damages)


if __name__ == "__main__":
    main()
