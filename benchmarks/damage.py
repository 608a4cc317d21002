"""Flipped bits and cut files in a run's model and checkpoints, one at a time: `python damage.py --flips 1000`.

Each has to be reported by the file's name by `verify`, and never be loaded.
"""

import argparse
import random
import tempfile
from pathlib import Path

from small_run import trained

from transduce.model_directory import MANIFEST, Model, verify
from transduce.storage.checksums import checksums_of_files
from transduce.trainer.checkpoints import Checkpoints, DamagedError


def found(run: Path, path: Path) -> bool:
    """Whether the damage of `path` is reported by its name and refused."""
    checkpoints = Checkpoints(run / "training", keep=1)
    if path.parent == run:
        faults, read = verify(run), lambda: Model.read(run)
    else:
        step = int(path.parent.name.removeprefix("step-"))
        faults, read = checkpoints.find_damage(step), lambda: checkpoints.load(step)
    try:
        read()
    except (DamagedError, ValueError) as error:
        return path.name in str(error) and any(path.name in fault for fault in faults)
    return False


def main() -> None:
    """Damages, looks, mends, and counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    drawn, reported = random.Random(asked.seed), 0
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "run"
        trained(Path(name), run)
        inside = [path for path in run.glob("training/step-*/*") if path.name != MANIFEST]
        checked = ("config.json", "model.safetensors", "recipe.yaml", "tokenizer.json")
        files = [*(run / each for each in checked), *inside]
        for _ in range(asked.flips):
            path = drawn.choice(files)
            content = path.read_bytes()
            if drawn.random() < 0.1:
                path.write_bytes(content[: drawn.randrange(len(content))])
            else:
                place = drawn.randrange(len(content))
                flipped = content[place] ^ (1 << drawn.randrange(8))
                path.write_bytes(content[:place] + bytes([flipped]) + content[place + 1 :])
            reported += found(run, path)
            path.write_bytes(content)
        assert checksums_of_files(files)
        assert not verify(run)
    print(f"{reported:,} of {asked.flips:,} reported by name and refused (seed {asked.seed}, {len(files)} files)")
    raise SystemExit(reported != asked.flips)


if __name__ == "__main__":
    main()
