"""Plain text of a compressed file, for shards, which are read by their offsets."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transduce.corpus import read_byte_lines
from transduce.storage.atomic import atomic_write
from transduce.storage.locks import exclusive_lock
from transduce.storage.regular_files import remove
from transduce.text.compressed import LONGEST_SIGNATURE, compression_of, plain_name

__all__ = ["plain_text"]


@contextmanager
def plain_text(path: Path, folder: Path) -> Iterator[Path]:
    """Yields `path`, or where it is compressed a file of the same lines in `folder`, which is removed at the end.

    Raises ValueError for a damaged file, and where another process unpacks into `folder`. Raises OSError for a file
    that cannot be read.
    """
    if not path.is_file() or not _is_compressed(path):
        yield path
        return
    with exclusive_lock(folder, "translation"):
        try:
            plain = folder / plain_name(path)
            atomic_write(plain, lambda temporary: _write_lines(path, temporary))
            yield plain
        finally:
            remove(folder)


def _is_compressed(path: Path) -> bool:
    with path.open("rb") as file:
        return compression_of(file.read(LONGEST_SIGNATURE)) is not None


def _write_lines(path: Path, plain: Path) -> None:
    with plain.open("wb") as file:
        file.writelines(line + b"\n" for line in read_byte_lines(path))
