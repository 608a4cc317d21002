"""The files of subwords in an export."""

from collections.abc import Sequence
from pathlib import Path

from transduce.text.sentence_pieces import SentencePieces
from transduce.text.token_vocabulary import TokenVocabulary, share_subwords, subwords_files

SPM_FILES = ("source.spm", "target.spm")  # as OPUS-MT, Marian and Argos name the models of SentencePiece


def write_subwords(sides: Sequence[TokenVocabulary], folder: Path) -> None:
    """Writes our files of the subwords of both sides, and the models of SentencePiece for engines that read these."""
    for name, spm_file, side in zip(subwords_files(shared=share_subwords(sides)), SPM_FILES, sides, strict=True):
        side.save(folder / name)
        if isinstance(side, SentencePieces):
            (folder / spm_file).write_bytes(side.model_file)
