"""Maps pairs to ids with `datasets` and the subwords that `transduce` has learned; runs in the peer's environment."""

import json
import os
import sys
import time
from pathlib import Path

from datasets import Dataset, concatenate_datasets
from tokenizers import Tokenizer


def main(folder: Path) -> None:
    """Prints the number of pairs, and the seconds of reading the text and of mapping it, as JSON."""
    began = time.perf_counter()
    sides = [Dataset.from_text(str(folder / f"train.{name}")).rename_column("text", name) for name in ("en", "de")]
    pairs = concatenate_datasets(sides, axis=1)
    read = time.perf_counter()
    subwords = Tokenizer.from_file(str(folder / "store" / "tokenizer.json"))

    def encode(batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        return {
            f"{name}_ids": [encoding.ids for encoding in subwords.encode_batch_fast(batch[name])]
            for name in ("en", "de")
        }

    cores = os.cpu_count() or 1
    mapped = pairs.map(encode, batched=True, batch_size=2_000, num_proc=cores, remove_columns=["en", "de"])
    finished = time.perf_counter()
    print(json.dumps({"pairs": len(mapped), "reading": read - began, "mapping": finished - read}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
