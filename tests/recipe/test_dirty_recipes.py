"""Recipes that nobody meant to write: always a message that names the file or the key, and never a long wait."""

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transduce.recipe import Recipe, load
from transduce.trainer.train import prepare
from transduce.trainer.validation import read_parallel_text

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


def loaded(path, content, *changes):
    """The recipe, or what was said of it, which names the file or the change."""
    path.write_bytes(content)
    began = time.process_time()
    try:
        found = load(path, changes)
    except ValueError as error:
        found = str(error)
    assert time.process_time() - began < 5
    assert isinstance(found, Recipe) or str(path) in found or "--set" in found
    assert isinstance(found, Recipe) or len(found) < 10_000
    return found


@given(place=st.sampled_from(PATHS), value=VALUES)
@example(place="model.preset", value=["tiny"])
@example(place="model", value={"preset": None, "kind": []})
@example(place="training.seed", value=10**400)
def test_any_value_at_any_key_is_taken_or_named(path, place, value):
    *sections, key = place.split(".")
    values = json.loads(json.dumps(LEAST))
    section = values
    for name in sections:
        section = section.setdefault(name, {})
    section[key] = value
    found = loaded(path, json.dumps(values).encode())
    assert isinstance(found, str) or json.dumps(found.as_dictionary(), allow_nan=False)


@given(marks=st.lists(st.sampled_from(MARKS), max_size=8), first=st.sampled_from(["", TRAIN]))
def test_any_yaml_is_a_recipe_or_told(path, marks, first):
    loaded(path, (first + "".join(marks)).encode())
    loaded(path, TRAIN.encode(), "data.test=" + "".join(marks))


@given(content=st.binary(max_size=30))
def test_any_bytes_are_told(path, content):
    assert isinstance(loaded(path, content), str)


LAUGHS = "".join(f"{name}: &{name} [{', '.join([f'*{other}'] * 10)}]\n" for other, name in zip("abcdefgh", "bcdefghi"))


@pytest.mark.parametrize(
    ("text", "said"),
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
        ("training: {steps: 2001-99-14}\n", '`training.steps` is "2001-99-14": input should be a valid integer'),
        ("training: {steps: " + "9" * 5000 + "}\n", "no YAML: Exceeds the limit"),
        ("training: {seed: " + "9" * 30 + "}\n", "`training.seed` is beyond 9,007,199,254,740,991"),
        ("training: {minutes: .inf}\n", "`training.minutes` is Infinity: input should be a finite number"),
        ("decoding: {length_penalty: .nan}\n", "`decoding.length_penalty` is NaN: input should be a finite number"),
        ('data: {train: {tsv: "a\\0b"}}\n', "`data.train.tsv` holds a NUL character"),
        ('data: {train: {tsv: "a\\ud800"}}\n', "`data.train.tsv` holds a character that UTF-8 cannot encode"),
        ("model: {preset: [tiny]}\n", "there is no preset `['tiny']`"),
        ("model: {preset: tiny, encoder_layers: 1000000}\n", "`model.encoder_layers` is 1000000: input should be less"),
        ("data: {train: {tsv: a, weight: 1e300}}\n", "`data.train.weight` is 1e+300: input should be less"),
        ("data: {train: [" + "{tsv: 3}, " * 500 + "]}\n", "… and 480 more"),
        ("model: " + "x" * 5000 + "\n", "model"),
        ("training: " + "x" * 5000 + "\n", "…: input should be an object"),
    ],
)
def test_what_once_crashed_or_hung_is_told(path, text, said):
    first = "" if text.startswith("data") else TRAIN
    assert said in loaded(path, (first + text).encode())


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
def test_changes_that_once_crashed_are_told(path, change):
    assert isinstance(loaded(path, TRAIN.encode(), change), str)


def test_dates_are_texts_and_so_are_numbers_as_names(path):
    recipe = loaded(
        path, b"data: {train: {tsv: a}, test: {2016: {tsv: b}, 2001-12-14: {tsv: c}}, source_language: 2001-12-14}"
    )
    assert isinstance(recipe, Recipe)
    assert list(recipe.data.test) == ["2016", "2001-12-14"]
    assert recipe.data.source_language == "2001-12-14"


def test_anchors_and_merge_keys_are_yaml_still(path):
    recipe = loaded(path, b"data: {train: &a {tsv: a}, validation: *a, test: {x: {<<: *a, weight: 2}}}")
    assert isinstance(recipe, Recipe)
    assert recipe.data.validation.tsv == recipe.data.test["x"].tsv == str(path.parent / "a")


@pytest.mark.parametrize(
    ("value", "said"),
    [(b"/\xff", "`data.train.tsv` holds a character that UTF-8 cannot encode"), (b"", None), (b"${X}: [*", None)],
)
def test_variables_with_odd_contents_are_texts(path, value, said, monkeypatch):
    monkeypatch.setitem(os.environb, b"ODD", value)
    found = loaded(path, b"data: {train: {tsv: '${ODD}'}}")
    assert said in found if said else isinstance(found, Recipe)


def test_a_link_to_itself_is_told_when_it_is_read(tmp_path):
    link = tmp_path / "loop"
    link.symlink_to("loop")
    recipe = loaded(tmp_path / "recipe.yaml", b"data: {train: {tsv: loop}, validation: {tsv: loop}}")
    for read in (lambda: prepare(recipe, tmp_path / "run", print), lambda: read_parallel_text(recipe.data.validation)):
        with pytest.raises(OSError, match="symbolic links") as caught:
            read()
        assert caught.value.filename == str(link)


def test_a_recipe_that_never_ends_is_told():
    with pytest.raises(ValueError, match=r"/dev/zero has more than 100,000 bytes"):
        load(Path("/dev/zero"))
