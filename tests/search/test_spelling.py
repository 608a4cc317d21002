"""The most probable split of a text into subwords, against all splits."""

import pytest

from transduce import Translator
from transduce.search.beam import Decoding
from transduce.search.spelling import Spelling
from transduce.translation import engine as engines
from transduce.translation.search_method import SearchMethod


def all_splits(spelling, text, written=0):
    if written == len(text):
        return [[]]
    return [
        [token, *rest]
        for token in spelling.followers(text, written)
        for rest in all_splits(spelling, text, spelling.written_after(text, written, token))
    ]


def test_followers_and_rivals_by_hand():
    spelling = Spelling([b"", b"", b"", b"a", b"b", b"ab", b"ba", b" a"], end=2)
    assert [spelling.followers(b"aba", written) for written in range(4)] == [[3, 5], [4, 6], [3], [2]]
    assert spelling.rivals([5, 3]) == [[3, 5], [3], [2]]
    assert sorted(all_splits(spelling, b"aba")) == [[3, 4, 3], [3, 6], [5, 3]]
    assert sorted(all_splits(spelling, b" ab")) == [[3, 4], [5], [7, 4]]  # the first space may be missing


@pytest.mark.parametrize("text", ["lwo", "tac", "gip gip", "ung"])
def test_the_most_probable_split_is_found(fluent, monkeypatch, text):
    monkeypatch.setattr(engines, "SPLITS", 64)
    translator = Translator.load(fluent)
    engine = translator.torch_engine
    (source,), (target,) = translator.source.encode(["owl"]), translator.target.encode([text])
    splits = all_splits(engine._spelling, engine._spelling.text_of(target))
    assert len(splits) > 1
    best = max(float(row.sum()) for row in translator.score_tokens([(source, split) for split in splits]))
    assert engine.score_best_split([(source, target)], lambda: None) == pytest.approx([best], abs=1e-4)


def test_a_translation_has_the_score_with_which_it_was_written(fluent):
    """In n-best lists of wide beams many a text is split otherwise than it is encoded."""
    translator = Translator.load(fluent)
    lines = ["owl", "ant bee cat", "gnu hen ibis jay", "pig pig"]
    found = translator.translate_lines(lines, SearchMethod(Decoding(beam=16, length_penalty=0.0), n_best=16))
    pairs = [(line, each) for line, best in zip(lines, found, strict=True) for each in best]
    pairs = [(line, each) for line, each in pairs if "\ufffd" not in each.text]  # which other bytes spell
    encoded = translator.target.encode([each.text for _, each in pairs])
    assert [list(each.tokens) for _, each in pairs] != encoded
    scores = translator.score([line for line, _ in pairs], [each.text for _, each in pairs])
    assert all(score > each.log_probability - 1e-4 for score, (_, each) in zip(scores, pairs, strict=True))
