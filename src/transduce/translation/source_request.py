"""The direction and the tag that a user requests, and the source tags that express them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from transduce.model_directory.config import Config
from transduce.text.source_tags import corpus_tag, corpus_tags, language_tag, tagged_languages
from transduce.text.token_vocabulary import TokenVocabulary, ids_of_tags, tags_of


class SourceRequest(NamedTuple):
    """Target language, source language and tag; None for anything that the user did not name."""

    to: str | None = None
    source_language: str | None = None
    tag: str | None = None


class ChosenTags(NamedTuple):
    """The ids of the tags before each source, the target language if the model has several, and a note for the user."""

    ids: tuple[int, ...]
    target_language: str | None
    note: str | None


def choose_tags(config: Config, source: TokenVocabulary, request: SourceRequest) -> ChosenTags:
    """Chooses the tags for a request; `source` is the source vocabulary.

    Raises ValueError if the request names a language or a tag that the model was not trained on, or if the model has
    several and the request names none.
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
    """Chooses the target language of a model with several directions; adds a note if the direction is zero-shot."""
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
    """Returns the language into which a model translates a request; None if the settings do not decide it."""
    possible = _possible_targets(config, request)
    return request.to or (possible.pop() if len(possible) == 1 else config.target_language)


def _possible_targets(config: Config, request: SourceRequest) -> set[str]:
    """Returns the target languages that a model with several directions was trained on for the request's source."""
    return {pair.target for pair in config.directions if request.source_language in (None, pair.source)}


def _check_single_direction(config: Config, request: SourceRequest) -> None:
    """Raises ValueError if a request names a language that a single-direction model was not trained on."""
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
    """Returns the requested tag; if there is none, the only tag if all training sources had it, else None."""
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
    """Joins names in alphabetical order with commas."""
    return ", ".join(sorted(names))
