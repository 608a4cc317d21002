"""Reads the model in a model directory, and checks its settings, weights and subwords."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load
from torch import Tensor

from transduce.model.model_spec import CustomModel, ModelBuilder
from transduce.model.transformer import TransformerModel
from transduce.model.translation_model import TranslationModel, Vocabulary, build_without_weights
from transduce.model_directory.config import Config, parse_config
from transduce.model_directory.manifest import CONFIG, MANIFEST, WEIGHTS, read_checked
from transduce.settings import from_satellite
from transduce.text.subwords import Subwords
from transduce.text.symbol_vocabulary import SymbolVocabulary
from transduce.text.token_vocabulary import TokenVocabulary, parse_vocabulary, subwords_files, target_side


class Model(NamedTuple):
    """A model that was read from a model directory, with its settings and vocabularies."""

    config: Config
    module: TranslationModel
    source: TokenVocabulary
    target: TokenVocabulary

    @classmethod
    def read(cls, directory: Path, build: ModelBuilder | None = None) -> "Model":
        """Reads the model in `directory`, and returns it on the CPU, in evaluation mode.

        `build` is the function that builds a custom model; it is ignored for all other models. Raises ValueError if the
        directory contains no model or a damaged one, or if the model is custom and `build` is None.
        """
        contents = read_checked(directory)
        config = parse_config(contents[CONFIG], directory)
        if isinstance(config.model, CustomModel) and build is not None:
            # A custom model is built with storage, because it may have buffers, which the weights file does not store.
            module = config.model.with_builder(build).build(config.vocabulary)
        else:
            module = build_without_weights(config.model, config.vocabulary)
        weights = _tensors(contents[WEIGHTS], directory / WEIGHTS)
        _fill(module, weights)
        _check_finite(weights, directory / WEIGHTS)
        source, target = _sides(contents, directory)
        if config.vocabulary != Vocabulary(source=source.size, target=target.size):
            raise ValueError(
                f"{directory}: {CONFIG} and the subwords are of different models: {CONFIG} has "
                f"{config.vocabulary.source:,} and {config.vocabulary.target:,} ids, the subwords {source.size:,} and "
                f"{target.size:,}; take all files from one model"
            )
        set_word_flags(module, source, target)
        return cls(config, module.eval(), source, target)

    @staticmethod
    def read_config(directory: Path) -> Config:
        """Reads only the settings of the model in `directory`, and checks them."""
        return parse_config(read_checked(directory, only=CONFIG)[CONFIG], directory)


def _tensors(content: bytes, path: Path) -> dict[str, Tensor]:
    """Parses the content of a safetensors file; raises ValueError if that is impossible."""
    try:
        tensors: dict[str, Tensor] = load(content)
    except Exception as error:  # the library raises its own exceptions, and various others for an invalid header
        raise ValueError(f"{path} holds no weights ({error}); take it from a backup, or train again") from None
    return tensors


def _sides(contents: Mapping[str, bytes], directory: Path) -> tuple[TokenVocabulary, TokenVocabulary]:
    """Parses the subwords of the source and the target side, which may share one file."""
    shared = subwords_files(shared=True)[0] in contents
    names = dict.fromkeys(subwords_files(shared=shared))
    if missing := [name for name in names if name not in contents]:
        raise ValueError(f"{directory / MANIFEST} is damaged: it does not list {', '.join(missing)}")
    sides = [parse_vocabulary(contents[name], place=str(directory / name)) for name in names]
    return sides[0], target_side(sides[0]) if shared else sides[1]


def _fill(module: TranslationModel, weights: Mapping[str, Tensor]) -> None:
    """Assigns weights to the parameters of a model without storage; shared parameters remain shared.

    Raises ValueError if the names, shapes or types of the weights differ from those of the parameters.
    """
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    if {name: (tensor.shape, tensor.dtype) for name, tensor in weights.items()} != {
        name: (parameter.shape, parameter.dtype) for name, parameter in module.named_parameters()
    }:
        raise ValueError(f"{WEIGHTS} does not hold the weights that {CONFIG} describes")
    filled = {name: torch.nn.Parameter(tensor) for name, tensor in weights.items()}
    for submodule in module.modules():
        for name, parameter in list(submodule.named_parameters(recurse=False)):
            setattr(submodule, name, filled[names[id(parameter)]])


def _check_finite(weights: Mapping[str, Tensor], path: Path) -> None:
    """Raises ValueError if any weight is infinite or NaN, because the model would then generate nonsense."""
    for name, tensor in weights.items():
        # The sum is checked first, because it is finite only if all terms are, and takes an eighth of the time of
        # `isfinite`.
        if not tensor.sum().isfinite() and (count := int((~tensor.isfinite()).sum())):
            raise ValueError(
                f"{path}: {count:,} of the {tensor.numel():,} weights of {name} are infinite or NaN; take it from a "
                "backup, or train again"
            )


def set_word_flags(module: TranslationModel, source: TokenVocabulary, target: TokenVocabulary) -> None:
    """Marks the source tokens that begin a word and the part-of-speech tags in a model with `next_word`.

    Does nothing for other models. Raises ValueError if the vocabularies are not those of a parser.
    """
    if not isinstance(module, TransformerModel) or module.next_word is None:
        return
    if not isinstance(source, Subwords) or not isinstance(target, SymbolVocabulary):
        raise ValueError("`model.next_word` is for parsers: set it to false")
    is_tag: Callable[[SymbolVocabulary], NDArray[np.bool_]] = from_satellite("transduce.parsing.tree_symbols:is_tag")
    module.next_word.set_flags(torch.from_numpy(source.begins_word), torch.from_numpy(is_tag(target)))


def weights_of(module: torch.nn.Module) -> dict[str, Tensor]:
    """Returns copies of the weights on the CPU, by name; a shared weight occurs only once."""
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in module.named_parameters()}
