"""Candidates of a suggestion: they fit the corpus, differ in one thing, and keep what a recipe sets."""

import pytest

from transduce.recipe.recipe import from_values
from transduce.suggestion.candidates import (
    candidates,
    may_have_r_drop,
    r_drop_pays,
    subword_count,
    with_checkpoints,
    with_dropout,
    with_r_drop,
)

DATA = {"train": {"tsv": "/none.tsv"}}


@pytest.mark.parametrize(
    ("pairs", "preset", "batch_tokens", "size"),
    [
        (500, "tiny", 2048, 4000),
        (29_000, "tiny", 2048, 10_000),
        (50_000, "small", 4096, 10_000),
        (300_000, "small", 4096, 16_000),
        (4_500_000, "base", 8192, 32_000),
    ],
)
def test_the_first_guess_fits_the_number_of_pairs(pairs, preset, batch_tokens, size):
    first = candidates(pairs, {})[0].values
    assert first["model"]["preset"] == preset
    assert first["training"]["batch_tokens"] == batch_tokens
    assert first["subwords"]["size"] == subword_count(pairs) == size


def differences(first, other, place=()):
    """Returns the keys whose values differ."""
    if not isinstance(first, dict):
        return {place} if first != other else set()
    return set().union(*(differences(first[key], other[key], (*place, key)) for key in first))


@pytest.mark.parametrize("pairs", [500, 300_000, 4_500_000])
def test_neighbours_differ_in_the_size_of_steps_or_of_the_model(pairs):
    first, *others = (candidate.values for candidate in candidates(pairs, {}))
    assert len(others) >= 3
    kinds = [differences(first, other) for other in others]
    assert kinds.count({("training", "batch_tokens")}) == 2
    assert all({("model", "preset")} < kind for kind in kinds if kind != {("training", "batch_tokens")})


@pytest.mark.parametrize("pairs", [500, 300_000, 4_500_000])
def test_every_candidate_is_a_recipe(pairs):
    for candidate in candidates(pairs, {}):
        from_values(
            {**candidate.values, "data": DATA, "training": {**candidate.values["training"], "steps": 5}}, place="x"
        )


def test_what_is_given_stays_and_is_not_varied():
    given = {"model": {"preset": "small", "dropout": 0.17}, "training": {"batch_tokens": 777}}
    (only,) = candidates(29_000, given)
    assert only.values["model"] == {"preset": "small", "dropout": 0.17}
    assert only.values["training"]["batch_tokens"] == 777
    assert len(candidates(29_000, {"training": {"batch_tokens": 777, "schedule": {"kind": "constant"}}})) == 2


def test_a_named_kind_changes_nothing_and_names_say_the_tokens():
    plain, named = (
        candidates(29_000, {"model": model, "training": {"steps": 5}}) for model in ({}, {"kind": "transformer"})
    )
    assert [candidate.name for candidate in named] == [candidate.name for candidate in plain]
    for one, other in zip(plain, named, strict=True):
        models = [from_values({**candidate.values, "data": DATA}, place="r").model for candidate in (one, other)]
        assert models[0] == models[1]
    training = {"training": {"batch_tokens": 1000}}
    assert {candidate.name for candidate in candidates(29_000, training)} == {
        "tiny, 1,000 tokens a step",
        "small, 1,000 tokens a step",
    }


@pytest.mark.parametrize(("preset", "peak"), [("tiny", 5e-3), ("small", 2e-3), ("base", 7e-4)])
def test_the_tokens_of_a_step_alone_differ_where_the_model_is_given(preset, peak):
    found = candidates(29_000, {"model": {"preset": preset}})
    assert [candidate.name for candidate in found] == [
        f"{preset}, {size:,} tokens a step" for size in (2048, 1024, 4096)
    ]
    assert {candidate.values["training"]["schedule"]["peak"] for candidate in found} == {peak}


def test_a_short_training_validates_and_saves_a_few_times():
    values = {"training": {"batch_tokens": 2048}}
    assert with_checkpoints(values, 4000, {}) == values
    short = with_checkpoints(values, 300, {"training": {"save_every": 7}})
    assert short["training"] == {"batch_tokens": 2048, "validate_every": 75, "save_every": 7}


def test_r_drop_is_for_small_corpora_that_are_read_often():
    assert r_drop_pays(29_000, 2048, 9000, 37.2)
    assert not r_drop_pays(29_000, 1024, 9000, 37.2)
    assert not r_drop_pays(29_000, {"start": 2048, "end": 4096, "steps": 100}, 9000, 37.2)
    assert not r_drop_pays(29_000, 2048, 8000, 37.2)
    assert not r_drop_pays(29_000, 2048, 9000, 20.0)
    assert not r_drop_pays(4_500_000, 2048, 100_000, 50.0)


def test_r_drop_is_added_where_the_recipe_leaves_it_open_and_has_dropout():
    assert may_have_r_drop({})
    assert may_have_r_drop({"model": {"dropout": 0.2}, "training": {"steps": 5}})
    assert not may_have_r_drop({"training": {"regulariser": None}})
    assert not may_have_r_drop({"model": {"dropout": 0}})


def test_a_training_of_few_epochs_has_less_dropout():
    first = candidates(29_000, {})[0].values
    assert with_dropout(first, 20.0, {}) == first
    assert with_dropout(first, 19.9, {})["model"]["dropout"] == 0.1
    assert with_dropout(first, 19.9, {"model": {"dropout": 0.25}})["model"]["dropout"] == 0.25


def test_with_r_drop_what_is_given_stays():
    first = candidates(29_000, {})[0].values
    changed = with_r_drop(first, {})
    assert differences(first, {**changed, "training": {**first["training"]}}) == {("model", "dropout")}
    assert changed["training"] == {**first["training"], "regulariser": {"kind": "r_drop", "share": 0.5}}
    assert with_r_drop(first, {"model": {"dropout": 0.25}})["model"]["dropout"] == 0.25
