"""Distillation: pairs of a teacher, the recipe of the student, resuming, and what is refused."""

import pytest

from transduce.model_directory.model import Model
from transduce.recipe.distillation import choose_direction, student_recipe
from transduce.recipe.recipe import from_values, read_resolved_recipe
from transduce.translation.translator import Translator

SMALL = ["d_model=16", "encoder_layers=2", "decoder_layers=1", "feed_forward.d_ff=24", "mixer.heads=2", "cross.heads=2"]
STEPS = ["steps=4", "validate_every=2", "batch_tokens=256", "precision=float32", "average=null"]
CHANGES = [
    part
    for change in [*(f"model.{change}" for change in SMALL), *(f"training.{change}" for change in STEPS)]
    for part in ("--set", change)
]


def test_a_student_trains_on_the_translations_of_its_teacher(fluent, tmp_path, command):
    text, out = tmp_path / "mono.en", tmp_path / "student"
    lines = [f"ant {a} {b} ." for a in ("bee", "cat", "dog") for b in ("eel", "fox", "gnu", "hen")]
    text.write_text("".join(f"{line}\n" for line in lines))
    arguments = ["distil", fluent, "--source", text, "--out", out, "--greedy", "--threads", 1, *CHANGES]
    code, printed, error = command(*arguments)
    assert code == 0, error
    assert printed.startswith(f"{out}: 4 steps are done; weights: best of step ")
    pairs = (tmp_path / "student.pairs.tsv").read_text().splitlines()
    translations = map(str, Translator.load(fluent).translate(lines, greedy=True))
    assert pairs == [f"{line}\t{translation}" for line, translation in zip(lines, translations, strict=True)]
    recipe = read_resolved_recipe(out / "recipe.yaml")
    teacher = read_resolved_recipe(fluent / "recipe.yaml")
    assert [corpus.tsv for corpus in recipe.data.train] == [str(tmp_path / "student.pairs.tsv")]
    assert recipe.data.validations == tuple(map(teacher.data.with_direction, teacher.data.validations))
    assert recipe.data.test == {"spare": teacher.data.with_direction(teacher.data.test["spare"])}
    assert recipe.subwords == teacher.subwords
    assert recipe.decoding == teacher.decoding
    assert Model.read_config(out).model.decoder_layers == 1
    again = command(*arguments)
    assert again[0] == 0
    assert "student.pairs.tsv is finished" in again[2]
    assert f"{out} is finished" in again[2]


def recipe_of(**data):
    values = {"data": {"source_language": "en", "target_language": "de", **data}, "model": {"preset": "tiny"}}
    return from_values(values, place="here")


def test_variants_of_a_language_are_told_apart(tmp_path):
    corpora = [{"tsv": f"{name}.tsv", "target_language": f"zh-{name}"} for name in ("Hans", "Hant")]
    teacher = recipe_of(train=corpora, validation=corpora, test={"one": corpora[0], "two": corpora[1]})
    direction = choose_direction(teacher, "zh-Hant", "en")
    assert direction == ("en", "zh-Hant")
    student = student_recipe(teacher, direction, tmp_path / "pairs.tsv", "fast")
    assert [corpus.tsv for corpus in student.data.validations] == ["Hant.tsv"]
    assert list(student.data.test) == ["two"]
    with pytest.raises(ValueError, match="choose one direction"):
        choose_direction(teacher, "zh", None)


def test_a_student_learns_one_direction_of_its_teacher(tmp_path):
    teacher = recipe_of(
        train={"tsv": "train.tsv", "direction": "both", "tag": "news"},
        validation={"tsv": "validation.tsv", "direction": "both", "tag": "news"},
        test={"one": {"tsv": "one.tsv", "direction": "both", "tag": "news"}},
    )
    with pytest.raises(ValueError, match="en-de, de-en: choose one direction with --to and --from"):
        choose_direction(teacher, None, None)
    with pytest.raises(ValueError, match="choose one direction"):
        choose_direction(teacher, "fr", None)
    direction = choose_direction(teacher, "en", None)
    student = student_recipe(teacher, direction, tmp_path / "pairs.tsv", "fast", ["training.steps=7"])
    assert student.data.directions == (direction,)
    assert (student.data.source_language, student.data.target_language) == ("de", "en")
    (validation,) = student.data.validations
    assert student.data.direction_of(validation) == direction
    assert (validation.tsv, validation.direction, validation.tag) == ("validation.tsv", "backward", None)
    assert list(student.data.test) == ["one-de-en"]
    assert (student.training.steps, student.model.encoder_layers, student.model.decoder_layers) == (7, 6, 2)


def test_a_teacher_of_two_vocabularies_has_a_student_of_two(tmp_path):
    values = {
        "data": {"train": {"tsv": "train.tsv"}},
        "subwords": {"kind": "bpe", "size": 300, "shared": False},
        "model": {"preset": "tiny", "embeddings": "separate"},
    }
    teacher = from_values(values, place="here")
    student = student_recipe(teacher, choose_direction(teacher, None, None), tmp_path / "pairs.tsv", "tiny")
    assert (student.subwords, student.model.embeddings) == (teacher.subwords, "separate")
    assert student.data.validation is None


def test_wrong_calls_are_refused_before_anything_is_translated(fluent, tmp_path, command):
    text, out = tmp_path / "mono.en", tmp_path / "student"
    text.write_text("ant bee\n")

    def error_of(*options, teacher=fluent, to=out):
        code, printed, error = command("distil", teacher, "--source", text, "--out", to, *options)
        assert (code, printed) == (2, "")
        assert not list(tmp_path.glob("*.bulk"))
        return error

    assert "there is no preset `quick`" in error_of("--preset", "quick")
    assert "training.step" in error_of("--set", "training.step=3")
    assert "choose one direction" in error_of("--to", "fr")
    occupied = tmp_path / "occupied"
    occupied.mkdir()
    (occupied / "letter.txt").write_text("kept")
    assert "holds no run" in error_of(to=occupied)
    imported = tmp_path / "imported"
    imported.mkdir()
    for path in fluent.iterdir():
        if path.is_file() and path.name != "recipe.yaml":
            (imported / path.name).write_bytes(path.read_bytes())
    assert "translate-corpus --pairs forward" in error_of(teacher=imported)
