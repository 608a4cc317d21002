"""The closed unions of the model, and what every family is told about words."""

from typing import Annotated

from pydantic import Field

from transduce.model.transformer import Symbols, Transformer, Vocabulary

__all__ = ["ModelSpec", "Symbols", "Vocabulary"]

# One member so far: the alias is where a new family is named.
ModelSpec = Annotated[Transformer, Field()]
