"""Source tags: symbols in the source that are not text, for example the target language at its beginning.

A language tag tells a model with several directions which language to translate into (Ha et al. 2016; Johnson et al.
2017). A corpus tag names the kind of text, for example synthetic text (Caswell et al. 2019). Tags are ids of the source
vocabulary. Their brackets are not letters of the byte alphabet, so no text is encoded as a tag.
"""

import re
from collections.abc import Iterable

NAME = r"^[^\s⟨⟩]{1,100}$"
"""Pattern for the names of tagged languages and corpora."""

LANGUAGE, CORPUS = "to:", "tag:"
SUBWORD = re.compile(rf"⟨((?:{LANGUAGE}|{CORPUS})[^\s⟨⟩]+)⟩")


def language_tag(language: str) -> str:
    """The tag of a target language."""
    return LANGUAGE + language


def corpus_tag(name: str) -> str:
    """The tag of corpora whose key `tag` is `name`."""
    return CORPUS + name


def subword_of_tag(tag: str) -> str:
    """A tag as the vocabulary spells it."""
    return f"⟨{tag}⟩"


def tag_of_subword(subword: str) -> str | None:
    """The tag that a subword of the vocabulary spells; None for any other subword."""
    match = SUBWORD.fullmatch(subword)
    return match[1] if match else None


def tagged_languages(tags: Iterable[str]) -> list[str]:
    """Target languages that have a tag, in the order of `tags`."""
    return [tag.removeprefix(LANGUAGE) for tag in tags if tag.startswith(LANGUAGE)]


def corpus_tags(tags: Iterable[str]) -> list[str]:
    """Names of corpus tags, in the order of `tags`."""
    return [tag.removeprefix(CORPUS) for tag in tags if tag.startswith(CORPUS)]
