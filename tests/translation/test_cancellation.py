"""Translators whose searches stop: the methods that search, batches of all kinds, and translators beside them."""

import pytest

from transduce.search.cancellation import SearchStoppedError, stop_after
from transduce.translation.translator import Translator

LINES = ["cat dog", "the owl saw a mole and an ibis near the lark", "pig"]


def refuse() -> None:
    raise SearchStoppedError("the client has left")


@pytest.fixture(scope="module", params=["float32", "int8"])
def translator(request: pytest.FixtureRequest, fluent) -> Translator:
    return Translator.load(fluent, precision=request.param)


def test_translating_and_scoring_stop_and_the_translator_beside_does_not(translator: Translator) -> None:
    expected = translator.translate_lines(LINES)
    stopped = translator.with_stop_check(refuse)
    for work in (lambda: stopped.translate_lines(LINES), lambda: stopped.score(["owl"], ["lwo"])):
        with pytest.raises(SearchStoppedError, match="the client has left"):
            work()
    assert stopped.translate_lines([""]) == translator.translate_lines([""])  # there is nothing to search
    assert translator.translate_lines(LINES) == expected
    assert translator.with_stop_check(stop_after(3600)).translate_lines(LINES) == expected


def test_searches_with_a_stop_check_take_several_steps_a_call(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Step by step, each step would go through Python and compute the log-probabilities of all tokens."""
    compiled_search = pytest.importorskip("transduce.search.compiled_search")
    if not compiled_search.is_wholly_compiled(translator.torch_engine.current[0]):
        pytest.skip("this processor has no products in int8")
    expected = translator.translate_lines(LINES)
    monkeypatch.delattr(compiled_search, "_search_by_steps")
    assert translator.with_stop_check(stop_after(3600)).translate_lines(LINES) == expected


def test_a_search_stops_within_a_batch(translator: Translator) -> None:
    calls = []

    def stop_at_the_third_step() -> None:
        calls.append(len(calls))
        if len(calls) == 3:
            raise SearchStoppedError("enough")

    with pytest.raises(SearchStoppedError, match="enough"):
        translator.with_stop_check(stop_at_the_third_step).translate_lines(LINES)
    assert len(calls) == 3
