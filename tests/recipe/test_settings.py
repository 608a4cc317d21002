"""Merging of settings, and the messages about faulty ones."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError, field_validator, model_validator

from transduce.settings import Spec, merged, validated


class Square(Spec):
    kind: Literal["square"] = "square"
    side: float = Field(gt=0)


class Circle(Spec):
    kind: Literal["circle"] = "circle"
    radius: float = 1.0
    filled: bool = False


class Frame(Spec):
    width: int = 1
    colour: str | None = None


class Ink(Spec):
    ink: str


class Chalk(Spec):
    chalk: str
    soft: bool = False


class Drawing(Spec):
    title: str
    medium: Ink | Chalk | None = None
    named: dict[str, Frame] = Field(default_factory=dict)
    every: int | str = 1
    copies: int = Field(default=1, ge=1)
    shape: Annotated[Square | Circle, Field(discriminator="kind")] = Circle()
    frame: Frame = Frame()
    frames: tuple[Frame, ...] = ()

    @field_validator("title")
    @classmethod
    def _has_letters(cls, title: str) -> str:
        if not title.strip():
            raise ValueError("must not be blank")
        return title

    @model_validator(mode="after")
    def _fits(self) -> "Drawing":
        if self.copies > 100 and self.frames:
            raise ValueError("so many copies have no frames")
        return self


@pytest.mark.parametrize(
    ("base", "change", "expected"),
    [
        ({"a": 1, "b": 2}, {"b": 3, "c": 4}, {"a": 1, "b": 3, "c": 4}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}, {"a": {"x": 1, "y": 3}}),
        ({"a": {"x": {"p": 1, "q": 2}}}, {"a": {"x": {"q": 3}}}, {"a": {"x": {"p": 1, "q": 3}}}),
        ({"a": {"x": 1}}, {"a": None}, {"a": None}),
        ({"a": {"x": 1}}, {"a": 5}, {"a": 5}),
        ({"a": None}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({"a": [1, 2, 3]}, {"a": [4]}, {"a": [4]}),
        ({"a": 1}, {}, {"a": 1}),
    ],
)
def test_settings_are_merged_key_by_key(base: Any, change: Any, expected: Any) -> None:
    assert merged(base, change) == expected


def test_another_kind_replaces_a_mapping_and_the_same_kind_is_merged() -> None:
    base = {"shape": {"kind": "circle", "radius": 2.0, "filled": True}, "title": "one"}
    another = {"shape": {"kind": "square", "side": 3.0}}
    assert merged(base, another) == {"shape": {"kind": "square", "side": 3.0}, "title": "one"}
    same = {"kind": "circle", "radius": 5.0, "filled": True}
    assert merged(base, {"shape": {"kind": "circle", "radius": 5.0}})["shape"] == same
    assert merged(base, {"shape": {"radius": 5.0}})["shape"] == same
    # A kind also replaces a mapping without a kind, whose variant is unknown.
    assert merged({"shape": {"radius": 2.0}}, another)["shape"] == another["shape"]


def test_merging_changes_neither_argument() -> None:
    base, change = {"a": {"x": 1}}, {"a": {"y": 2}}
    assert merged(base, change) == {"a": {"x": 1, "y": 2}}
    assert (base, change) == ({"a": {"x": 1}}, {"a": {"y": 2}})


def test_valid_settings_become_a_frozen_record_and_a_dictionary_again() -> None:
    values = {"title": "one", "shape": {"kind": "square", "side": 2}, "frames": [{"width": 3}]}
    drawing = validated(Drawing, values, place="here")
    assert drawing == Drawing(title="one", shape=Square(side=2.0), frames=(Frame(width=3),))
    with pytest.raises(ValueError, match="frozen"):
        drawing.copies = 2
    dictionary = drawing.as_dictionary()
    assert dictionary["shape"] == {"kind": "square", "side": 2.0}
    assert dictionary["frame"] == {"width": 1, "colour": None}
    assert validated(Drawing, dictionary, place="here") == drawing


def test_a_record_that_python_makes_is_strict_too() -> None:
    for values in [{"width": "4"}, {"width": 1.0}, {"widht": 4}]:
        with pytest.raises(ValidationError):
            Frame(**values)


def message(values: dict[str, Any]) -> str:
    with pytest.raises(ValueError, match="picture") as caught:
        validated(Drawing, values, place="picture.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"title": "one", "copies": "4"}, 'picture.yaml: `copies` is "4": write a whole number'),
        ({"title": "one", "copies": 1.5}, "picture.yaml: `copies` is 1.5: write a whole number"),
        ({"title": "one", "copies": True}, "picture.yaml: `copies` is true: write a whole number"),
        ({"title": 4}, "picture.yaml: `title` is 4: write a string"),
        ({"title": "one", "copies": 0}, "picture.yaml: `copies` is 0: write at least 1"),
        ({"title": "one", "frame": {"width": None}}, "picture.yaml: `frame.width` is null: write a whole number"),
        ({"title": "one", "frames": [{}, {"width": "2"}]}, 'picture.yaml: `frames.1.width` is "2": write a'),
        (
            {"title": "one", "shape": {"kind": "circle", "filled": "yes"}},
            'picture.yaml: `shape.filled` is "yes": write true or false',
        ),
        ({"title": "one", "named": {"best": {"width": "2"}}}, 'picture.yaml: `named.best.width` is "2": write a'),
        (
            {"title": "one", "every": 1.5},
            "picture.yaml: `every` is 1.5: write a whole number\n`every` is 1.5",
        ),
        ({"title": " "}, "picture.yaml: `title`: must not be blank"),
        ({"title": "one", "copies": 101, "frames": [{}]}, "picture.yaml: so many copies have no frames"),
        ({}, "picture.yaml: `title` is missing"),
        ({"title": "one", "frames": "two"}, 'picture.yaml: `frames` is "two": input should be a valid'),
        ({"title": "one", "shape": {"kind": "square"}}, "picture.yaml: `shape.side` is missing"),
    ],
)
def test_messages_name_the_path_of_a_faulty_or_missing_value(values: dict[str, Any], expected: str) -> None:
    assert message(values).startswith(expected)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"copy": 2}, "unknown key `copy`; did you mean `copies`?"),
        ({"frame": {"widht": 2}}, "unknown key `frame.widht`; did you mean `frame.width`?"),
        ({"shape": {"kind": "circle", "raduis": 2.0}}, "unknown key `shape.raduis`; did you mean `shape.radius`?"),
        ({"frames": [{}, {"widht": 2}]}, "unknown key `frames.1.widht`; did you mean `frames.1.width`?"),
        ({"named": {"best": {"widht": 2}}}, "unknown key `named.best.widht`; did you mean `named.best.width`?"),
        ({"colour": "red"}, "unknown key `colour`; did you mean `frame.colour` or `frames.colour` or `named.colour`?"),
        ({"frame": {"radius": 2.0}}, "unknown key `frame.radius`; did you mean `shape.radius`?"),
        ({"frame": {"title": "two"}}, "unknown key `frame.title`; did you mean `title`?"),
        ({"frame": {"radiuss": 2.0}}, "unknown key `frame.radiuss`; the nearest key elsewhere is `radius`"),
        ({"frame": {"zzz": 2.0}}, "unknown key `frame.zzz`; keys here: width, colour"),
    ],
)
def test_messages_name_the_place_of_an_unknown_key(values: dict[str, Any], expected: str) -> None:
    assert message({"title": "one", **values}) == f"picture.yaml: {expected}"


def test_messages_name_the_kind_of_an_unknown_key() -> None:
    text = message({"title": "one", "shape": {"kind": "circle", "side": 2.0}})
    assert text == "picture.yaml: unknown key `shape.side`; `side` belongs to kind `square`"
    # Keys of another kind are not suggested for a misspelt key.
    text = message({"title": "one", "shape": {"kind": "circle", "sid": 2.0}})
    assert "did you mean" not in text


def test_a_key_may_belong_to_a_variant_without_a_kind() -> None:
    text = message({"title": "one", "medium": {"ink": "blue", "soft": True}}).removeprefix("picture.yaml: ")
    assert "unknown key `medium.soft`; `soft` belongs to another variant of `medium`" in text.split("\n")


def test_messages_name_the_kinds_instead_of_an_unknown_one() -> None:
    text = message({"title": "one", "shape": {"kind": "triangle"}})
    assert '`shape.kind` is "triangle"; kinds: square, circle' in text


def test_every_fault_has_one_line() -> None:
    text = message({"copies": "4", "frame": {"widht": 1}})
    assert text.split("\n") == [
        "picture.yaml: `title` is missing",
        '`copies` is "4": write a whole number',
        "unknown key `frame.widht`; did you mean `frame.width`?",
    ]
