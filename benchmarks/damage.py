"""Flips bits and cuts files of a model directory and its checkpoints, one at a time: `python damage.py --flips 1000`.

`verify` must name each damaged file, and no damaged file may be loaded.
"""

import argparse
import random
import tempfile
from pathlib import Path

from small_run import train

from transduce.model_directory import MANIFEST, Model, verify
from transduce.storage.checksums import checksums_of_files
from transduce.trainer.checkpoints import Checkpoints, DamagedError


def is_reported(run: Path, path: Path) -> bool:
    """Whether the damage of `path` is reported with its name, and the file is not loaded."""
    checkpoints = Checkpoints(run / "training", keep=1)
    if path.parent == run:
        faults, load = verify(run), lambda: Model.read(run)
    else:
        step = int(path.parent.name.removeprefix("step-"))
        faults, load = checkpoints.find_damage(step), lambda: checkpoints.load(step)
    try:
        load()
    except (DamagedError, ValueError) as error:
        return path.name in str(error) and any(path.name in fault for fault in faults)
    return False


def damage(path: Path, content: bytes, rng: random.Random) -> None:
    """Cuts a file off or flips one of its bits."""
    if rng.random() < 0.1:
        path.write_bytes(content[: rng.randrange(len(content))])
    else:
        place = rng.randrange(len(content))
        flipped = content[place] ^ (1 << rng.randrange(8))
        path.write_bytes(content[:place] + bytes([flipped]) + content[place + 1 :])


def main() -> None:
    """Damages, checks and restores files, and prints the count of reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng, reported = random.Random(arguments.seed), 0
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "run"
        train(Path(name), run)
        checkpoints = [path for path in run.glob("training/step-*/*") if path.name != MANIFEST]
        model = ("config.json", "model.safetensors", "recipe.yaml", "tokenizer.json")
        files = [*(run / name for name in model), *checkpoints]
        for _ in range(arguments.flips):
            path = rng.choice(files)
            content = path.read_bytes()
            damage(path, content, rng)
            reported += is_reported(run, path)
            path.write_bytes(content)
        assert checksums_of_files(files)
        assert not verify(run)
    print(f"{reported:,} of {arguments.flips:,} reported by name and refused", end=" ")
    print(f"(seed {arguments.seed}, {len(files)} files)")
    raise SystemExit(reported != arguments.flips)


if __name__ == "__main__":
    main()
