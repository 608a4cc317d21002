"""Corpora of a model's recipe within the recipe of its fine-tuning: their languages, and the names of test sets."""

from collections.abc import Iterator, Mapping
from typing import Any

from transduce.corpus import is_same_language

__all__ = ["inherited_tests", "without_languages_of"]

Values = dict[str, Any]

LANGUAGES = ("source_language", "target_language")


def without_languages_of(data: Mapping[str, Any], corpus: Mapping[str, Any], *, exact: bool) -> Values:
    """Returns a corpus with null in the place of those languages that the section `data` names too.

    Unless `exact`, a code of another region is the same language.
    """

    def is_redundant(key: str) -> bool:
        own, section = corpus.get(key), data.get(key)
        if key not in LANGUAGES or own is None or section is None:
            return False
        return own == section if exact else is_same_language(own, section)

    return {key: None if is_redundant(key) else value for key, value in corpus.items()}


def inherited_tests(
    tests: Mapping[str, Mapping[str, Any]], own: Mapping[str, Any], data: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """Returns the test sets of the model's recipe that the new recipe does not have, by names that are free.

    `own` are the test sets of the new recipe, and `data` has its languages. A name that the new recipe gives to another
    test set gets `old-` at its front.
    """
    parts = dict(_parts(own, data))
    inherited: dict[str, Mapping[str, Any]] = {}
    for old_name, test in tests.items():
        name = old_name
        while (name in parts or name in own or name in inherited) and not _is_same(parts.get(name), test, data):
            name = f"old-{name}"
        if name not in parts:
            inherited[name] = test
    return inherited


def _parts(tests: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields test sets by name; one of `direction: both` as two, with the languages behind their names."""
    for name, test in tests.items():
        if not isinstance(test, Mapping) or test.get("direction") != "both":
            yield name, test
            continue
        first, second = (test.get(key) or data.get(key) for key in LANGUAGES)
        yield f"{name}-{first}-{second}", {**test, "direction": "forward"}
        yield f"{name}-{second}-{first}", {**test, "direction": "backward"}


def _is_same(written: Any, resolved: Mapping[str, Any], data: Mapping[str, Any]) -> bool:
    """Returns whether a test set as it is written in a recipe is one with all its keys."""
    if not isinstance(written, Mapping):
        return False
    short, whole = (_without_defaults(corpus, data) for corpus in (written, resolved))
    return short.items() <= whole.items() and short.get("direction") == whole.get("direction")


def _without_defaults(corpus: Mapping[str, Any], data: Mapping[str, Any]) -> Values:
    """Returns a corpus without the languages of `data` and without `direction: forward`."""
    values = without_languages_of(data, corpus, exact=True)
    return {key: value for key, value in values.items() if (key, value) != ("direction", "forward")}
