"""Builds the recipe of a student for sequence-level knowledge distillation (Kim and Rush 2016).

The student is trained on the translations of a teacher.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transduce.corpus.corpus_kinds import CorpusSpec
from transduce.model_directory.manifest import RECIPE
from transduce.recipe.recipe import Recipe, from_values, read_resolved_recipe
from transduce.text.directions import Direction


def read_teacher_recipe(run: Path) -> Recipe:
    """Reads the recipe of a teacher.

    Raises ValueError if the model has no recipe, for example because it was imported.
    """
    path = run / RECIPE
    if not path.exists():
        raise ValueError(
            f"{run} has no {RECIPE}, which names validation and test sets: make pairs with `transduce "
            "translate-corpus --pairs forward`, and train a recipe that names them"
        )
    return read_resolved_recipe(path)


def choose_direction(teacher: Recipe, to: str | None, source_language: str | None) -> Direction:
    """Returns the training direction of a teacher that matches the given source and target languages.

    A language that is None matches any language. Raises ValueError if the teacher is a parser, or if no direction or
    more than one direction matches.
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
    """Builds the recipe of a student that is based on `preset` and trained on `pairs`.

    `pairs` is a TSV file with the sources and a teacher's translations. The subwords, the decoding settings, and the
    validation and test sets for `direction` are copied from the teacher. Each `KEY=VALUE` in `changes` overrides a
    value of the recipe.
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
