"""Defines the settings of subword segmentation, and learns BPE and WordPiece tokenizers from text."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, Self

import tokenizers
from pydantic import Field, field_validator, model_validator
from tokenizers import models, trainers

from transduce.settings import Spec
from transduce.text.byte_level import (
    CONTINUES,
    SYMBOLS,
    build_tokenizer,
    byte_letters,
    parse_tokenizer,
    wordpiece_model,
)
from transduce.text.normalisation import Side
from transduce.text.wordpiece import learn_wordpiece

MIN_SIZE = len(SYMBOLS) + len(byte_letters())
"""The size of the smallest vocabulary, which consists of the special symbols and all bytes."""

MAX_SIZE = 1_000_000
"""The maximum size of a vocabulary; it is limited because the library allocates memory for all subwords in advance."""


NORMALISE: bool = Field(
    default=True,
    description="Normalises Unicode (NFC), removes invisible characters and, in sources, collapses runs of white "
    "space.",
)


class Bpe(Spec):
    """Byte-pair encoding, which repeatedly merges the most frequent pair of adjacent symbols (Sennrich et al. 2016)."""

    kind: Literal["bpe"] = "bpe"
    size: int = Field(
        default=10_000,
        ge=MIN_SIZE,
        le=MAX_SIZE,
        description="Maximum vocabulary size per side, including 256 bytes and 3 special tokens; small corpora yield "
        "fewer.",
    )
    shared: bool = Field(
        default=True,
        description="Whether source and target share one vocabulary; false requires `model.embeddings: separate`.",
    )
    dropout: float = Field(
        default=0.0,
        ge=0.0,
        lt=1.0,
        description="Probability of skipping a merge in training (BPE-dropout, Provilkov et al. 2020); 0 turns it off.",
    )
    normalise: bool = NORMALISE


class WordPiece(Spec):
    """WordPiece, which merges by likelihood and splits words greedily into the longest matching subwords."""

    kind: Literal["wordpiece"] = "wordpiece"
    size: int = Field(
        default=10_000,
        ge=MIN_SIZE + 256,
        le=MAX_SIZE,
        description="Maximum vocabulary size per side, including two tokens for each byte and 3 special tokens.",
    )
    shared: bool = Field(
        default=True,
        description="Whether source and target share one vocabulary; false requires `model.embeddings: separate`.",
    )
    normalise: bool = NORMALISE


class SentencePiece(Spec):
    """SentencePiece (Kudo and Richardson 2018), which requires the extra `sentencepiece`.

    The library also normalises the text. It applies its rule `nmt_nfkc` to sources, and to targets that share the
    vocabulary of the sources. Targets with a vocabulary of their own keep their characters.
    """

    kind: Literal["sentencepiece"] = "sentencepiece"
    size: int = Field(
        default=10_000,
        ge=MIN_SIZE + 1,
        le=MAX_SIZE,
        description="Maximum vocabulary size per side, including 256 bytes and 4 special tokens; small corpora yield "
        "fewer.",
    )
    algorithm: Literal["unigram", "bpe"] = Field(default="unigram", description="Segmentation algorithm.")
    shared: bool = Field(
        default=True,
        description="Whether source and target share one vocabulary; false requires `model.embeddings: separate`.",
    )
    symbols: tuple[str, ...] = Field(
        default=(), description="User-defined symbols: strings that are never split, such as `<name>`."
    )
    model: str | tuple[str, str] | None = Field(
        default=None,
        description="Trained model, a `.model` or `.spm` file for both sides, or two files `[source, target]`; if "
        "given, nothing is learned.",
    )

    @field_validator("symbols", "model", mode="before")
    @classmethod
    def _as_tuple(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _check_models(self) -> Self:
        """Raises ValueError if two model files are given although both sides share one vocabulary."""
        if isinstance(self.model, tuple) and self.shared:
            raise ValueError("`model` names two vocabularies: set `shared: false`")
        return self

    @property
    def model_files(self) -> tuple[Path, ...]:
        """The model files that are used instead of learning a model.

        There are none, one for both sides, or one for the source and one for the target.
        """
        named = (self.model,) if isinstance(self.model, str) else self.model or ()
        return tuple(map(Path, named))


class Pretokenised(Spec):
    """Text that is already split into tokens by spaces, for example by `spm_encode` or subword-nmt.

    Translation also reads and writes text that is split in this way. The vocabulary consists of the most frequent
    tokens, up to `size`; all other tokens become the unknown token.
    """

    kind: Literal["pretokenised"] = "pretokenised"
    size: int = Field(
        default=10_000,
        ge=len(SYMBOLS) + 2,
        le=MAX_SIZE,
        description="Maximum vocabulary size per side; the most frequent tokens are kept.",
    )
    shared: bool = Field(
        default=True,
        description="Whether source and target share one vocabulary; false requires `model.embeddings: separate`.",
    )


SubwordsSpec = Annotated[Bpe | WordPiece | SentencePiece | Pretokenised, Field(discriminator="kind")]


def learn_tokenizer(lines: Iterable[str], spec: Bpe | WordPiece, side: Side | None) -> tokenizers.Tokenizer:
    """Learns a tokenizer with `spec.size` subwords from `lines`, or with fewer if the lines do not yield that many.

    The lines must already be normalised; the resulting tokenizer normalises text by the rules of `side`.
    """
    if spec.kind == "wordpiece":
        return _learn_wordpiece(lines, spec, side)
    tokenizer = build_tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=spec.size,
        min_frequency=2,
        initial_alphabet=byte_letters(),
        special_tokens=list(SYMBOLS),
        show_progress=False,
    )
    tokenizer.train_from_iterator(iter(lines), trainer)
    description = json.loads(tokenizer.to_str())
    description["added_tokens"] = []  # otherwise, the library would search every text for added tokens
    description["normalizer"] = json.loads(build_tokenizer(models.BPE(), side).to_str())["normalizer"]
    return parse_tokenizer(json.dumps(description, ensure_ascii=False))


def _learn_wordpiece(lines: Iterable[str], spec: WordPiece, side: Side | None) -> tokenizers.Tokenizer:
    """Learns a WordPiece vocabulary and builds a tokenizer that applies it with the library."""
    splitter, words = build_tokenizer(models.WordPiece()), Counter[str]()
    for line in lines:
        parts = splitter.pre_tokenizer.pre_tokenize_str(splitter.normalizer.normalize_str(line))
        words.update(letters for letters, _ in parts)
    alphabet = byte_letters()
    vocabulary = [*SYMBOLS, *alphabet, *(CONTINUES + letter for letter in alphabet)]
    vocabulary += learn_wordpiece(words, alphabet, CONTINUES, spec.size - len(vocabulary))
    return build_tokenizer(wordpiece_model(vocabulary), side)
