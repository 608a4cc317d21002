"""Compares SentencePiece's pieces here with the library's own: `python stress/sentencepiece_pieces.py`.

For each pair of files in the data folder, two kinds of models split every line of both files: one that is learned as a
recipe has it learned, and a foreign one, which the library learns with the settings of other programs. The lines whose
pieces differ, and those whose text differs after decoding, are counted; the exit code is 1 if there are any.

    TRANSDUCE_DATA=… python stress/sentencepiece_pieces.py
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import sentencepiece

from transduce.corpus.data_spec import DataSpec
from transduce.corpus.learned_subwords import learn_subwords
from transduce.text.sentence_pieces import SentencePieces
from transduce.text.subword_training import SentencePiece

LEARNED_FROM = 20_000  # lines of each file
FOREIGN: dict[str, dict[str, Any]] = {
    "foreign unigram": {"model_type": "unigram", "pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3},
    "foreign bpe": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "nfkc_cf"},
}
"""Settings of models of T5's and Llama's kind; the second has small letters."""

ALGORITHMS: tuple[Literal["unigram", "bpe"], ...] = ("unigram", "bpe")


def differing(side: SentencePieces, lines: Sequence[str]) -> int:
    """Returns how many lines differ from the library's, in pieces or after decoding."""
    library = sentencepiece.SentencePieceProcessor(model_proto=side.model_file)
    ours, theirs = side.encode(lines), library.encode(lines, out_type=str)
    texts = zip(side.decode(ours), [library.decode_pieces(pieces) for pieces in theirs], strict=True)
    known = set(side.vocabulary)
    unknown = side.vocabulary[side.content.unknown]
    return sum(
        [side.vocabulary[token] for token in tokens] != [piece if piece in known else unknown for piece in pieces]
        or (unknown not in [side.vocabulary[token] for token in tokens] and text != expected)
        for tokens, pieces, (text, expected) in zip(ours, theirs, texts, strict=True)
    )


def main() -> None:
    """Prints a row a pair of files."""
    folder = Path(os.environ["TRANSDUCE_DATA"])
    pairs = [
        (source, target)
        for source in sorted(folder.glob("*/*.en"))
        for target in sorted(source.parent.glob(f"{source.stem}.??"))
        if target != source
    ]
    total = differences = 0
    print("| source | target | lines of both | comparisons | differ |\n|---|---|---|---|---|")
    for source, target in pairs:
        sides = [path.read_text("utf-8").removesuffix("\n").split("\n") for path in (source, target)]
        lines = [line for side in sides for line in side]
        with tempfile.TemporaryDirectory() as temporary:
            files = [Path(temporary, name) for name in ("source", "target")]
            for path, side in zip(files, sides, strict=True):
                path.write_text("\n".join(side[:LEARNED_FROM]) + "\n", "utf-8")
            data = DataSpec.model_validate({"train": {"source": str(files[0]), "target": str(files[1])}})
            models = [learn_subwords(data, SentencePiece(size=4000, algorithm=one), [])[0][0] for one in ALGORITHMS]
        for kind, settings in FOREIGN.items():
            model = BytesIO()
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines[:LEARNED_FROM]), model_writer=model, vocab_size=4000,
                hard_vocab_limit=False, minloglevel=2, **settings,
            )  # fmt: skip
            models.append(SentencePieces.of_model(model.getvalue(), kind))
        differ = sum(differing(model, lines) for model in models if isinstance(model, SentencePieces))
        total, differences = total + len(lines) * len(models), differences + differ
        compared = len(lines) * len(models)
        name = source.relative_to(folder)
        print(f"| {name} | {target.name} | {len(lines):,} | {compared:,} | {differ:,} |", flush=True)
    print(f"\n{differences:,} of {total:,} comparisons differ")
    sys.exit(differences > 0)


if __name__ == "__main__":
    main()
