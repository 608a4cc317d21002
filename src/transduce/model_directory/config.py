"""The settings of a model, which are stored in the file `config.json` of its model directory."""

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
    """Describes where the weights in `model.safetensors` come from."""

    kind: Literal["averaged", "best", "last", "imported"]
    steps: tuple[int, ...]  # the training steps of the weights, several if they are averaged; empty if imported


class TrainedDirection(Spec):
    """One of several translation directions of a model, and the number of distinct pairs on which it was trained."""

    source: str
    target: str
    pairs: int = Field(ge=0)

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


class Config(Spec):
    """The content of `config.json`, which describes a model and how it was trained."""

    version: Literal[2] = CONFIG_VERSION
    model: ModelSpec
    vocabulary: Vocabulary
    source_language: str | None = None
    target_language: str | None = None
    # The translation directions if there are several; the two languages above are then null.
    directions: tuple[TrainedDirection, ...] = ()
    # The tags of the training corpora, with null for corpora without a tag; empty if no corpus has a tag.
    tags: tuple[str | None, ...] = ()
    linearisation: LinearisationSpec | None = None  # how a parser linearises trees; null for a translation model
    decoding: Decoding = Decoding()
    weights: Weights


def parse_config(content: bytes, directory: Path) -> Config:
    """Parses the content of the file `config.json` in `directory`.

    Raises ValueError if the content is invalid or has an unsupported version.
    """
    place = str(directory / CONFIG)
    values = parse_json(content, place=place)
    check_version(values, CONFIG_VERSION, place=place)
    return validated(Config, values, place=place)
