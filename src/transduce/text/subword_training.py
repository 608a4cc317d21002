"""Learns subwords from text: the settings of BPE and WordPiece, and the tokenizers that result from them."""

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
"""The smallest vocabulary: every byte is a subword."""

MAX_SIZE = 1_000_000
"""The largest vocabulary: the library allocates memory for all subwords before it learns them."""


NORMALISE: bool = Field(
    default=True,
    description="Normalise text: one space for white space of every kind in sources, and no invisible characters.",
)


class Bpe(Spec):
    """Byte-pair encoding: merges the most frequent neighbours again and again (Sennrich et al. 2016)."""

    kind: Literal["bpe"] = "bpe"
    size: int = Field(
        default=10_000,
        ge=MIN_SIZE,
        le=MAX_SIZE,
        description="Tokens a side, 256 bytes and 3 symbols included; fewer where the text yields fewer.",
    )
    shared: bool = Field(
        default=True, description="One vocabulary for both sides; false needs `model.embeddings: separate`."
    )
    dropout: float = Field(
        default=0.0,
        ge=0.0,
        lt=1.0,
        description="Share of merges skipped at random in training (Provilkov et al. 2020).",
    )
    normalise: bool = NORMALISE


class WordPiece(Spec):
    """WordPiece: merges by likelihood, and splits a word into the longest subwords from left to right."""

    kind: Literal["wordpiece"] = "wordpiece"
    size: int = Field(
        default=10_000,
        ge=MIN_SIZE + 256,
        le=MAX_SIZE,
        description="Tokens a side, two for each byte and 3 symbols included.",
    )
    shared: bool = Field(
        default=True, description="One vocabulary for both sides; false needs `model.embeddings: separate`."
    )
    normalise: bool = NORMALISE


class SentencePiece(Spec):
    """SentencePiece, learned and applied by its own library (Kudo and Richardson 2018), the extra `sentencepiece`.

    The library normalises text: sources, and both sides of a shared vocabulary, by its rule `nmt_nfkc`; targets of
    their own vocabulary keep their characters.
    """

    kind: Literal["sentencepiece"] = "sentencepiece"
    size: int = Field(
        default=10_000,
        ge=MIN_SIZE + 1,
        le=MAX_SIZE,
        description="Tokens a side, 256 bytes and 4 symbols included; fewer where the text yields fewer.",
    )
    algorithm: Literal["unigram", "bpe"] = Field(default="unigram", description="What the library learns.")
    shared: bool = Field(
        default=True, description="One vocabulary for both sides; false needs `model.embeddings: separate`."
    )
    symbols: tuple[str, ...] = Field(default=(), description="Texts that are one token each, such as `<name>`.")
    model: str | tuple[str, str] | None = Field(
        default=None,
        description="A `.model` or `.spm` file that you have, of both sides, or two: `[source, target]`; nothing is "
        "learned.",
    )

    @field_validator("symbols", "model", mode="before")
    @classmethod
    def _as_tuple(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _check_models(self) -> Self:
        """Raises ValueError if two files are named for one vocabulary."""
        if isinstance(self.model, tuple) and self.shared:
            raise ValueError("`model` names two vocabularies: set `shared: false`")
        return self

    @property
    def model_files(self) -> tuple[Path, ...]:
        """Files that replace learning: none, one for both sides, or one each for source and target."""
        named = (self.model,) if isinstance(self.model, str) else self.model or ()
        return tuple(map(Path, named))


class Pretokenised(Spec):
    """Text that is already split into tokens by spaces, for example by `spm_encode` or subword-nmt.

    Translation reads and writes pretokenised text. Tokens that are too rare for `size` become the unknown token.
    """

    kind: Literal["pretokenised"] = "pretokenised"
    size: int = Field(default=10_000, ge=len(SYMBOLS) + 2, le=MAX_SIZE, description="Tokens a side, the most frequent.")
    shared: bool = Field(
        default=True, description="One vocabulary for both sides; false needs `model.embeddings: separate`."
    )


SubwordsSpec = Annotated[Bpe | WordPiece | SentencePiece | Pretokenised, Field(discriminator="kind")]


def learn_tokenizer(lines: Iterable[str], spec: Bpe | WordPiece, side: Side | None) -> tokenizers.Tokenizer:
    """Learns a tokenizer with `spec.size` subwords, or fewer if `lines` yield fewer; the lines must be normalised.

    The tokenizer normalises text by the rules of `side`.
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
    description["added_tokens"] = []  # otherwise the library would look for added tokens in every text
    description["normalizer"] = json.loads(build_tokenizer(models.BPE(), side).to_str())["normalizer"]
    return parse_tokenizer(json.dumps(description, ensure_ascii=False))


def _learn_wordpiece(lines: Iterable[str], spec: WordPiece, side: Side | None) -> tokenizers.Tokenizer:
    """Learns a vocabulary by likelihood; the library then applies it."""
    splitter, words = build_tokenizer(models.WordPiece()), Counter[str]()
    for line in lines:
        parts = splitter.pre_tokenizer.pre_tokenize_str(splitter.normalizer.normalize_str(line))
        words.update(letters for letters, _ in parts)
    alphabet = byte_letters()
    vocabulary = [*SYMBOLS, *alphabet, *(CONTINUES + letter for letter in alphabet)]
    vocabulary += learn_wordpiece(words, alphabet, CONTINUES, spec.size - len(vocabulary))
    return build_tokenizer(wordpiece_model(vocabulary), side)
