"""Recipes: accepted settings, and the messages for all others."""

import os

import pytest

from transduce.corpus.corpus_kinds import Embedded
from transduce.recipe.recipe import Recipe, dump, load

TRAIN = "data: {train: {source: a.en, target: a.de}}\n"


@pytest.fixture
def write_recipe(tmp_path):
    """Returns a function that writes a recipe: a minimal one and additional lines."""

    def write(text="", first=TRAIN):
        path = tmp_path / "recipe.yaml"
        path.write_text(first + text, "utf-8")
        return path

    return write


def refusal(path, *changes):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the caller checks the message
        load(path, changes)
    return str(caught.value)


def test_a_minimal_recipe_trains_the_papers_base(write_recipe):
    recipe = load(write_recipe())
    assert recipe.model.d_model == 512
    assert (recipe.training.steps, recipe.training.batch_tokens, recipe.training.schedule.warmup) == (
        100_000,
        25_000,
        4000,
    )
    assert (recipe.decoding.beam, recipe.decoding.length_penalty, recipe.decoding.extra_length) == (4, 0.6, 50)
    assert (recipe.subwords.kind, recipe.subwords.shared) == ("bpe", True)


def test_paths_are_relative_to_the_recipe(write_recipe, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    recipe = load(
        write_recipe(
            first="data:\n  train: [{tsv: ../b.tsv}, {source: a.en, target: /c/a.de}]\n  test: {one: {tsv: t.tsv}}\n"
        )
    )
    first, second = recipe.data.train
    assert first.tsv == str(tmp_path.parent / "b.tsv")
    assert (second.source, second.target) == (str(tmp_path / "a.en"), "/c/a.de")
    assert recipe.data.test["one"].tsv == str(tmp_path / "t.tsv")


def test_paths_of_a_change_are_relative_to_the_working_directory(write_recipe, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    recipe = load(write_recipe(), ["data.validation={source: v.en, target: ../v.de}"])
    assert recipe.data.validation.source == str(tmp_path / "elsewhere" / "v.en")
    assert recipe.data.validation.target == str(tmp_path / "v.de")


def test_a_change_replaces_a_corpus_of_any_kind(write_recipe):
    corpora = "  validation: {source: v.en, target: v.de}\n  test: {one: {embedded: test}, two: {tsv: two}}\n"
    path = write_recipe(first=f"data:\n  train: {{source: a.en, target: a.de}}\n{corpora}")
    data = load(path, ["data.validation={embedded: validation}", "data.test.two={embedded: novel}"]).data
    assert data.validation == Embedded(embedded="validation")
    assert {name: corpus.as_dictionary()["embedded"] for name, corpus in data.test.items()} == {
        "one": "test",
        "two": "novel",
    }
    assert load(path, ["data.test={}"]).data.test == {}
    assert load(path, ["data.train={embedded: train}"]).data.train[0].as_dictionary()["embedded"] == "train"
    assert load(path, ["data.max_length=99"]).data.validation is not None
    assert (
        load(path, ["data.validation.source=other.en"]).data.validation.as_dictionary()["source"].endswith("other.en")
    )


def test_variables_of_the_environment(write_recipe, monkeypatch):
    monkeypatch.setenv("SOMEWHERE", "/data/here")
    path = write_recipe(first="data: {train: {source: '${SOMEWHERE}/a.en', target: '${SOMEWHERE}/${TO}.de'}}")
    monkeypatch.setenv("TO", "b")
    assert load(path).data.train[0].target == "/data/here/b.de"
    assert load(path, ["data.train={tsv: '${SOMEWHERE}/c.tsv'}"]).data.train[0].tsv == "/data/here/c.tsv"
    monkeypatch.delenv("TO")
    message = refusal(path)
    assert str(path) in message
    assert "${TO}" in message
    assert "export TO=" in message


def test_changes_are_yaml_and_may_be_nested(write_recipe):
    changes = [
        "training.steps=2000",
        "training.schedule={kind: inverse_square_root, peak: 5e-3}",
        "training.schedule.warmup=70",
        "training.average=null",
        "training.optimiser={kind: adam, betas: [0.9, 0.99]}",
        "training.save_every=10 min",
        "data.source_language=no",
        "model.preset=tiny",
    ]
    recipe = load(write_recipe("training: {steps: 5, seed: 4}\n"), changes)
    training = recipe.training
    assert (training.steps, training.seed, training.average, training.save_every) == (2000, 4, None, "10 min")
    assert (training.schedule.peak, training.schedule.warmup) == (0.005, 70)
    assert training.optimiser.betas == (0.9, 0.99)
    assert recipe.data.source_language == "no"
    assert recipe.model.d_model == 128


@pytest.mark.parametrize(
    "change", ["training.steps", "=3", "training..steps=3", ".steps=3", "training.steps=[1", "training.steps="]
)
def test_malformed_changes(write_recipe, change):
    message = refusal(write_recipe(), change)
    assert f"--set {change}" in message


def test_yaml_is_1_2(write_recipe):
    recipe = load(
        write_recipe(
            "model: {preset: tiny}\ntraining: {schedule: {peak: 5e-3}}\n",
            "data: {train: {source: a, target: b}, source_language: no, test: {on: {tsv: off}}}\n",
        )
    )
    assert recipe.training.schedule.peak == 0.005
    assert (recipe.data.source_language, list(recipe.data.test)) == ("no", ["on"])


def test_a_preset_and_changes_to_it(write_recipe):
    recipe = load(write_recipe("model: {preset: tiny, dropout: 0.2, mixer: {heads: 2}, positions: {kind: learned}}\n"))
    assert (recipe.model.dropout, recipe.model.d_model, recipe.model.positions.max_positions) == (0.2, 128, 512)
    assert (recipe.model.mixer.heads, recipe.model.mixer.d_k, recipe.model.cross.heads) == (2, 32, 4)
    # The recipe's training settings are merged over those of the preset.
    assert (recipe.training.schedule.peak, recipe.training.batch_tokens) == (5e-3, 2048)
    recipe = load(
        write_recipe("model: {preset: tiny}\ntraining: {batch_tokens: 900, schedule: {kind: paper, warmup: 9}}\n")
    )
    assert (recipe.training.batch_tokens, recipe.training.schedule.warmup, recipe.training.steps) == (900, 9, 16_000)


def test_a_test_set_cannot_hide_the_validation_corpus(write_recipe):
    test = "test: {validation: {embedded: test}}"
    message = refusal(write_recipe("", f"data: {{train: {{embedded: train}}, {test}}}\n"))
    assert "`validation` is the name of `data.validation`" in message


def test_a_dump_loads_as_the_same_recipe(write_recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("SOMEWHERE", "/data/hère")
    path = write_recipe(
        "model: {preset: released-2017}\ntraining: {optimiser: {epsilon: 1e-12}, clip: 0.1}\n",
        "data: {train: [{source: '${SOMEWHERE}', target: b, weight: 2.0}], test: {x: {embedded: test}}}\n",
    )
    recipe = load(path)
    (tmp_path / "sub").mkdir()
    again = tmp_path / "sub" / "dumped.yaml"
    again.write_text(dump(recipe), "utf-8")
    monkeypatch.delenv("SOMEWHERE")
    assert load(again) == recipe
    assert "/data/hère" in dump(recipe)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("trainig: {steps: 3}\n", ["`trainig`", "did you mean `training`"]),
        ("training: {step: 3}\n", ["`training.step`", "did you mean `training.steps`"]),
        ("training: {beam: 3}\n", ["`training.beam`", "did you mean `decoding.beam`?"]),
        ("decoding: {warmup: 3}\n", ["`decoding.warmup`", "`training.schedule.warmup`?"]),
        ("model: {preset: tiny, mixer: {d_v: 3, dk: 4}}\n", ["`model.mixer.dk`", "did you mean `model.mixer.d_k`"]),
        ("training: {schedule: {kind: paper, peak: 3.0}}\n", ["`training.schedule.peak`"]),
        ('training: {steps: "4"}\n', ["`training.steps`", '"4"', "a whole number"]),
        ("training: {steps: 0}\n", ["`training.steps`", "0", "write at least 1"]),
        ("training: {save_every: 10 minutes}\n", ["`training.save_every`", '"10 min"']),
        ("training: {save_every: ² min}\n", ["`training.save_every`", '"10 min"']),
        (f"training: {{save_every: {'9' * 400} min}}\n", ["`training.save_every`", '"10 min"']),
        ("training: {schedule: {kind: polynomial}}\n", ["polynomial", "paper", "inverse_square_root"]),
        ("training: {precision: float8}\n", ["`training.precision`", "float8", "bfloat16"]),
        ("model: {preset: bas}\n", ["no preset `bas`", "did you mean `base`", "released-2017"]),
        ("model: {preset: 3}\n", ["no preset `3`"]),
        ("model: {d_model: 7}\n", ["`model.d_model`", "7"]),
        ("model: {symbols: {pad: 3}}\n", ["model.symbols", "pad 0"]),
        ("training: {micro_batches: 0}\n", ["`training.micro_batches", "0"]),
        ("training: {optimiser: {betas: [0.9, 1.5]}}\n", ["betas", "1.5"]),
        ("model: tiny\n", ["model", "preset"]),
        ("model: []\n", ["model", "preset"]),
        ("model: false\n", ["model", "preset"]),
        ("subwords: {kind: bpe, size: 10}\n", ["`subwords.size`", "10"]),
        ("model: {dropout: 0}\ntraining: {regulariser: {kind: r_drop}}\n", ["two passes", "set `model.dropout`"]),
    ],
)
def test_a_message_names_the_key_and_the_remedy(write_recipe, text, parts):
    path = write_recipe(text)
    message = refusal(path)
    assert message.startswith(str(path))
    assert [part for part in parts if part not in message] == [], message


@pytest.mark.parametrize(
    ("first", "parts"),
    [
        ("training: {}\n", ["data"]),
        ("data: {train: {source: a}}\n", ["target"]),
        ("data: {train: []}\n", ["`data.train`"]),
        ("- data\n- model\n", ["`data:`"]),
        ("", ["`data:`"]),
        ("data: {train: {tsv: a}}\ntraining:\n  seed: 1\n  steps: 3\n  steps: 4\n", ["steps", "keep one"]),
        ("data: {train: [a\nb: 3\n", ["not YAML", "line 2"]),
        ("data: [\t}\n", ["not YAML"]),
        ("data: {train: {source: ${DATA}/a, target: b}}\n", ["not YAML", 'put "${NAME}" into quotes']),
        ("data:\n  train: {tsv: a}\n  hub: ${A}\nmodel: [}\n", ["not YAML", "line 4: ", "'}')"]),
    ],
)
def test_files_without_a_valid_recipe(write_recipe, first, parts):
    path = write_recipe(first=first)
    message = refusal(path)
    assert message.startswith(str(path))
    assert [part for part in parts if part not in message] == [], message


def test_paths_without_a_readable_file(tmp_path):
    assert f"there is no recipe {tmp_path / 'x.yaml'}" in refusal(tmp_path / "x.yaml")
    assert f"{tmp_path} is a directory" in refusal(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert f"{tmp_path / 'pipe'} is a pipe; write" in refusal(tmp_path / "pipe")
    (tmp_path / "latin.yaml").write_bytes("data: {train: {tsv: naïve}}".encode("latin-1"))
    assert "latin.yaml is not YAML" in refusal(tmp_path / "latin.yaml")


@pytest.mark.parametrize("changes", ["training.steps=3", {"training.steps": 3}])
def test_changes_are_a_list(write_recipe, changes):
    with pytest.raises(TypeError, match=r"give a list of KEY=VALUE, such as \['training.steps=1000'\]"):
        Recipe.load(write_recipe(), changes)
