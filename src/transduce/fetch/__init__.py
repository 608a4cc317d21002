"""Fetching: the public corpora that the recipes name, from mirrors, a folder or the hub, as the files they name."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from transduce.fetch.catalogue import Catalogue, Corpus, Part, read_catalogue
from transduce.fetch.clean import Account, cleaned
from transduce.fetch.download import Unavailable
from transduce.fetch.landing import Landing
from transduce.fetch.meter import readable
from transduce.fetch.origins import Folder, Mirrors
from transduce.fetch.sources import ArchiveSource, HubSource, TextSource
from transduce.storage.locks import exclusive_lock

__all__ = ["Catalogue", "Unavailable", "fetch", "read_catalogue"]

ARCHIVES = "archives"  # beside the corpora, because they share some
HUB = "hub"
OFTEN = 1_000_000  # pairs after which a word is said

Row = Sequence[str]

Say = Callable[[str], None]


def fetch(name: str, out: Path, origin: str | None, say: Say, catalogue: Catalogue | None = None) -> dict[str, Any]:
    """Gets the corpus `name` into `out/name`, as far as it is not there, and tells of its parts what the manifest does.

    `origin` is None for the mirrors, `hub`, or a folder that has archives or texts. Another `catalogue` has other
    places. `ValueError` for what the user must mend, `Unavailable` where something can be had nowhere.
    """
    catalogue = catalogue or read_catalogue()
    corpus = catalogue.corpus(name)
    source = _source(origin, out, catalogue, say)
    with exclusive_lock(out / name, "fetch"):
        landing = Landing(out / name)
        if landing.parts:
            say(f"checking what is in {out / name}")
        missing = [part for part in corpus.parts if landing.lacks(part.name, _files(part, source))]
        _require_room(missing, source, out)
        for part in missing:  # all downloads come first, so that what takes long is not begun in vain
            source.get(part)
        for part in missing:
            _fetch_part(part, source, landing, say)
        if not missing:
            say("nothing to do: all is there and whole")
        _tell_what_is_left(corpus, source, out / name, say)
        return landing.parts


def _source(origin: str | None, out: Path, catalogue: Catalogue, say: Say) -> TextSource:
    """What `--from` names."""
    if origin is None:
        return ArchiveSource(Mirrors(catalogue.archives, out / ARCHIVES, say), say)
    if origin == HUB:
        return HubSource()
    if not Path(origin).is_dir():
        raise ValueError(f"--from {origin}: there is no such folder; name one that has archives or texts, or `hub`")
    return ArchiveSource(Folder(catalogue.archives, Path(origin)), say)


def _files(part: Part, source: TextSource) -> list[str]:
    """The files of a part for which a source has the text."""
    return [part.files[language] for language in source.languages(part)]


def _fetch_part(part: Part, source: TextSource, landing: Landing, say: Say) -> None:
    """Gets one part, cleans it, and puts it into place."""
    account = Account()
    rows = _told(cleaned(source.rows(part, landing.work), part, account), say)
    landing.land(part.name, _files(part, source), rows, lambda: {"from": source.name, **account.as_dictionary()})
    say(f"{landing.folder / part.name}: {account}")


def _told(rows: Iterable[Row], say: Say) -> Iterator[Row]:
    """The rows, with a word from time to time: tens of millions take minutes."""
    for number, row in enumerate(rows, start=1):
        yield row
        if number % OFTEN == 0:
            say(f"  {number:,} pairs")


def _require_room(parts: Sequence[Part], source: TextSource, out: Path) -> None:
    """A `ValueError` where the disk is too small for the texts and what they come from, as far as sizes are known."""
    needed = source.room(parts) + sum(part.text for part in parts)
    free = shutil.disk_usage(out).free
    if free < needed:
        raise ValueError(
            f"{out} has {readable(free)} free, and about {readable(needed)} are needed; make room, or choose another "
            "--out"
        )


def _tell_what_is_left(corpus: Corpus, source: TextSource, folder: Path, say: Say) -> None:
    """Names the files of the corpus that are not there, because a source does not have them."""
    if left := [file for part in corpus.parts for file in part.files.values() if not (folder / file).exists()]:
        say(f"not from the {source.name}: {', '.join(left)}; the same command without --from gets them")
