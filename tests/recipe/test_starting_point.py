"""A recipe of `data` alone over the settings of a trained model, and what does not fit that model."""

import json
import shutil

import pytest

from transduce.model_directory.config import Config
from transduce.model_directory.model import Model, weights_of
from transduce.model_directory.writing import write_model
from transduce.recipe.recipe import Recipe, load
from transduce.recipe.starting_point import StartingPoint
from transduce.settings import validated
from transduce.text.subword_training import Bpe

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
    # 0.03 · √(4 / 12) at the last of 12 steps, a tenth of it.
    assert training["schedule"] == {"kind": "constant", "warmup": 100, "peak": 0.0017}
    expected = {"steps": None, "minutes": None, "epochs": 10, "patience": None, "average": None, "keep": 5}
    assert training.items() >= {**expected, "validate_every": 100, "save_every": 100, "log_every": 100}.items()
    with_validation = DATA + "  validation: {source: v.en, target: v.de}\n"
    assert tuned(with_validation).training.patience == 10
    assert tuned(with_validation, "training.validate_every=null").training.patience is None


def test_keys_of_the_recipe_and_of_set_win(tuned, trained):
    own = "model: {dropout: 0.3}\ntraining: {schedule: {peak: 2e-5}, epochs: 2, seed: 7}\ndecoding: {beam: 5}\n"
    recipe = tuned(DATA + own, "training.epochs=3", "data.max_length=99")
    assert recipe.model.dropout == 0.3
    assert training_of(recipe)["schedule"] == {"kind": "constant", "warmup": 100, "peak": 2e-5}
    assert (recipe.training.epochs, recipe.training.seed) == (3, 7)
    assert (recipe.decoding.beam, recipe.decoding.extra_length, recipe.data.max_length) == (5, 4, 99)
    StartingPoint.of(trained).check_fits(recipe)


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


def test_after_a_rate_that_ended_at_zero_it_is_a_tenth_of_half_of_the_peak(trained, tmp_path, tuned):
    run = shutil.copytree(trained, tmp_path / "ended")
    values = json.loads((run / "recipe.yaml").read_text())
    values["training"]["schedule"] = {"kind": "wsd", "warmup": 3, "peak": 0.006, "decay": 0.5}
    values["training"]["batch_tokens"] = {"start": 4096, "end": 32768, "steps": 5}
    rewrite(run, values)
    training = training_of(tuned(directory=run))
    assert training["schedule"] == {"kind": "constant", "warmup": 100, "peak": 0.0003}
    assert training["batch_tokens"] == 4096


def test_a_model_without_a_recipe_is_enough(bare, trained, tuned):
    assert not (bare / "recipe.yaml").exists()
    recipe, before = tuned(directory=bare), load(trained / "recipe.yaml")
    assert (recipe.model, recipe.decoding) == (before.model, before.decoding)
    assert recipe.subwords == Bpe(size=320)
    assert recipe.data.source_language == "en"
    # The paper's rate after 100,000 steps at a width of 24, a tenth of it.
    assert training_of(recipe)["schedule"]["peak"] == 6.5e-5
    StartingPoint.of(bare).check_fits(recipe)


@pytest.mark.parametrize(
    ("key", "written", "fault"),
    [
        ("model", "{d_model: 20}", "`model.d_model` is 24 in the model and 20 in the recipe"),
        ("model", "{preset: base}", "`model.encoder_layers` is 2 in the model and 6 in the recipe"),
        ("model", "{positions: {layout: halves}}", "`model.positions.layout` is interleaved in the model and halves"),
        ("model", "{norm: pre}", "`model.norm` is post in the model and pre in the recipe"),
        ("subwords", "{size: 400}", "`subwords.size` is 320 in the model and 400 in the recipe"),
        ("subwords", "{kind: wordpiece, size: 600}", "`subwords.kind` is bpe in the model and wordpiece in the recipe"),
    ],
)
def test_what_does_not_fit_is_named_by_its_key(tuned, trained, key, written, fault):
    recipe = tuned(f"{DATA}{key}: {written}\n")
    with pytest.raises(ValueError, match="--from: that model does not fit the recipe: ") as raised:
        StartingPoint.of(trained).check_fits(recipe)
    assert fault in str(raised.value)


def test_other_languages_do_not_fit_and_other_regions_do(tuned, trained):
    start = StartingPoint.of(trained)
    start.check_fits(tuned(DATA + "  source_language: en-GB\n"))
    with pytest.raises(
        ValueError, match=r"`data.target_language` is de in the model and fr in the recipe\. Leave these"
    ):
        start.check_fits(tuned(DATA + "  target_language: fr\n"))


def test_another_task_does_not_fit(tuned, trained):
    with pytest.raises(ValueError, match=r"domain.yaml: `data.train` has trees, and the model of --from translates"):
        tuned("data:\n  train: {trees: new.trees}\n")


def test_a_preset_names_the_model_alone(tuned, trained):
    recipe = tuned(DATA + "model: {preset: tiny, dropout: 0.2}\n")
    assert recipe.model.dropout == 0.2
    assert recipe.training.epochs == 10
    assert training_of(recipe)["schedule"]["kind"] == "constant"


def test_corpora_and_test_sets_are_those_of_the_recipe_alone(tuned, trained):
    assert load(trained / "recipe.yaml").data.test
    recipe = tuned()
    assert (len(recipe.data.train), recipe.data.validation, recipe.data.test) == (1, None, {})


def test_python_loads_a_recipe_over_a_model(trained, tmp_path):
    (tmp_path / "domain.yaml").write_text(DATA)
    recipe = Recipe.load(tmp_path / "domain.yaml", ["training.epochs=4"], start_from=trained)
    assert (recipe.model.d_model, recipe.training.epochs) == (24, 4)


@pytest.fixture
def variant(trained, tmp_path):
    """Returns a copy of the model with other settings in `config.json` and other data in `recipe.yaml`."""

    def made(data, **config):
        model, run = Model.read(trained), tmp_path / "variant"
        changed = validated(Config, model.config.as_dictionary() | config, place="variant")
        write_model(run, changed, weights_of(model.module), (model.source, model.target), {})
        recipe = json.loads((trained / "recipe.yaml").read_text())
        recipe["data"], recipe["training"]["patience"] = data, None
        rewrite(run, recipe)
        return run

    return made


OLD = {"source": "/old.en", "target": "/old.de"}
NO_LANGUAGES = {"source_language": None, "target_language": None}


def directed(*names):
    directions = [dict(zip(("source", "target"), name.split("-"), strict=True)) | {"pairs": 2} for name in names]
    return {**NO_LANGUAGES, "directions": directions}


@pytest.fixture
def several(variant):
    """A model of both directions between English and German."""
    data = {"source_language": "en", "target_language": "de", "train": [{**OLD, "direction": "both"}]}
    return variant(data, **directed("en-de", "de-en"))


def test_the_direction_of_a_model_of_several_must_be_named(tuned, several):
    recipe = tuned(DATA + "  source_language: de\n  target_language: en\n", directory=several)
    assert [str(one) for one in recipe.data.directions] == ["de-en"]
    StartingPoint.of(several).check_fits(recipe)
    with pytest.raises(ValueError, match=r"has several directions, en-de, de-en: name `data.source_language` and"):
        tuned(directory=several)
    with pytest.raises(ValueError, match="has several directions"):
        tuned(DATA + "  source_language: de\n", directory=several)


def test_validation_sets_of_the_models_own_tags_and_languages_fit(tuned, variant):
    base = {"source_language": "en", "target_language": "de", "train": [{**OLD, "tag": "wsj"}]}
    tagged = variant(base, tags=["wsj"])
    validation = "  validation: {source: v.en, target: v.de, tag: wsj}\n"
    assert tuned(DATA + validation, directory=tagged).data.validation.tag == "wsj"
    with pytest.raises(ValueError, match=r"`data.validation` \(v.en\) has `tag: news`, and the model learns the tags "):
        tuned(DATA + validation.replace("wsj", "news"), directory=tagged)


def test_a_test_set_of_another_direction_of_the_model_fits(tuned, variant):
    data = {"source_language": "en", "target_language": "de", "train": [{**OLD, "direction": "both"}]}
    base = variant(data, **directed("en-de", "de-en", "en-fr"))
    french = "  test: {french: {source: t.en, target: t.fr, source_language: en, target_language: fr}}\n"
    own = "data:\n  train: {source: new.en, target: new.de, direction: both}\n"
    languages = "  source_language: en\n  target_language: de\n"
    data = tuned(own + languages + french, directory=base).data
    assert str(data.direction_of(data.test["french"])) == "en-fr"


def test_a_direction_that_the_model_does_not_have_is_refused(tuned, trained):
    backward = "data:\n  train: {source: new.en, target: new.de, direction: backward}\n"
    with pytest.raises(ValueError, match=r"`data.train` translates de-en, and the model en-de alone"):
        tuned(backward)
    validation = DATA + "  validation: {source: v.en, target: v.de, direction: backward}\n"
    with pytest.raises(ValueError, match=r"`data.validation` \(v.de\) translates de-en, and the model learns en-de"):
        tuned(validation)


def test_a_model_trained_backward_gets_the_same_direction(tuned, variant):
    languages = {"source_language": "en", "target_language": "de"}
    base = {**languages, "train": [{**OLD, "direction": "backward"}], "test": {}}
    run = variant(base, source_language="de", target_language="en")
    own = "data:\n  train: {source: new.en, target: new.de, direction: backward}\n"
    recipe = tuned(own + "  source_language: en\n  target_language: de\n", directory=run)
    assert [str(one) for one in recipe.data.directions] == ["de-en"]
    recipe = tuned(DATA, directory=run)  # the source is German, as the model has it
    assert [str(one) for one in recipe.data.directions] == ["de-en"]
