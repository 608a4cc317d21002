"""The recipe of a student, which learns from the translations of a teacher (Kim and Rush 2016, sequence level)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transduce.corpus.corpus_kinds import CorpusSpec
from transduce.model_directory.manifest import RECIPE
from transduce.recipe.recipe import Recipe, from_values, read_resolved_recipe
from transduce.text.directions import Direction


def read_teacher_recipe(run: Path) -> Recipe:
    """Reads the recipe of a teacher; raises ValueError if there is none, for example because the model was imported."""
    path = run / RECIPE
    if not path.exists():
        raise ValueError(
            f"{run} has no {RECIPE}, which names validation and test sets: make pairs with `transduce "
            "translate-corpus --pairs forward`, and train a recipe that names them"
        )
    return read_resolved_recipe(path)


def choose_direction(teacher: Recipe, to: str | None, source_language: str | None) -> Direction:
    """Chooses the direction of a teacher that fits `to` and `source_language`, as far as they are given.

    Raises ValueError for a parser, and if none or several of the trained directions fit.
    """
    if teacher.data.tree_linearisation is not None:
        raise ValueError("the teacher is a parser, and students of parsers are not supported: name a translation model")
    requested, trained = Direction(source_language, to), teacher.data.directions
    fitting = [direction for direction in trained if direction.is_same(requested)]
    if len(fitting) > 1:  # variants of a language, for example zh-Hans and zh-Hant
        exact = [
            direction
            for direction in fitting
            if all(code in (None, own) for own, code in zip(direction, requested, strict=True))
        ]
        fitting = exact or fitting
    if len(fitting) != 1:
        listed = ", ".join(map(str, trained))
        raise ValueError(f"the teacher was trained on {listed}: choose one direction with --to and --from")
    return fitting[0]


def student_recipe(
    teacher: Recipe, direction: Direction, pairs: Path, preset: str, changes: Iterable[str] = ()
) -> Recipe:
    """Builds the recipe of a student of `preset` that trains on `pairs`: text and a teacher's translations.

    Validation and test sets of the direction, subwords and decoding are taken from the teacher. Each `KEY=VALUE` of
    `changes` overrides the recipe.
    """
    data = teacher.data

    def is_kept(corpus: CorpusSpec) -> bool:
        own = data.direction_of(corpus)
        return own == direction or (own.is_same(direction) and own not in data.directions)

    def values(corpus: CorpusSpec) -> dict[str, Any]:
        return {**data.with_direction(corpus).as_dictionary(), "tag": None}  # the pairs have no tag

    own_sides = {} if teacher.subwords.shared else {"embeddings": "separate"}
    return from_values(
        {
            "data": {
                "source_language": direction.source,
                "target_language": direction.target,
                "train": [{"tsv": str(pairs)}],
                "validation": [values(corpus) for corpus in data.validations if is_kept(corpus)] or None,
                "test": {name: values(corpus) for name, corpus in data.test.items() if is_kept(corpus)},
                "max_length": data.max_length,
                "ratio": data.ratio,
            },
            "subwords": teacher.subwords.as_dictionary(),
            "model": {"preset": preset, **own_sides},
            "decoding": teacher.decoding.as_dictionary(),
        },
        changes,
        place="the recipe of the student",
    )
