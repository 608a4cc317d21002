"""Keeps translated shards on disk until a text is complete, and then joins them into its output file.

For each output, a record states which text, models and settings it was produced from.
"""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transduce.bulk.shards import Shard, ShardedText, ShardResult
from transduce.storage.atomic import atomic_write, atomic_write_text
from transduce.storage.checksums import checksums_of_files, find_damage
from transduce.storage.result_files import name_in_errors


class PairFilter:
    """Drops pairs with an empty side, pairs whose sides are equal, and duplicates of earlier pairs.

    The filter must be called on the shards in their order. It takes about 70 bytes of memory for each pair that it
    keeps.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """The number of pairs that were kept, and the number of lines that were dropped for each reason."""
        self._seen: set[int] = set()

    def __call__(self, text: str) -> str:
        """Returns the lines of `text` that are kept. Each line is a pair whose sides are separated by a tab."""
        pairs = []
        for line in text.removesuffix("\n").split("\n") if text else ():
            source, _, target = line.partition("\t")
            digest = int.from_bytes(hashlib.blake2b(line.encode(), digest_size=8).digest())
            if not source.strip() or not target.strip():
                self.counts["lines without text or translation"] += 1
            elif target.strip() == source.strip():
                self.counts["copies"] += 1
            elif digest in self._seen:
                self.counts["duplicates"] += 1
            else:
                self.counts["pairs"] += 1
                self._seen.add(digest)
                pairs.append(f"{line}\n")
        return "".join(pairs)


class FinishedShards:
    """A folder of finished shards, each in a file whose name is a checksum of everything that the shard depends on.

    `origin` is everything that the translations depend on, except the text. If the output consists of pairs, `pairs` is
    the filter for its lines.
    """

    def __init__(self, folder: Path, origin: Mapping[str, Any], pairs: PairFilter | None = None) -> None:
        self.shards, self.records, self.origin, self.pairs = folder / "shards", folder / "made", origin, pairs
        for part in (self.shards, self.records):
            part.mkdir(exist_ok=True)

    def save(self, shard: Shard, result: ShardResult) -> None:
        """Saves the result of a shard, together with a checksum."""
        content = f"{json.dumps(result.faults)}\n{result.text}"
        with name_in_errors(self.path(shard)):
            atomic_write_text(self.path(shard), f"{hashlib.sha256(content.encode()).hexdigest()}\n{content}")

    def load(self, shard: Shard) -> ShardResult | None:
        """Loads the result of a shard, or returns None if it is missing or damaged."""
        try:
            checksum, _, content = self.path(shard).read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        if hashlib.sha256(content).hexdigest().encode() != checksum:
            return None
        faults, _, text = content.decode().partition("\n")
        return ShardResult(text, [(number, fault) for number, fault in json.loads(faults)])

    def path(self, shard: Shard) -> Path:
        """Returns the path of the file for the result of a shard."""
        identity = [Path(shard.path).name, shard.lines_before, shard.sha256]
        return self.shards / hashlib.sha256(json.dumps([self.origin, identity]).encode()).hexdigest()

    def write_output(self, text: ShardedText) -> None:
        """Joins the shards of a text and writes its output atomically.

        Raises OSError if a shard is missing or damaged.
        """

        def write_to(temporary: Path) -> None:
            faults = []
            with temporary.open("wb") as file:
                for shard in text.shards:
                    result = self.load(shard)
                    if result is None:
                        raise OSError(f"{self.path(shard)} was damaged or removed; run the same command again")
                    file.write((self.pairs(result.text) if self.pairs else result.text).encode())
                    faults += result.faults
            # The record is written before the output is renamed into place, so that every output has a record.
            record = {**checksums_of_files([temporary])[temporary.name], "faults": faults, "origin": self._origin(text)}
            record |= {"counts": self.pairs.counts} if self.pairs else {}
            atomic_write_text(self._record_path(text), json.dumps(record, indent=1, ensure_ascii=False) + "\n")

        text.out.parent.mkdir(parents=True, exist_ok=True)
        with name_in_errors(text.out):
            atomic_write(text.out, write_to)

    def has_output(self, text: ShardedText) -> bool:
        """Returns True if the output of a text has already been written.

        Raises ValueError if the output file exists but was not written by this program, was changed, or was produced
        from a different text or with a different model or settings.
        """
        if not text.out.exists():
            return False
        remedy = "move it away, or choose another --out"
        record = self._read_record(text)
        if record is None:
            raise ValueError(f"{text.out} already exists; {remedy}")
        if damage := find_damage(text.out.parent, {text.out.name: record}):
            raise ValueError(f"{text.out.parent / damage[0]}; {remedy}")
        origin, before = self._origin(text), record["origin"]
        if different := [name for name in {**origin, **before} if origin.get(name) != before.get(name)]:
            raise ValueError(f"{text.out} already exists, of another {', another '.join(different)}; {remedy}")
        return True

    def faults(self, text: ShardedText) -> list[tuple[int, str]]:
        """Returns the line number and the reason for every line of a finished text that could not be translated."""
        return [(number, fault) for number, fault in (self._read_record(text) or {"faults": []})["faults"]]

    def counts(self, text: ShardedText) -> dict[str, int]:
        """Returns the number of pairs in a finished output, and the number of lines that were dropped for each reason.

        The result is empty unless the output consists of pairs.
        """
        counts = (self._read_record(text) or {}).get("counts", {})
        return {str(name): int(count) for name, count in counts.items()}

    def remove_shards(self) -> None:
        """Deletes all shards, which are not needed any more after the outputs are written."""
        shutil.rmtree(self.shards)

    def _read_record(self, text: ShardedText) -> dict[str, Any] | None:
        """Reads the record for the output of a text, or returns None if it is missing or damaged."""
        try:
            record = json.loads(self._record_path(text).read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        is_complete = isinstance(record, dict) and {"bytes", "sha256", "faults", "origin"} <= record.keys()
        return record if is_complete else None

    def _record_path(self, text: ShardedText) -> Path:
        return self.records / f"{text.out.name}.json"

    def _origin(self, text: ShardedText) -> dict[str, Any]:
        return {"text": text.sha256, **self.origin}
