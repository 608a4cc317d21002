"""Source tags: symbols in the source that are no text, such as the name of the target language at its front.

A tag of a language tells a model of several directions into which language it translates (Ha et al. 2016; Johnson et
al. 2017). A tag of a corpus names the kind of text, such as synthetic text (Caswell et al. 2019). Tags are ids of the
source vocabulary. Their brackets are not letters of the byte alphabet, so that no text is encoded as a tag.
"""

import re
from collections.abc import Iterable

NAME = r"^[^\s⟨⟩]{1,100}$"
"""Pattern of the names of tagged languages and corpora."""

LANGUAGE, CORPUS = "to:", "tag:"
SUBWORD = re.compile(rf"⟨((?:{LANGUAGE}|{CORPUS})[^\s⟨⟩]+)⟩")


def language_tag(language: str) -> str:
    """Returns the tag of a target language."""
    return LANGUAGE + language


def corpus_tag(name: str) -> str:
    """Returns the tag of corpora with the key `tag`."""
    return CORPUS + name


def subword_of_tag(tag: str) -> str:
    """Returns a tag as the vocabulary spells it."""
    return f"⟨{tag}⟩"


def tag_of_subword(subword: str) -> str | None:
    """Returns the tag that a subword of the vocabulary spells; None for any other subword."""
    match = SUBWORD.fullmatch(subword)
    return match[1] if match else None


def tagged_languages(tags: Iterable[str]) -> list[str]:
    """Returns the target languages that have a tag, in the order of `tags`."""
    return [tag.removeprefix(LANGUAGE) for tag in tags if tag.startswith(LANGUAGE)]


def corpus_tags(tags: Iterable[str]) -> list[str]:
    """Returns the names of the tags of corpora, in the order of `tags`."""
    return [tag.removeprefix(CORPUS) for tag in tags if tag.startswith(CORPUS)]
