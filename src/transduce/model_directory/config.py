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
    """The kind of weights that `model.safetensors` holds, and the steps that they are from, none where imported."""

    kind: Literal["averaged", "best", "last", "imported"]
    steps: tuple[int, ...]


class TrainedDirection(Spec):
    """One of several directions of a model, and the number of different pairs that it was trained on."""

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
    directions: tuple[TrainedDirection, ...] = ()  # where there are several; then the languages above are null
    tags: tuple[str | None, ...] = ()  # tags of the training corpora where one has a tag; null is a corpus without
    linearisation: LinearisationSpec | None = None  # of the trees that a parser writes; null for a translator
    decoding: Decoding = Decoding()
    weights: Weights


def parse_config(content: bytes, directory: Path) -> Config:
    """Parses the content of a `config.json`; raises ValueError if it is damaged or of another version."""
    place = str(directory / CONFIG)
    values = parse_json(content, place=place)
    check_version(values, CONFIG_VERSION, place=place)
    return validated(Config, values, place=place)
