"""The result of an import, and the functions and classes that all importers share.

The settings, tensors and vocabularies of the program that the model comes from are called "foreign".
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from pydantic import ValidationError
from torch import Tensor

from transduce.exchange.engine_limits import length_penalty_of_power
from transduce.exchange.foreign_formats import ForeignFormat, LayerNames, layer_weights
from transduce.exchange.moses_bpe import MosesBpe, MosesBpeContent
from transduce.model.transformer import Transformer
from transduce.search.beam import Decoding
from transduce.settings import validated
from transduce.text.byte_level import BEGIN, END, PAD
from transduce.text.sentence_pieces import (
    SentencePieceContent,
    SentencePieces,
    SubwordsContent,
)
from transduce.text.token_vocabulary import TokenVocabulary

LARGEST_POWER = 100  # largest exponent of the length; a larger one may overflow a float

MAX_SIZE = 2**24  # larger than any size that the settings of a real model contain

UNKNOWN = "<unk>"

BELOW = 100.0
"""The number of nats that is subtracted from the readout bias of a copied row.

A symbol that the foreign model lacks gets a copy of the row of another token. The number is large enough that the
probability of the symbol rounds to 0 in float32, and small enough for 16-bit floating point.
"""

Content = TypeVar("Content", bound=SubwordsContent)
Built = TypeVar("Built")


class ImportedModel(NamedTuple):
    """A model from another program, converted to the types of this program."""

    model: Transformer
    weights: dict[str, Tensor]
    source: TokenVocabulary
    target: TokenVocabulary
    decoding: Decoding
    languages: tuple[str | None, str | None]
    origin: str  # the name of the format, for the card
    files: tuple[str, ...]  # the files from which the model was read


def shared_number(settings: Mapping[str, Any], names: Sequence[str], place: str) -> int:
    """Returns the value that all settings in `names` have, which must be a positive integer.

    Raises ValueError if their values differ or are out of range.
    """
    values = [settings.get(name) for name in names]
    for name, value in zip(names, values, strict=True):
        if type(value) is not int or not 0 < value < MAX_SIZE:
            raise ValueError(f"{place}: `{name}` is {value!r}, and must be a whole number from 1")
        if value != values[0]:
            raise ValueError(
                f"{place}: `{names[0]}` is {values[0]!r} and `{name}` is {value!r}, and a model of transduce has one "
                "value for both"
            )
    return int(values[0] or 0)


def settings_in(values: Any, place: str) -> dict[str, Any]:
    """Returns the content of a settings file if it is a mapping; raises ValueError for any other content."""
    if not isinstance(values, dict):
        raise ValueError(f"{place} holds no settings")
    return values


def check_settings(
    settings: Mapping[str, Any], form: ForeignFormat, place: str, further: Mapping[str, Sequence[str]]
) -> dict[str, int]:
    """Checks the settings of a foreign model, and returns its sizes under our names.

    `further` maps a size to additional settings that must have the same value. Raises ValueError, with the name and the
    value of the setting, if this program cannot represent a setting.
    """
    for name, values in form.allowed.items():
        value = settings.get(name, values[0])
        if value not in values:
            possible = " or ".join(map(repr, values))
            raise ValueError(
                f"{place}: `{name}` is {value!r}, which a model of transduce cannot represent; it must be {possible}"
            )
    return {
        size: shared_number(settings, [*names, *further.get(size, ())], place) for size, names in form.sizes.items()
    }


class ForeignTensors:
    """The tensors in a file, by name. Each can be taken once, and `finish` raises ValueError if one was not taken."""

    def __init__(self, tensors: Mapping[str, Tensor], place: str) -> None:
        self._tensors, self._place = dict(tensors), place

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a tensor without taking it; raises ValueError if it is missing or a single number."""
        shape = tuple(self._existing(name).shape)
        if not shape:
            raise ValueError(f"{self._place}: {name} is a single number, and a model has vectors and matrices")
        return shape

    def take(self, name: str, *shape: int) -> Tensor:
        """Removes a tensor from the collection, and returns it as float32.

        Raises ValueError if the tensor is missing, if it has a different shape, or if it contains integers, infinity or
        NaN.
        """
        tensor = self._existing(name)
        del self._tensors[name]
        if tuple(tensor.shape) != shape or not tensor.is_floating_point():
            actual = f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
            raise ValueError(
                f"{self._place}: {name} is {actual}, and the settings ask for {shape} floating-point numbers"
            )
        if not tensor.isfinite().all():
            raise ValueError(f"{self._place}: {name} has numbers that are infinite or NaN")
        return tensor.to(torch.float32, copy=True).contiguous()

    def take_equal(self, names: Iterable[str], *shape: int) -> Tensor:
        """Takes a tensor that the file may contain several times, under any of `names`.

        Raises ValueError if the tensors under two of these names differ, or if there is none.
        """
        present = [name for name in names if name in self] or [next(iter(names))]
        first, *others = (self.take(name, *shape) for name in present)
        for name, other in zip(present[1:], others, strict=True):
            if not torch.equal(first, other):
                raise ValueError(f"{self._place}: {present[0]} and {name} differ, and the settings tie them")
        return first

    def split(self, name: str, names: Sequence[str], shape: tuple[int, ...]) -> None:
        """Splits a tensor into equal parts of shape `shape`, which can then be taken under `names`."""
        whole = self.take(name, len(names) * shape[0], *shape[1:])
        self._tensors.update(zip(names, whole.chunk(len(names)), strict=True))

    def drop(self, names: Iterable[str]) -> None:
        """Discards the tensors that the file contains under `names`, because no model needs them."""
        for name in names:
            self._tensors.pop(name, None)

    def finish(self) -> None:
        """Raises ValueError if a tensor was not taken, because then the model has a part that its settings omit."""
        if self._tensors:
            names = ", ".join(sorted(self._tensors)[:5])
            raise ValueError(f"{self._place} has weights that no part of a model of transduce has: {names}")

    def _existing(self, name: str) -> Tensor:
        if name not in self._tensors:
            raise ValueError(f"{self._place} lacks the weights {name}")
        return self._tensors[name]


class ForeignVocabulary(NamedTuple):
    """The tokens of one side, and the rows of the foreign matrices in the order of our ids.

    Our first three ids are padding, BOS and EOS; all other tokens follow. In the foreign model, two of these three
    symbols may be the same token, and there may be no padding symbol.
    """

    rows: tuple[int, ...]  # the row in the foreign matrices for each of our ids
    copies: tuple[int, ...]  # those of our ids that share the row of another id
    names: Mapping[int, str]  # the tokens, by row
    place: str  # the name of the vocabulary in error messages

    @classmethod
    def of(
        cls, ids: Mapping[str, Any], size: int, *, pad: int | None, begin: int, end: int, place: str
    ) -> "ForeignVocabulary":
        """Returns a vocabulary that maps our ids to `size` rows. `ids` maps the tokens to their rows.

        `pad`, `begin` and `end` are the rows of the symbols. If `pad` is None, padding copies the row of EOS. Raises
        ValueError if the row of a token does not exist or belongs to another token, or if there is no unknown token.
        """
        symbols = (end if pad is None else pad, begin, end)
        if not all(0 <= symbol < size for symbol in symbols):
            raise ValueError(f"{place}: the ids of pad, begin and end are {symbols}, and there are {size:,} ids")
        owned = {symbols[END]: END}
        for symbol in (PAD, BEGIN):
            owned.setdefault(symbols[symbol], symbol)
        copies = tuple(symbol for symbol in (PAD, BEGIN) if owned[symbols[symbol]] != symbol)
        names: dict[int, str] = {}
        for token, row in ids.items():
            if type(row) is not int or not 0 <= row < size or row in names:
                raise ValueError(
                    f"{place}: the token {token!a} has the id {row!r}; ids are different numbers, and the model has "
                    f"rows for those below {size:,}"
                )
            names[row] = token
        if UNKNOWN not in ids:
            raise ValueError(f"{place} lacks the token {UNKNOWN}")
        return cls((*symbols, *(row for row in range(size) if row not in owned)), copies, names, place)

    @property
    def size(self) -> int:
        """The number of rows in the foreign matrices."""
        return max(self.rows) + 1

    def matrix(self, foreign: Tensor) -> Tensor:
        """Returns a foreign matrix with its rows in the order of our ids."""
        return foreign[list(self.rows)]

    def bias(self, foreign: Tensor | None) -> Tensor:
        """Returns the readout bias in the order of our ids, lowered by `BELOW` for copied rows.

        If `foreign` is None, the foreign model has no bias, which is equivalent to zeros.
        """
        bias = torch.zeros(len(self.rows)) if foreign is None else foreign[list(self.rows)]
        bias[list(self.copies)] -= BELOW
        return bias

    def sentence_pieces(self, model: bytes) -> SentencePieces:
        """Returns the subwords of a side that uses a SentencePiece model."""
        return self._build(SentencePieces, SentencePieceContent, model=b64encode(model).decode())

    def moses_bpe(self, merges: tuple[tuple[str, str], ...], language: str) -> MosesBpe:
        """Returns the subwords of a side that uses BPE merges and the Moses tokeniser for `language`."""
        return self._build(MosesBpe, MosesBpeContent, merges=merges, language=language)

    def _build(self, subwords_of: Callable[[Content], Built], content: type[Content], **values: Any) -> Built:
        """Builds the subwords of a side. A row without a token gets a subword that occurs in no text.

        Raises ValueError if the subwords are invalid.
        """
        unknown = next(row for row, name in self.names.items() if name == UNKNOWN)
        subwords = tuple(self.names.get(row, f"⟨unused {row}⟩") for row in self.rows[END + 1 :])
        try:
            return subwords_of(content(unknown=self.rows.index(unknown, END + 1), subwords=subwords, **values))
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            raise ValueError(f"{self.place}: {'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None
        except ValueError as error:
            raise ValueError(f"{self.place}: {error}") from None


def take_tables(
    tensors: ForeignTensors,
    vocabularies: tuple[ForeignVocabulary, ForeignVocabulary],
    d_model: int,
    embeddings: Sequence[Sequence[str]],
    readout: Tensor | None,
    bias: Tensor | None,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Takes the embeddings from the tensors. Returns the weights, and the model settings that follow from them.

    `embeddings` has one item for the source and one for the target, or a single item if both sides share an embedding.
    An item lists the names under which the file may contain the embedding. `readout` is the projection before the
    softmax, or None if the target embedding is used. `bias` is the bias of the readout, if it has one.
    """
    weights = {
        f"{side}_embedding.weight": vocabulary.matrix(tensors.take_equal(names, vocabulary.size, d_model))
        for side, vocabulary, names in zip(("source", "target"), vocabularies, embeddings, strict=False)
    }
    if readout is not None:
        weights["readout.weight"] = vocabularies[1].matrix(readout)
    weights["readout.bias"] = vocabularies[1].bias(bias)
    return weights, {
        "embeddings": "shared" if len(embeddings) == 1 else "separate",
        "readout": {"kind": "tied" if readout is None else "separate", "bias": True},
    }


def nearest_decoding(beam: Any, exponent: Any, place: str) -> Decoding:
    """Returns the search settings that come closest to those of the foreign program.

    Marian, fairseq and Hugging Face divide the log-probability of a translation by length^exponent. Raises ValueError,
    naming `place`, if a value is out of range.
    """
    in_range = isinstance(exponent, int | float) and 0 <= exponent <= LARGEST_POWER
    values = {"beam": beam, "length_penalty": length_penalty_of_power(exponent) if in_range else exponent}
    return validated(Decoding, values, place=place)


def take_model(
    tensors: ForeignTensors,
    settings: Mapping[str, Any],
    sizes: Mapping[str, int],
    spec: Mapping[str, Any],
    activation: str,
    names: LayerNames,
    place: str,
) -> tuple[Transformer, dict[str, Tensor]]:
    """Takes the weights of all layers, and checks that no tensor is left. Returns our model's settings and weights.

    `settings` are the foreign settings, of which only the dropout rates are read. `spec` contains those of our settings
    that do not follow from `sizes`. Raises ValueError, naming `place`, if the settings are invalid or if the weights do
    not match them.
    """

    def dropout(*names: str) -> float:
        """Returns the first value of the settings `names` that is not zero, or 0 if there is none."""
        values = (settings.get(name) for name in names)
        # A number that is not a probability is returned too, because validation then rejects it and names the setting.
        return next((value for value in values if isinstance(value, int | float) and value), 0.0)

    d_model, heads = sizes["d_model"], sizes["heads"]
    if d_model % heads:
        raise ValueError(f"{place}: {heads} heads do not divide a width of {d_model}")
    width = d_model // heads
    attention = {"kind": "attention", "heads": heads, "d_k": width, "d_v": width, "bias": True}
    attention["dropout"] = dropout("attention_dropout", "transformer-dropout-attention")
    network = {"kind": "feed_forward", "d_ff": sizes["d_ff"], "activation": activation}
    network["dropout"] = dropout("activation_dropout", "relu_dropout", "transformer-dropout-ffn")
    values = {
        "kind": "transformer",
        "d_model": d_model,
        "encoder_layers": sizes["encoder_layers"],
        "decoder_layers": sizes["decoder_layers"],
        "mixer": attention,
        "cross": attention,
        "feed_forward": network,
        "dropout": dropout("dropout", "transformer-dropout"),
        **spec,
    }
    model = validated(Transformer, values, place=place)
    parts: dict[str, list[Tensor]] = {}
    for ours, _, _, theirs, shape in layer_weights(model, names):
        # Old fairseq models store W^Q, W^K and W^V in one matrix.
        joined = theirs.replace("q_proj.", "in_proj_")
        if joined != theirs and joined in tensors:
            tensors.split(joined, [theirs.replace("q_proj", f"{letter}_proj") for letter in "qkv"], shape)
        if not names.is_transposed:
            tensor = tensors.take(theirs, *shape)
        elif len(shape) == 1:
            tensor = tensors.take(theirs, 1, *shape)[0]
        else:
            tensor = tensors.take(theirs, *shape[::-1]).T
        parts.setdefault(ours, []).append(tensor)
    tensors.finish()
    return model, {ours: torch.cat(tensors_of_name).contiguous() for ours, tensors_of_name in parts.items()}
