"""A model of one's own and an engine of one's own, by the script `tests/outsider.py`."""

import json

import pytest
from torch import nn

import outsider
from transduce import Recipe, Translator, train
from transduce.model.model_spec import CustomModel
from transduce.model.translation_model import Vocabulary
from transduce.model_directory.model import Model

OWN = {"model": outsider.MeanAndGru, "metric": outsider.first_words}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("outsider")


@pytest.fixture(scope="module")
def answers(folder):
    return outsider.main(folder)


def recipe_of(folder, *changes):
    return Recipe.load(folder / "mine.yaml", changes)


def test_an_outsiders_model_learns_and_translates(answers, folder):
    translation, backwards = answers
    assert translation
    source = Model.read(folder / "run", build=outsider.MeanAndGru).source
    (tokens,) = source.encode(["the old dog sleeps"])
    assert backwards == source.decode([tokens[::-1]])[0]
    records = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text("utf-8").splitlines()]
    first, last = [record["validation_loss"] for record in records if "validation_loss" in record]
    assert last < first < 6  # the logarithm of 400 tokens
    scores = [(record["score"], record["signature"]) for record in records if "score" in record]
    assert len(scores) >= 2
    assert all(score == int(score) and signature == "first_words" for score, signature in scores)
    config = Model.read_config(folder / "run")
    assert (config.model.kind, config.model.name, config.model.d_model) == ("custom", "MeanAndGru", 32)


def test_a_resumed_run_ends_with_the_same_weights(answers, folder, tmp_path):
    recipe = recipe_of(folder)
    for record in train(recipe, tmp_path, device="cpu", **OWN):
        if record.step == 15:
            break
    with pytest.raises(ValueError, match="`MeanAndGru` is custom"):
        next(train(recipe, tmp_path, device="cpu"))
    steps = [record.step for record in train(recipe, tmp_path, device="cpu", **OWN)]
    assert steps == list(range(11, 21))
    assert not list(train(recipe, tmp_path, device="cpu", **OWN))  # it is finished
    weights = [path / "model.safetensors" for path in (tmp_path, folder / "run")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_without_the_function_nothing_reads_the_model(answers, folder):
    with pytest.raises(ValueError, match="`MeanAndGru` is custom, and the function that builds it is not in any file"):
        Translator.load(folder / "run")


def test_what_a_custom_model_lacks_is_refused(answers, folder, micro, tmp_path):
    with pytest.raises(ValueError, match="a custom model cannot be sharded"):
        next(train(recipe_of(folder, "training.parallel=sharded"), tmp_path, **OWN))
    with pytest.raises(ValueError, match="model= is for a recipe with"):
        next(train(Recipe.load(micro / "recipe.yaml"), tmp_path, **OWN))
    spec = CustomModel(name="Mine", d_model=4)
    with pytest.raises(ValueError, match="multiplications of the custom model `Mine` are not known"):
        spec.multiplications(9)

    def with_statistics(vocabulary):
        model = outsider.MeanAndGru(vocabulary)
        model.norm = nn.BatchNorm1d(4)
        return model

    with pytest.raises(ValueError, match=r"`Mine` has buffers, and only parameters are saved: register .*running_mean"):
        spec.with_builder(with_statistics).build(Vocabulary(source=9, target=9))
    assert spec.as_dictionary() == spec.with_builder(with_statistics).as_dictionary()


def test_a_training_by_the_name_of_its_recipe_and_one_that_nobody_reads(micro, tmp_path, caplog):
    (step, *_), before = train(micro / "recipe.yaml", tmp_path / "run", restart=True, report=False), len(caplog.records)
    assert step.step == 1
    train(Recipe.load(micro / "recipe.yaml"), tmp_path / "unread")
    (warning,) = [each for each in caplog.records[before:] if each.levelname == "WARNING" and "only" not in each.msg]
    assert "nothing is trained until its steps are read: `for step in train(…)`" in warning.getMessage()
    assert not (tmp_path / "unread").exists()
    with pytest.raises(ValueError, match=r"there is no recipe .*missing\.yaml"):
        train(tmp_path / "missing.yaml", tmp_path / "unread")


def test_an_unknown_option_of_train_is_named_with_those_there_are(tmp_path):
    with pytest.raises(TypeError, match=r"`train` has no option `devise`; did you mean `device`\? options: device, "):
        train("recipe.yaml", tmp_path, devise="cpu")
