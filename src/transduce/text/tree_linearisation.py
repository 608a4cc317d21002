"""Settings for writing trees as symbols; `transduce.parsing.tree_symbols` writes and reads the symbols."""

from typing import Annotated, Literal

from pydantic import Field

from transduce.settings import Spec

MIN_EXTRA_LENGTH = 3
"""Tokens that every tree needs besides its words: two symbols of a phrase around all words, and the end symbol."""

Tags = Annotated[
    Literal["predicted", "normalised"],
    Field(description="`normalised` writes XX for every part of speech, so that the model predicts none."),
]


class TopDown(Spec):
    """The opening symbol of a phrase comes before its first part (Vinyals et al. 2015)."""

    kind: Literal["top_down"] = "top_down"
    tags: Tags = "predicted"


class InOrder(Spec):
    """The opening symbol of a phrase comes after its first part (Liu and Zhang 2017)."""

    kind: Literal["in_order"] = "in_order"
    tags: Tags = "predicted"


LinearisationSpec = Annotated[TopDown | InOrder, Field(discriminator="kind")]
