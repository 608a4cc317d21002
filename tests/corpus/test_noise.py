"""Noise in training pairs: which pairs change, how, and that the rest of a training is the same."""

import re

import numpy as np
import pytest
from pydantic import ValidationError

from transduce.corpus.data_spec import DataSpec
from transduce.corpus.noise import Noise, invented_word, with_copy, with_typos
from transduce.corpus.store.preparation import open_store, prepare
from transduce.text.bpe_dropout import hash_numbers
from transduce.text.subword_training import Bpe

NONE = {"capitals": 0.0, "title": 0.0, "typos": 0.0, "copies": 0.0}


def embedded(**noise):
    corpus = {"embedded": "test", "direction": "both", "tag": "x"}
    data = {"train": corpus, "source_language": "en", "target_language": "de", "max_length": 60}
    return DataSpec.model_validate(data | ({"noise": NONE | noise} if noise else {}))


@pytest.fixture(scope="module")
def texts_of(tmp_path_factory):
    """Returns the texts of an epoch with noise, and those of the store; the directory is opened anew each time."""

    def texts(seed=1, epoch=0, dropout=0.0, **noise):
        name = "-".join(f"{key}{share}" for key, share in noise.items())
        directory = tmp_path_factory.getbasetemp() / f"{name}{dropout}"
        prepared = prepare(embedded(**noise), Bpe(size=600, dropout=dropout), directory, threads=1)
        stores = open_store(directory).train.in_epoch(seed, epoch), prepared.train
        sides = (prepared.source, "source"), (prepared.target, "target")
        for store in stores:
            ids = [[store.sentence(side, number).tolist() for number in range(len(store))] for _, side in sides]
            assert max(map(len, ids[0])) <= prepared.train.max_length
            tags = set(prepared.source.tags.values())
            assert all(set(line[:2]) < tags and not set(line[2:]) & tags for line in ids[0])
        return [
            list(
                zip(
                    *(
                        vocabulary.decode(store.sentence(side, number) for number in range(len(store)))
                        for vocabulary, side in sides
                    ),
                    strict=True,
                )
            )
            for store in stores
        ]

    return texts


def changed(noisy, plain):
    return [(after, before) for after, before in zip(noisy, plain, strict=True) if after != before]


def test_capitals_are_on_both_sides(texts_of):
    pairs = changed(*texts_of(capitals=0.3))
    assert len(pairs) > 50
    assert all(after == (before[0].upper(), before[1].upper()) for after, before in pairs)


def test_title_case_is_on_the_source_alone(texts_of):
    pairs = changed(*texts_of(title=0.3))
    assert len(pairs) > 50
    assert all(after[1] == before[1] and after[0].lower() == before[0].lower() for after, before in pairs)
    assert all(word[:1] == word[:1].upper() for after, _ in pairs for word in after[0].split())


def test_typing_errors_are_in_long_words_of_the_source(texts_of):
    pairs = changed(*texts_of(typos=0.9))
    assert len(pairs) > 50
    for (source, target), (plain, plain_target) in pairs:
        assert target == plain_target
        for word, before in zip(source.split(), plain.split(), strict=True):
            assert word == before or (len(before) >= 4 and word[0] == before[0] and abs(len(word) - len(before)) <= 1)


def test_copies_are_on_both_sides(texts_of):
    pairs = changed(*texts_of(copies=0.3))
    assert len(pairs) > 50
    for after, before in pairs:
        added = [list(side.split()) for side in after]
        for words, plain in zip(added, before, strict=True):
            for word in plain.split():
                words.remove(word)
        assert added[0] == added[1] or sorted(added[0]) == sorted(added[1])
        assert 1 <= len(added[0]) <= 3


def test_an_epoch_depends_on_seed_epoch_and_pair_alone(texts_of):
    noise = {"capitals": 0.2, "title": 0.2, "typos": 0.3, "copies": 0.3}
    first, plain = texts_of(3, 0, **noise)
    assert first == texts_of(3, 0, **noise)[0]
    assert first != texts_of(3, 1, **noise)[0]
    assert first != texts_of(4, 0, **noise)[0]
    with_dropout, _ = texts_of(3, 0, dropout=0.2, **noise)
    same = [ours == theirs for ours, theirs in zip(first, with_dropout, strict=True)]
    assert sum(same) > 0.9 * len(same)  # but for pairs that only one of the two splits makes too long
    assert 0.3 < len(changed(first, plain)) / len(plain) < 0.9


def test_shares_are_as_asked():
    keys = hash_numbers(np.arange(20_000))
    drawn = Noise(capitals=0.1, title=0.2, typos=0.3, copies=0.4).draw(keys)
    assert np.allclose([kind.mean() for kind in drawn], [0.1, 0.2, 0.3, 0.4], atol=0.015)
    assert not np.any(drawn.capitals & drawn.title)
    independent = (drawn.typos & drawn.copies).mean()
    assert independent == pytest.approx(0.12, abs=0.01)
    assert not Noise(**NONE).draw(keys).rows


def draws(seed):
    numbers = iter(hash_numbers(np.arange(1000) + 1000 * seed) / 2.0**64)
    return lambda: float(next(numbers))


def test_invented_words_have_no_space_and_are_of_every_kind():
    words = {invented_word("A man sleeps.", draws(seed)) for seed in range(400)}
    assert len(words) > 300
    assert all(word == word.strip() and len(word.split()) == 1 and word.isprintable() for word in words)
    for kind in (
        "[\U0001f300-\U0001f9ff]",
        "[а-я]{2}",
        "[一-龥]{2}",
        "@.*\\.",
        "https://",
        "_",
        "[A-Z]+-?\\d",
        "^[a-z]+$",
    ):
        assert any(re.search(kind, word) for word in words), kind


def test_small_texts():
    assert with_typos("an ox of 12 €", draws(1)) == "an ox of 12 €"
    for seed in range(50):
        source, target = with_copy(("one", ""), draws(seed))
        assert source.replace("one", "").strip() == target.strip()


def test_subwords_are_learned_from_text_with_capitals(tmp_path):
    size = Bpe(size=600)
    plain, noisy = (
        prepare(data, size, tmp_path / name, threads=1).source
        for name, data in (("plain", embedded()), ("noisy", embedded(capitals=0.3)))
    )
    line = "THE OLD DOG SLEEPS IN THE GARDEN."
    assert len(noisy.encode([line])[0]) < 0.8 * len(plain.encode([line])[0])


def test_another_noise_prepares_anew_and_trees_have_none(tmp_path):
    first = prepare(embedded(typos=0.1), Bpe(size=300), tmp_path, threads=1).fingerprint
    assert prepare(embedded(typos=0.1), Bpe(size=300), tmp_path, threads=1).fingerprint == first
    assert prepare(embedded(typos=0.2), Bpe(size=300), tmp_path, threads=1).fingerprint != first
    with pytest.raises(ValidationError, match="`noise` is for translations"):
        DataSpec.model_validate({"train": {"embedded_trees": "test"}, "noise": {}})
