"""The vocabularies of Marian's models: a YAML file of tokens and ids, or a SentencePiece model."""

import json
import re
from pathlib import Path
from typing import Any

from transduce.exchange.token_rows import ForeignVocabulary, TokenRows
from transduce.storage.regular_files import read_regular_file
from transduce.text.sentence_pieces import pieces_of_model

__all__ = ["piece_file", "read_vocabulary", "vocabulary_files"]


_ESCAPE = re.compile(r"\\(?:U(?P<digits>00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})|.)")


def vocabulary_files(directory: Path, named: Any) -> tuple[Path, Path]:
    """Returns the vocabularies of source and target: those that decoder.yml names, or the only one of the folder."""
    names = [Path(str(name)).name for name in named] if isinstance(named, list) else []
    if not names:
        vocabularies = sorted(directory.glob("*vocab*.yml")) or sorted(directory.glob("*.spm"))
        names = [path.name for path in vocabularies] * 2
    if len(names) != 2:
        raise ValueError(
            f"{directory} does not name the vocabularies of source and target: write decoder.yml with "
            "`vocabs: [SOURCE, TARGET]`"
        )
    return directory / names[0], directory / names[1]


def read_vocabulary(path: Path, size: int) -> ForeignVocabulary:
    """Returns the vocabulary of a file, for a model with `size` rows; it has no pad and no begin symbol."""
    if path.suffix == ".spm":
        pieces = pieces_of_model(read_regular_file(path), str(path))
        ids = {piece: row for row, piece in enumerate(pieces)}
    else:
        ids = _token_lines(path)
    if "</s>" not in ids:
        raise ValueError(f"{path} lacks the token </s>")
    rows = TokenRows.of(size, pad=None, begin=ids["</s>"], end=ids["</s>"], place=str(path))
    return ForeignVocabulary.of(rows, ids, "<unk>", str(path))


def _token_lines(path: Path) -> dict[str, int]:
    """Reads a vocabulary in YAML as Marian writes it: a token and its id on each line, the token in quotes or not."""
    ids: dict[str, int] = {}
    for number, line in enumerate(read_regular_file(path).split(b"\n"), start=1):
        try:
            text = line.decode("utf-8").strip()
            if not text or text == "---":
                continue
            token, row = _parse_line(text)
        except ValueError:
            token, row = "", 0
        if not token or token in ids:
            raise ValueError(f"{path}, line {number}: this is no token with an id, or the token is there twice")
        ids[token] = row
    return ids


def _parse_line(text: str) -> tuple[str, int]:
    """Returns the token and the id of a line; raises ValueError for any other line."""
    quoted, _, row = (part.strip() for part in text.rpartition(":"))
    if len(row) > 10 or not (row.isascii() and row.isdigit()):
        raise ValueError(row)
    if quoted.startswith('"'):
        return str(json.loads(_ESCAPE.sub(_letter_of, quoted))), int(row)
    is_single = len(quoted) > 1 and quoted[0] == quoted[-1] == "'"
    return quoted[1:-1].replace("''", "'") if is_single else quoted, int(row)


def _letter_of(escape: re.Match[str]) -> str:
    """Returns the letter of an escape of eight digits, which JSON lacks; any other escape as it is."""
    return chr(int(escape["digits"], 16)) if escape["digits"] else escape.group()


def piece_file(directory: Path, vocabulary: Path, side: str) -> Path:
    """Returns the SentencePiece model of a side: the vocabulary itself, or `source.spm` and `target.spm`."""
    path = vocabulary if vocabulary.suffix == ".spm" else directory / f"{side}.spm"
    if not path.is_file():
        raise ValueError(
            f"{directory} has no {path.name}: models whose text is split by other programs are not imported"
        )
    return path
