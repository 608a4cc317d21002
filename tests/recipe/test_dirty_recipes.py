"""Malformed recipes: each raises an error that names the file or the key, within seconds."""

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transduce.corpus.readers import read_parallel_text
from transduce.recipe.recipe import Recipe, load
from transduce.run.train import prepare

TRAIN = "data: {train: {tsv: a}}\n"
LEAST = {"data": {"train": {"tsv": "a"}}, "model": {"preset": "tiny"}}
KEYS = [*"data train tsv model preset kind training steps subwords size decoding 3".split(), "", "\ud800"]
NUMBERS = st.one_of(st.integers(), st.floats(), st.sampled_from([10**9, 2**63, 10**400]))
TEXTS = st.sampled_from(["", "tiny", "bpe", "\0", "\ud800", "${HOME}", "1e5", "x" * 999])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)),
    max_leaves=6,
)
PATHS = [
    *"model model.preset model.mixer model.encoder_layers data data.train data.train.tsv data.test.x x".split(),
    *"training training.seed training.schedule training.save_every subwords subwords.size decoding.beam".split(),
]
MARKS = [
    *"{ } [ ] , *a <<: !!set > | ' \" # 0x 1_0 2001-12-14 .nan \t \ufeff \0".split(" "),
    *("- ", "? ", ": ", "a: ", "&a ", "<<: *a", "!x ", "!!int x", "!!bool x", "%YAML 1.1\n", "---\n", "\n", "\n  "),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("dirty") / "recipe.yaml"


def load_or_message(path, content, *changes):
    """Returns the recipe or the error message, which must name the file or the change."""
    path.write_bytes(content)
    began = time.process_time()
    try:
        result = load(path, changes)
    except ValueError as error:
        result = str(error)
    assert time.process_time() - began < 5
    assert isinstance(result, Recipe) or str(path) in result or "--set" in result
    assert isinstance(result, Recipe) or len(result) < 10_000
    return result


@given(place=st.sampled_from(PATHS), value=VALUES)
@example(place="model.preset", value=["tiny"])
@example(place="model", value={"preset": None, "kind": []})
@example(place="training.seed", value=10**400)
def test_any_value_at_any_key_is_accepted_or_named(path, place, value):
    *sections, key = place.split(".")
    values = json.loads(json.dumps(LEAST))
    section = values
    for name in sections:
        section = section.setdefault(name, {})
    section[key] = value
    result = load_or_message(path, json.dumps(values).encode())
    assert isinstance(result, str) or json.dumps(result.as_dictionary(), allow_nan=False)


@given(marks=st.lists(st.sampled_from(MARKS), max_size=8), first=st.sampled_from(["", TRAIN]))
def test_any_yaml_is_a_recipe_or_an_error(path, marks, first):
    load_or_message(path, (first + "".join(marks)).encode())
    load_or_message(path, TRAIN.encode(), "data.test=" + "".join(marks))


@given(content=st.binary(max_size=30))
def test_random_bytes_are_an_error(path, content):
    assert isinstance(load_or_message(path, content), str)


LAUGHS = "".join(f"{name}: &{name} [{', '.join([f'*{other}'] * 10)}]\n" for other, name in zip("abcdefgh", "bcdefghi"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &a [x]\n" + LAUGHS, "unfolds to more than 100,000 values"),
        ("x: &a [*a]\n", "`x.0.0…` is nested deeper than 50 levels"),
        ("x: " + "[" * 5000 + "]" * 5000, "is nested too deep: settings have at most 50 levels"),
        ("".join(" " * level + "a:\n" for level in range(400)), "is nested"),
        ("x: " + "- " * 40_000 + "\n" * 30_000, "has more than 100,000 bytes"),
        ("? [a, b]\n: 3\n", "the top level has the key ('a', 'b'); a key is a string"),
        ("data: {train: {tsv: a, 3: 1, '3': 2}}\n", "`data.train` has the key `3` twice"),
        ("x: !!binary aGVsbG8=\n", "binary' (line 2"),
        ("x: !!set {a, b}\n", "set' (line 2"),
        ("training: {steps: 2001-99-14}\n", '`training.steps` is "2001-99-14": write a whole number'),
        ("training: {steps: " + "9" * 5000 + "}\n", "not YAML: Exceeds the limit"),
        ("training: {seed: " + "9" * 30 + "}\n", "`training.seed` is beyond 9,007,199,254,740,991"),
        ("training: {minutes: .inf}\n", "`training.minutes` is Infinity: input should be a finite number"),
        ("decoding: {length_penalty: .nan}\n", "`decoding.length_penalty` is NaN: input should be a finite number"),
        ('data: {train: {tsv: "a\\0b"}}\n', "`data.train.tsv` holds a NUL character"),
        ('data: {train: {tsv: "a\\ud800"}}\n', "`data.train.tsv` holds a character that UTF-8 cannot encode"),
        ("model: {preset: [tiny]}\n", "there is no preset `['tiny']`"),
        ("model: {preset: tiny, encoder_layers: 1000000}\n", "`model.encoder_layers` is 1000000: write at most"),
        ("data: {train: {tsv: a, weight: 1e300}}\n", "`data.train.weight` is 1e+300: write at most"),
        ("data: {train: [" + "{tsv: 3}, " * 500 + "]}\n", "… and 480 more"),
        ("model: " + "x" * 5000 + "\n", "model"),
        ("training: " + "x" * 5000 + "\n", "…: write keys and values, such as {kind: NAME}"),
    ],
)
def test_recipes_that_once_crashed_or_hung_are_errors(path, text, message):
    first = "" if text.startswith("data") else TRAIN
    assert message in load_or_message(path, (first + text).encode())


@pytest.mark.parametrize(
    "change",
    [
        "training.seed=" + "9" * 5000,
        "training.steps=2001-12-14",
        "x=&a [*a]",
        ".".join("a" * 99) + "=3",
        "x=\udcff",
        "data.train=!!set {a}",
        "model=[[3]]",
    ],
)
def test_changes_that_once_crashed_are_errors(path, change):
    assert isinstance(load_or_message(path, TRAIN.encode(), change), str)


def test_dates_are_strings_and_so_are_numbers_as_names(path):
    recipe = load_or_message(path, b"data: {train: {tsv: a}, test: {2016: {tsv: b}, 2001-12-14: {tsv: 2001-12-14}}}")
    assert isinstance(recipe, Recipe)
    assert list(recipe.data.test) == ["2016", "2001-12-14"]
    assert recipe.data.test["2001-12-14"].tsv == str(path.parent / "2001-12-14")


def test_anchors_and_merge_keys_are_accepted(path):
    recipe = load_or_message(path, b"data: {train: &a {tsv: a}, validation: *a, test: {x: {<<: *a, weight: 2}}}")
    assert isinstance(recipe, Recipe)
    assert recipe.data.validation.tsv == recipe.data.test["x"].tsv == str(path.parent / "a")


@pytest.mark.parametrize(
    ("value", "message"),
    [(b"/\xff", "`data.train.tsv` holds a character that UTF-8 cannot encode"), (b"", None), (b"${X}: [*", None)],
)
def test_variables_with_unusual_contents_are_strings(path, value, message, monkeypatch):
    monkeypatch.setitem(os.environb, b"ODD", value)
    result = load_or_message(path, b"data: {train: {tsv: '${ODD}'}}")
    assert message in result if message else isinstance(result, Recipe)


def test_a_link_to_itself_is_an_error_when_it_is_read(tmp_path):
    link = tmp_path / "loop"
    link.symlink_to("loop")
    recipe = load_or_message(tmp_path / "recipe.yaml", b"data: {train: {tsv: loop}, validation: {tsv: loop}}")
    for read in (lambda: prepare(recipe, tmp_path / "run"), lambda: read_parallel_text(recipe.data.validation)):
        with pytest.raises(OSError, match="symbolic links") as caught:
            read()
        assert caught.value.filename == str(link)


def test_an_endless_recipe_is_an_error():
    with pytest.raises(ValueError, match=r"/dev/zero has more than 100,000 bytes"):
        load(Path("/dev/zero"))
