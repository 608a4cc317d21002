"""The languages that a document names, and those of the model."""

from typing import NamedTuple

__all__ = ["DocumentLanguages", "same_language"]


class DocumentLanguages(NamedTuple):
    """Source and target language of the model; None where it does not record them."""

    source: str | None
    target: str | None

    def target_of(self, source: str | None, target: str | None) -> str:
        """Returns the target language of a document that names `source` and `target`.

        Raises ValueError where the document is in another language than the model, or nobody names the target.
        """
        if source and self.source and not same_language(source, self.source):
            raise ValueError(f"the document is in {source}, and the model translates from {self.source}")
        if target and self.target and not same_language(target, self.target):
            raise ValueError(f"the document wants a translation into {target}, and the model writes {self.target}")
        language = target or self.target
        if not language:
            raise ValueError("neither the document nor the model names the target language: write it into the document")
        return language


def same_language(first: str, second: str) -> bool:
    """Returns whether two codes name one language, whatever the country: de-AT is de."""
    codes = [code.lower().replace("_", "-").split("-")[0] for code in (first, second)]
    return codes[0] == codes[1]
