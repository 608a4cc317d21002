"""The settings of a model directory, `config.json`."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from transduce.model.model_spec import ModelSpec
from transduce.model.translation_model import Vocabulary
from transduce.model_directory.manifest import CONFIG
from transduce.search.beam import Decoding
from transduce.settings import Spec, check_version, parse_json, validated
from transduce.text.tree_linearisation import LinearisationSpec

CONFIG_VERSION: Literal[2] = 2


class Weights(Spec):
    """The kind of weights in `model.safetensors`, and the steps that they come from; an imported model has no steps."""

    kind: Literal["averaged", "best", "last", "imported"]
    steps: tuple[int, ...]


class TrainedDirection(Spec):
    """One of several directions of a model, and the number of distinct pairs that it was trained on."""

    source: str
    target: str
    pairs: int = Field(ge=0)

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


class Config(Spec):
    """The content of `config.json`."""

    version: Literal[2] = CONFIG_VERSION
    model: ModelSpec
    vocabulary: Vocabulary
    source_language: str | None = None
    target_language: str | None = None
    directions: tuple[TrainedDirection, ...] = ()  # if there are several; the languages above are then null
    tags: tuple[str | None, ...] = ()  # of the training corpora; null: a corpus without a tag; empty: no corpus has any
    linearisation: LinearisationSpec | None = None  # of a parser's trees; null for a translation model
    decoding: Decoding = Decoding()
    weights: Weights


def parse_config(content: bytes, directory: Path) -> Config:
    """Parses the content of a `config.json`; raises ValueError if it is damaged or has a different version."""
    place = str(directory / CONFIG)
    values = parse_json(content, place=place)
    check_version(values, CONFIG_VERSION, place=place)
    return validated(Config, values, place=place)
