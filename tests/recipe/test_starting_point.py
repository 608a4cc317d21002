"""A recipe of `data` alone over the settings of a trained model, and what does not fit that model."""

import json
import shutil
from pathlib import Path

import pytest

from transduce.model_directory import Model, weights_of, write_model
from transduce.recipe import Recipe, load
from transduce.recipe.fine_tuning import StartingPoint, check_fits

GOLDEN = Path(__file__).parents[1] / "storage" / "golden-0.1.0"
DATA = "data:\n  train: {source: new.en, target: new.de}\n"  # files that do not exist


@pytest.fixture
def tuned(trained, tmp_path):
    """Returns the recipe of a text and of changes, over the settings of the micro run or of another directory."""

    def resolved(text=DATA, *changes, directory=trained):
        path = tmp_path / "domain.yaml"
        path.write_text(text)
        return load(path, changes, start=StartingPoint.of(directory))

    return resolved


def training_of(recipe):
    return recipe.as_dictionary()["training"]


@pytest.fixture(scope="module")
def bare(trained, tmp_path_factory):
    """The model of the micro run without `recipe.yaml`, as an import has it."""
    model, directory = Model.read(trained), tmp_path_factory.mktemp("bare")
    write_model(directory, model.config, weights_of(model.module), (model.source, model.target), {})
    return directory


def test_a_recipe_of_data_alone_has_the_settings_of_the_model(tuned, trained):
    recipe, before = tuned(), load(trained / "recipe.yaml")
    assert (recipe.model, recipe.subwords, recipe.decoding) == (before.model, before.subwords, before.decoding)
    assert (recipe.data.source_language, recipe.data.target_language) == ("en", "de")
    kept = ("batch_tokens", "micro_batches", "optimiser", "label_smoothing", "clip", "precision", "validate_by")
    assert all(getattr(recipe.training, key) == getattr(before.training, key) for key in kept)
    assert before.data.validation is not None
    assert recipe.data.validation is None


def test_the_duration_is_that_of_a_fine_tuning(tuned):
    training = training_of(tuned())
    # 0.01 · √(4 / 12) at the last of 12 steps, a tenth of it.
    assert training["schedule"] == {"kind": "constant", "warmup": 100, "peak": 0.00058}
    expected = {"steps": None, "minutes": None, "epochs": 10, "patience": None, "average": None, "keep": 5}
    assert training.items() >= {**expected, "validate_every": 100, "save_every": 100, "log_every": 100}.items()
    with_validation = DATA + "  validation: {source: v.en, target: v.de}\n"
    assert tuned(with_validation).training.patience == 10
    assert tuned(with_validation, "training.validate_every=null").training.patience is None


def test_keys_of_the_recipe_and_of_set_win(tuned, trained):
    own = "model: {dropout: 0.3}\ntraining: {schedule: {peak: 2e-5}, epochs: 2, seed: 7}\ndecoding: {beam: 5}\n"
    recipe = tuned(DATA + own, "training.epochs=3", "data.longest=99")
    assert recipe.model.dropout == 0.3
    assert training_of(recipe)["schedule"] == {"kind": "constant", "warmup": 100, "peak": 2e-5}
    assert (recipe.training.epochs, recipe.training.seed) == (3, 7)
    assert (recipe.decoding.beam, recipe.decoding.extra_length, recipe.data.longest) == (5, 4, 99)
    check_fits(StartingPoint.of(trained), recipe)


def test_large_batches_become_smaller(trained, tmp_path, tuned):
    run = shutil.copytree(trained, tmp_path / "large")
    values = json.loads((run / "recipe.yaml").read_text())
    values["training"] |= {"batch_tokens": 25000, "micro_batches": 6}
    rewrite(run, values)
    training = tuned(directory=run).training
    assert (training.batch_tokens, training.micro_batches) == (4096, "auto")


def rewrite(run, values):
    """Writes the recipe of a run; no checksum of it is compared here."""
    (run / "recipe.yaml").write_text(json.dumps(values))


def test_a_model_that_was_fine_tuned_keeps_its_rate(trained, tmp_path, tuned):
    run = shutil.copytree(trained, tmp_path / "again")
    values = json.loads((run / "recipe.yaml").read_text())
    values["training"]["schedule"] = {"kind": "constant", "warmup": 3, "peak": 0.0007}
    rewrite(run, values)
    assert training_of(tuned(directory=run))["schedule"] == {"kind": "constant", "warmup": 100, "peak": 0.0007}


def test_a_model_without_a_recipe_is_enough(bare, trained, tuned):
    assert not (bare / "recipe.yaml").exists()
    recipe, before = tuned(directory=bare), load(trained / "recipe.yaml")
    assert (recipe.model, recipe.decoding) == (before.model, before.decoding)
    assert recipe.subwords.as_dictionary() == {"kind": "bpe", "size": 320, "shared": True, "dropout": 0.0}
    assert recipe.data.source_language == "en"
    # The paper's rate after 100,000 steps at a width of 24, a tenth of it.
    assert training_of(recipe)["schedule"]["peak"] == 6.5e-5
    check_fits(StartingPoint.of(bare), recipe)


def test_a_model_of_version_0_1_is_enough(tuned):
    assert "pieces" in json.loads((GOLDEN / "recipe.yaml").read_text())["training"]
    recipe = tuned(directory=GOLDEN)
    assert recipe.model == Model.read_config(GOLDEN).model
    assert recipe.training.micro_batches == json.loads((GOLDEN / "recipe.yaml").read_text())["training"]["pieces"]


@pytest.mark.parametrize(
    ("key", "written", "fault"),
    [
        ("model", "{d_model: 20}", "`model.d_model` is 24 in it and 20 in the recipe"),
        ("model", "{preset: base}", "`model.encoder_layers` is 2 in it and 6 in the recipe"),
        ("model", "{positions: {layout: halves}}", "`model.positions.layout` is interleaved in it and halves"),
        ("model", "{norm: pre}", "`model.norm` is post in it and pre in the recipe"),
        ("subwords", "{size: 400}", "`subwords.size` is 320 in it and 400 in the recipe"),
        ("subwords", "{kind: wordpiece, size: 600}", "`subwords.kind` is bpe in it and wordpiece in the recipe"),
    ],
)
def test_what_does_not_fit_is_named_by_its_key(tuned, trained, key, written, fault):
    recipe = tuned(f"{DATA}{key}: {written}\n")
    with pytest.raises(ValueError, match="--from: that model does not fit the recipe: ") as raised:
        check_fits(StartingPoint.of(trained), recipe)
    assert fault in str(raised.value)


def test_other_languages_do_not_fit_and_other_regions_do(tuned, trained):
    start = StartingPoint.of(trained)
    check_fits(start, tuned(DATA + "  source_language: en-GB\n"))
    with pytest.raises(ValueError, match=r"`data.target_language` is de in it and fr in the recipe\. Leave these"):
        check_fits(start, tuned(DATA + "  target_language: fr\n"))


def test_another_task_does_not_fit(tuned, trained):
    with pytest.raises(ValueError, match=r"domain.yaml: `data.train` has trees, and the model of --from translates"):
        tuned("data:\n  train: {trees: new.trees}\n")


def test_a_preset_names_the_model_alone(tuned, trained):
    recipe = tuned(DATA + "model: {preset: tiny, dropout: 0.2}\n")
    assert recipe.model.dropout == 0.2
    assert recipe.training.epochs == 10
    assert training_of(recipe)["schedule"]["kind"] == "constant"


def test_old_corpora_are_mixed_in_by_weight(tuned, micro, trained):
    recipe = tuned(DATA + "  keep_old: 0.25\n")
    new, old = recipe.data.train
    assert (Path(new.source).name, new.weight) == ("new.en", 1.0)
    assert (old.source, old.weight) == (str(micro / "train.en"), 0.25)
    assert StartingPoint.of(trained).new_corpora(recipe) == (new,)
    assert "keep_old" not in recipe.as_dictionary()["data"]


@pytest.mark.parametrize("weight", ["0", "-1", "true", "much"])
def test_a_weight_of_old_corpora_is_above_zero(tuned, weight):
    with pytest.raises(ValueError, match=r"`data.keep_old` is .*: write a weight above 0"):
        tuned(f"{DATA}  keep_old: {weight}\n")


def test_old_corpora_must_be_known(tuned, bare, tmp_path):
    with pytest.raises(ValueError, match=r"`data.keep_old` mixes in the corpora of .*, which has no recipe.yaml"):
        tuned(DATA, "data.keep_old=1.0", directory=bare)
    with pytest.raises(ValueError, match=r"`data.keep_old` is for fine-tuning: name a model with --from"):
        load(tmp_path / "domain.yaml", ["data.keep_old=1.0"])


def test_the_recipe_has_the_test_sets_of_both(tuned, micro):
    old = {"source": str(micro / "test.en"), "target": str(micro / "test.de"), "weight": 1.0}
    assert tuned().as_dictionary()["data"]["test"] == {"spare": old}
    recipe = tuned(DATA + "  test: {spare: {source: a.en, target: a.de}, more: {source: b.en, target: b.de}}\n")
    tests = recipe.as_dictionary()["data"]["test"]
    assert tests["old-spare"] == old
    assert [Path(tests[name]["source"]).name for name in ("spare", "more")] == ["a.en", "b.en"]
    same = f"  test: {{spare: {{source: {old['source']}, target: {old['target']}}}}}\n"
    assert tuned(DATA + same).as_dictionary()["data"]["test"] == {"spare": old}


def test_python_loads_a_recipe_over_a_model(trained, tmp_path):
    (tmp_path / "domain.yaml").write_text(DATA)
    recipe = Recipe.load(tmp_path / "domain.yaml", ["training.epochs=4"], start_from=trained)
    assert (recipe.model.d_model, recipe.training.epochs) == (24, 4)
