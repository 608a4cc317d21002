"""Chooses the source tags for the direction and the tag that a user requests."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from transduce.model_directory.config import Config
from transduce.text.source_tags import corpus_tag, corpus_tags, language_tag, tagged_languages
from transduce.text.token_vocabulary import TokenVocabulary, ids_of_tags, tags_of


class SourceRequest(NamedTuple):
    """The target language, source language and tag that a user requests; None if the user did not name one."""

    to: str | None = None
    source_language: str | None = None
    tag: str | None = None


class ChosenTags(NamedTuple):
    """The source tags that were chosen for a request.

    `ids` precede the tokens of each source. `target_language` is None if the model has a single direction, and `note`
    is a message to the user or None.
    """

    ids: tuple[int, ...]
    target_language: str | None
    note: str | None


def choose_tags(config: Config, source: TokenVocabulary, request: SourceRequest) -> ChosenTags:
    """Chooses the source tags for a request; `source` is the source vocabulary of the model.

    Raises ValueError if the request names a language or a tag on which the model was not trained. Also raises
    ValueError if it names none although there are several to choose from.
    """
    tags = corpus_tags(tags_of(source))
    tag = _choose_tag(config.tags, tags, request.tag)
    names = [] if tag is None else [corpus_tag(tag)]
    languages = tagged_languages(tags_of(source))
    if not languages:
        _check_single_direction(config, request)
        return ChosenTags(tuple(ids_of_tags(source, names)), None, None)
    target, note = _choose_language(config, languages, request)
    return ChosenTags(tuple(ids_of_tags(source, [language_tag(target), *names])), target, note)


def _choose_language(config: Config, languages: Sequence[str], request: SourceRequest) -> tuple[str, str | None]:
    """Returns the target language for a multi-directional model, and a note if the direction is zero-shot."""
    trained = {(direction.source, direction.target) for direction in config.directions}
    sources = {source for source, _ in trained}
    trained_languages = sources | set(languages)
    if request.source_language is not None and request.source_language not in trained_languages:
        raise ValueError(
            f"source language {request.source_language}: the model was not trained on it; its languages: "
            f"{_list(trained_languages)}"
        )
    if request.to is None:
        possible = _possible_targets(config, request)
        if len(possible) != 1:
            raise ValueError(
                f"the model has several target languages: name one with --to, or `to` in Python: {_list(languages)}"
            )
        return possible.pop(), None
    if request.to not in languages:
        raise ValueError(
            f"target language {request.to}: the model does not write this language; it writes {_list(languages)}"
        )
    if request.source_language is None or (request.source_language, request.to) in trained:
        return request.to, None
    direction, others = f"{request.source_language}-{request.to}", _list(map(str, config.directions))
    return request.to, f"{direction} is zero-shot: the model was trained on {others}"


def target_language_of(config: Config, request: SourceRequest) -> str | None:
    """Returns the language into which a request will be translated, or None if the settings do not determine it."""
    possible = _possible_targets(config, request)
    return request.to or (possible.pop() if len(possible) == 1 else config.target_language)


def _possible_targets(config: Config, request: SourceRequest) -> set[str]:
    """Returns the target languages into which a multi-directional model was trained to translate the source language.

    If the request names no source language, returns all target languages.
    """
    return {pair.target for pair in config.directions if request.source_language in (None, pair.source)}


def _check_single_direction(config: Config, request: SourceRequest) -> None:
    """Raises ValueError if a request names a language other than those of a single-direction model."""
    for option, requested, language, does in (
        ("target language", request.to, config.target_language, "translates into"),
        ("source language", request.source_language, config.source_language, "translates from"),
    ):
        if requested is not None and config.linearisation is not None:
            raise ValueError(f"{option} {requested}: the model parses and does not translate: leave it out")
        if requested is not None and language is None:
            raise ValueError(f"{option} {requested}: the model does not record its languages: leave it out")
        if requested not in (None, language):
            raise ValueError(f"{option} {requested}: the model has one direction and {does} {language}: leave it out")


def _choose_tag(trained: Sequence[str | None], tags: Sequence[str], requested: str | None) -> str | None:
    """Returns the tag for a request, or None if no tag is needed.

    If every training text had a tag, a tag is needed even if the user names none. Raises ValueError if there are then
    several to choose from, or if the requested tag is unknown.
    """
    if requested is not None and requested not in tags:
        remedy = f"its tags: {_list(tags)}" if tags else "it has no tags: leave it out"
        raise ValueError(f"tag {requested}: the model was not trained with this tag; {remedy}")
    if requested is not None or not trained or None in trained:
        return requested
    if len(trained) > 1:
        raise ValueError(
            f"every text of the training had a tag: name one with --tag, or `tag` in Python: {_list(tags)}"
        )
    return trained[0]


def _list(names: Iterable[str]) -> str:
    """Returns the names in alphabetical order, separated by commas."""
    return ", ".join(sorted(names))
