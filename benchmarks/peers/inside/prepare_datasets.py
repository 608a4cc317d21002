"""In the peer's environment: pairs mapped to ids by `datasets`, with the subwords that `transduce` has learnt."""

import json
import os
import sys
import time
from pathlib import Path

from datasets import Dataset, concatenate_datasets
from tokenizers import Tokenizer


def main(folder: Path) -> None:
    """Prints the seconds of reading the text and of mapping it."""
    began = time.perf_counter()
    sides = [Dataset.from_text(str(folder / f"train.{name}")).rename_column("text", name) for name in ("en", "de")]
    pairs = concatenate_datasets(sides, axis=1)
    read = time.perf_counter()
    subwords = Tokenizer.from_file(str(folder / "store" / "tokenizer.json"))

    def cut(batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        return {f"{name}_ids": [each.ids for each in subwords.encode_batch_fast(batch[name])] for name in ("en", "de")}

    cores = os.cpu_count() or 1
    made = pairs.map(cut, batched=True, batch_size=2_000, num_proc=cores, remove_columns=["en", "de"])
    done = time.perf_counter()
    print(json.dumps({"pairs": len(made), "reading": read - began, "mapping": done - read}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
