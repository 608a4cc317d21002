"""Downloads the public corpora that the recipes use, from mirrors, a local folder or the Hugging Face hub."""

import logging
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from transduce.fetch.catalogue import Catalogue, Part, read_catalogue
from transduce.fetch.corpus_folder import CleaningCounts, CorpusFolder, clean
from transduce.fetch.download import Unavailable, format_bytes
from transduce.fetch.sources import HubSource, LocalFolder, Mirrors, TextSource
from transduce.storage.locks import exclusive_lock

_log = logging.getLogger("transduce")

__all__ = ["Catalogue", "Unavailable", "fetch", "read_catalogue"]

ARCHIVES = "archives"  # a folder next to those of the corpora, because several corpora may use the same archive
HUB = "hub"
PROGRESS_INTERVAL = 1_000_000  # number of pairs between two progress messages


def fetch(name: str, out: Path, origin: str | None, catalogue: Catalogue | None = None) -> dict[str, Any]:
    """Downloads the missing files of the corpus `name` to the folder `out/name`.

    Returns the parts of the corpus as the manifest records them. `origin` is None to download from the mirrors, "hub"
    to download from the Hugging Face hub, or the path of a local folder with archives or texts. Raises ValueError if
    the corpus is unknown, if the folder contains a file that `fetch` did not write, if there is not enough disk space,
    or if a text is damaged. Raises Unavailable if a text cannot be downloaded.
    """
    catalogue = catalogue or read_catalogue()
    corpus = catalogue.find(name)
    source: TextSource
    if origin is None:
        source = Mirrors(catalogue.archives, out / ARCHIVES)
    elif origin == HUB:
        source = HubSource()
    elif Path(origin).is_dir():
        source = LocalFolder(catalogue.archives, Path(origin))
    else:
        raise ValueError(f"--from {origin}: there is no such folder; name one that has archives or texts, or `hub`")
    with exclusive_lock(out / name, "fetch"):
        folder = CorpusFolder(out / name)
        if folder.parts:
            _log.info(f"checking the files in {out / name}")
        missing = [part for part in corpus.parts if folder.lacks(part.name, _files(part, source))]
        needed = source.required_bytes(missing) + sum(part.text_bytes for part in missing)
        free = shutil.disk_usage(out).free
        if free < needed:
            raise ValueError(
                f"{out} has {format_bytes(free)} free, and about {format_bytes(needed)} are needed; "
                "free disk space, or choose another --out"
            )
        for part in missing:  # download everything first, so that a missing archive is reported early
            source.download(part)
        for part in missing:
            counts = CleaningCounts()
            rows = _with_progress(clean(source.rows(part, folder.work), part, counts))
            folder.write_part(part.name, _files(part, source), rows, source.name, counts)
            _log.info(f"{folder.path / part.name}: {counts}")
        if not missing:
            _log.info("nothing to do: every file is complete")
        files = [file for part in corpus.parts for file in part.files.values()]
        if absent := [file for file in files if not (out / name / file).exists()]:
            _log.info(
                f"the {source.name} does not have {', '.join(absent)}; the same command without --from downloads them"
            )
        return folder.parts


def _files(part: Part, source: TextSource) -> list[str]:
    """Returns the files of a part for which the source has the text."""
    return [part.files[language] for language in source.languages(part)]


def _with_progress(rows: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
    """Yields the rows, and logs their number at regular intervals."""
    for number, row in enumerate(rows, start=1):
        yield row
        if number % PROGRESS_INTERVAL == 0:
            _log.info(f"  {number:,} pairs")
