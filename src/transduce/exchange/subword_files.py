"""Writes the subwords of an exported model."""

from collections.abc import Sequence
from pathlib import Path

from transduce.text.sentence_pieces import SentencePieces
from transduce.text.token_vocabulary import TokenVocabulary, share_subwords, subwords_files

SPM_FILES = ("source.spm", "target.spm")  # names that OPUS-MT, Marian and Argos give to SentencePiece models


def write_subwords(sides: Sequence[TokenVocabulary], folder: Path) -> None:
    """Writes the subword files of both sides to `folder`.

    For a side with SentencePiece subwords, also writes the SentencePiece model, which some engines read.
    """
    for name, spm_file, side in zip(subwords_files(shared=share_subwords(sides)), SPM_FILES, sides, strict=True):
        side.save(folder / name)
        if isinstance(side, SentencePieces):
            (folder / spm_file).write_bytes(side.model_file)
