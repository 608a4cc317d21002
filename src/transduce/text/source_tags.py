"""Source tags, which are tokens that precede the source text and give the model additional information.

A language tag tells a model with several directions into which language to translate (Ha et al. 2016; Johnson et al.
2017). A corpus tag indicates the kind of text, for example synthetic text (Caswell et al. 2019). Every tag has an id in
the source vocabulary. The brackets of a tag are not letters of the byte alphabet, so text is never encoded as a tag.
"""

import re
from collections.abc import Iterable

NAME = r"^[^\s⟨⟩]{1,100}$"
"""The pattern that the names of tagged languages and corpora must match."""

LANGUAGE, CORPUS = "to:", "tag:"
SUBWORD = re.compile(rf"⟨((?:{LANGUAGE}|{CORPUS})[^\s⟨⟩]+)⟩")


def language_tag(language: str) -> str:
    """Returns the tag for a target language."""
    return LANGUAGE + language


def corpus_tag(name: str) -> str:
    """Returns the tag for corpora whose key `tag` is `name`."""
    return CORPUS + name


def subword_of_tag(tag: str) -> str:
    """Returns the subword that represents a tag in the vocabulary."""
    return f"⟨{tag}⟩"


def tag_of_subword(subword: str) -> str | None:
    """Returns the tag that a subword of the vocabulary represents, or None if it does not represent a tag."""
    match = SUBWORD.fullmatch(subword)
    return match[1] if match else None


def tagged_languages(tags: Iterable[str]) -> list[str]:
    """Returns the target languages for which there is a tag, in the order of `tags`."""
    return [tag.removeprefix(LANGUAGE) for tag in tags if tag.startswith(LANGUAGE)]


def corpus_tags(tags: Iterable[str]) -> list[str]:
    """Returns the names of the corpus tags among `tags`, in the same order."""
    return [tag.removeprefix(CORPUS) for tag in tags if tag.startswith(CORPUS)]
