"""What has been finished, on the disk: shards until all are there, and what each output was made from."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transduce.bulk.job import ShardResult
from transduce.bulk.shards import Shard, Text
from transduce.storage.atomic import atomic_write, atomic_write_text
from transduce.storage.checksums import checksums_of_files, find_damage

__all__ = ["FinishedShards"]


class FinishedShards:
    """A folder of finished shards, each under the checksum of all that it came from, so that none is taken for another.

    `origin` is what decides on translations, besides the text.
    """

    def __init__(self, folder: Path, origin: Mapping[str, Any]) -> None:
        self.shards, self.made, self.origin = folder / "shards", folder / "made", origin
        for part in (self.shards, self.made):
            part.mkdir(exist_ok=True)

    def put(self, shard: Shard, outcome: ShardResult) -> None:
        """Keeps a finished shard."""
        content = f"{json.dumps(outcome.faults)}\n{outcome.text}"
        atomic_write_text(self.path(shard), f"{hashlib.sha256(content.encode()).hexdigest()}\n{content}")

    def outcome(self, shard: Shard) -> ShardResult | None:
        """A finished shard; None where it is not there, or not as it was kept."""
        try:
            checksum, _, content = self.path(shard).read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        if hashlib.sha256(content).hexdigest().encode() != checksum:
            return None
        found, _, text = content.decode().partition("\n")
        return ShardResult(text, [(number, why) for number, why in json.loads(found)])

    def path(self, shard: Shard) -> Path:
        """Where a shard is kept."""
        source, prefix = shard
        place = [Path(source.path).name, source.before, source.sha256, prefix and prefix.sha256]
        return self.shards / hashlib.sha256(json.dumps([self.origin, place]).encode()).hexdigest()

    def place(self, text: Text) -> None:
        """Joins the shards of a text in their order, and puts the whole in its place."""

        def fill(aside: Path) -> None:
            found = []
            with aside.open("wb") as file:
                for shard in text.shards:
                    outcome = self.outcome(shard)
                    if outcome is None:
                        raise OSError(f"{self.path(shard)} was damaged or removed; the same command makes it again")
                    file.write(outcome.text.encode())
                    found += outcome.faults
            # Before the renaming: an output that is there is known.
            record = {**checksums_of_files([aside])[aside.name], "faults": found, "origin": self._origin(text)}
            atomic_write_text(self._record(text), json.dumps(record, indent=1, ensure_ascii=False) + "\n")

        text.out.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(text.out, fill)

    def is_placed(self, text: Text) -> bool:
        """Whether a text's output is there; a `ValueError` where that is another's, which is left as it is."""
        if not text.out.exists():
            return False
        remedy = "move it away, or choose another --out"
        record = self._known(text)
        if record is None:
            raise ValueError(f"{text.out} is there already; {remedy}")
        if found := find_damage(text.out.parent, {text.out.name: record}):
            raise ValueError(f"{text.out.parent / found[0]}; {remedy}")
        mine = self._origin(text)
        if other := [name for name in mine if mine[name] != record["origin"].get(name)]:
            raise ValueError(f"{text.out} is there already, of another {', another '.join(other)}; {remedy}")
        return True

    def faults(self, text: Text) -> list[tuple[int, str]]:
        """The lines of a finished text that could not be translated, and why."""
        return [(number, why) for number, why in (self._known(text) or {"faults": []})["faults"]]

    def drop_shards(self) -> None:
        """Removes all shards: the outputs are there."""
        shutil.rmtree(self.shards)

    def _known(self, text: Text) -> dict[str, Any] | None:
        """What is written down of a text's output; None where that is missing or damaged."""
        try:
            found = json.loads(self._record(text).read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        whole = isinstance(found, dict) and {"bytes", "sha256", "faults", "origin"} <= found.keys()
        return found if whole else None

    def _record(self, text: Text) -> Path:
        return self.made / f"{text.out.name}.json"

    def _origin(self, text: Text) -> dict[str, Any]:
        return {**text.checksums, **self.origin}
