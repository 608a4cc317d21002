"""Reads the cleaned trees of treebanks, and the pairs of words and symbols on which a parser is trained."""

from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path

from transduce.corpus.corpus_kinds import EmbeddedTrees, Trees, files_below, files_of
from transduce.corpus.readers import decode_line, read_byte_lines
from transduce.parsing.tree_symbols import symbols_of
from transduce.parsing.trees import Tree, clean_tree, is_comment, parse_tree, read_trees, words_of
from transduce.text.compressed import UnreadCompressionError, decompressed

LINE_BYTES, COMMENT_LINES = 1 << 16, 1000
"""The maximum number of bytes per line and of lines that are read to detect whether a file contains trees."""


def tree_files(folder: Path) -> list[Path]:
    """Returns the files in a folder that contain trees, except hidden files and backup files."""
    return [path for path in files_below(folder) if not _is_hidden(path, folder) and _begins_with_tree(path)]


def _is_hidden(path: Path, folder: Path) -> bool:
    """Returns whether a path in `folder` is hidden or in a hidden folder, or is the backup file of an editor."""
    return path.name.endswith("~") or any(part.startswith(".") for part in path.relative_to(folder).parts)


def _begins_with_tree(path: Path) -> bool:
    """Returns whether the first line of a file that is neither empty nor a comment begins with a bracket.

    Also returns True if the file cannot be read, so that reading its trees later reports the reason. If its compression
    is not supported, returns False.
    """
    try:
        with path.open("rb") as file, decompressed(file, path) as lines:
            beginnings = (lines.readline(LINE_BYTES).removeprefix(BOM_UTF8).strip() for _ in range(COMMENT_LINES))
            first = next((line for line in beginnings if line and not is_comment(line.decode(errors="replace"))), b"")
    except UnreadCompressionError:
        return False
    except (OSError, ValueError):
        return True
    return first.startswith(b"(")


def read_treebank(corpus: Trees | EmbeddedTrees) -> Iterator[Tree]:
    """Yields the cleaned trees of a corpus. Trees without words are left out.

    Raises ValueError, with the file and the line, if a text is not a tree.
    """
    if isinstance(corpus, EmbeddedTrees):
        from transduce.embedded import split  # imported here because importing reads its tables

        trees = (clean_tree(parse_tree(example.tree)) for example in split(corpus.embedded_trees))
        yield from (tree for tree in trees if tree is not None)
        return
    for path in files_of(corpus):
        yield from (cleaned for _, cleaned in _read_cleaned(path) if cleaned and _accepts(corpus, cleaned))


def read_gold_treebank(corpus: Trees | EmbeddedTrees) -> list[tuple[Tree, Tree | None]]:
    """Returns the trees of a corpus as they are in its files, each with its cleaned tree.

    The cleaned tree is None if no word is left after cleaning. Raises the same errors as `read_treebank`.
    """
    if isinstance(corpus, EmbeddedTrees):
        return [(tree, tree) for tree in read_treebank(corpus)]
    trees = (pair for path in files_of(corpus) for pair in _read_cleaned(path))
    return [(tree, cleaned) for tree, cleaned in trees if cleaned is None or _accepts(corpus, cleaned)]


def _accepts(corpus: Trees, tree: Tree) -> bool:
    """Returns whether a corpus includes a cleaned tree, which depends on its label and on its number of words."""
    return tree.label not in corpus.without and len(words_of(tree)) >= corpus.shortest


def _read_cleaned(path: Path) -> Iterator[tuple[Tree, Tree | None]]:
    """Yields each tree in a file together with its cleaned tree."""
    lines = (decode_line(line, path, number) for number, line in enumerate(read_byte_lines(path), start=1))
    for number, tree in read_trees(lines, str(path)):
        try:
            yield tree, clean_tree(tree)
        except ValueError as error:
            raise ValueError(f"{path}: line {number}: {error}") from None


def read_tree_pairs(corpus: Trees | EmbeddedTrees) -> Iterator[tuple[bytes, bytes]]:
    """Yields the words and the symbols of every tree in a corpus, each as a line with spaces between them."""
    assert corpus.linearisation is not None  # `DataSpec` sets it
    for tree in read_treebank(corpus):
        yield " ".join(words_of(tree)).encode(), " ".join(symbols_of(tree, corpus.linearisation)).encode()
