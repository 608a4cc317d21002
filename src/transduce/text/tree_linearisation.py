"""Settings that determine how trees are written as sequences of symbols.

The module `transduce.parsing.tree_symbols` writes and reads these symbols.
"""

from typing import Annotated, Literal

from pydantic import Field

from transduce.settings import Spec

MIN_EXTRA_LENGTH = 3
"""The minimum number of tokens that a tree has in addition to one part of speech for each word.

They are the opening and the closing symbol of the phrase that contains all words, and EOS.
"""

Tags = Annotated[
    Literal["predicted", "normalised"],
    Field(description="Whether the model predicts parts of speech; `normalised` replaces each of them with XX."),
]


class TopDown(Spec):
    """Writes the opening symbol of a phrase before its first constituent (Vinyals et al. 2015)."""

    kind: Literal["top_down"] = "top_down"
    tags: Tags = "predicted"


class InOrder(Spec):
    """Writes the opening symbol of a phrase after its first constituent (Liu and Zhang 2017)."""

    kind: Literal["in_order"] = "in_order"
    tags: Tags = "predicted"


LinearisationSpec = Annotated[TopDown | InOrder, Field(discriminator="kind")]
