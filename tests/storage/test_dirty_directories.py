"""Changed model directories are refused, and the message names the file."""

import json
import os
import shutil

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save

from transduce.model_directory.manifest import verify
from transduce.model_directory.model import Model
from transduce.model_directory.writing import write_model, write_recipe
from transduce.recipe.corpora_of_run import named_test_set
from transduce.recipe.model_summary import summarise_model
from transduce.run.checkpoints import Checkpoints
from transduce.storage.checksums import checksum_of
from transduce.text.subword_training import Bpe
from transduce.text.subwords import Subwords

FILES = ["config.json", "model.safetensors", "recipe.yaml", "tokenizer.json"]


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "model", ignore=shutil.ignore_patterns("training"))


@pytest.fixture(scope="module")
def shared(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dirty") / "model"
    return shutil.copytree(trained, folder, ignore=shutil.ignore_patterns("training"))


def refusal(read, *arguments):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the caller looks at the message
        read(*arguments)
    return str(caught.value)


def write_with_checksum(run, name, content):
    """Writes a file into a model directory and its checksum into the manifest."""
    (run / name).write_bytes(content)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["files"][name] = checksum_of(content)
    (run / "manifest.json").write_text(json.dumps(manifest))


def edit_json(run, name, path, value):
    """Replaces one value of a JSON file, or removes it where the value is None, and updates the manifest."""
    values = json.loads((run / name).read_text())
    *sections, key = path
    section = values
    for step in sections:
        section = section[step]
    section.pop(key) if value is None else section.update({key: value})
    write_with_checksum(run, name, json.dumps(values).encode())


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "loop", "dangling", "swapped"])
def test_anything_else_in_the_place_of_a_file_is_refused(run, name, kind):
    path = run / name
    path.unlink()
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "loop":
            path.symlink_to(path.name)
        case "dangling":
            path.symlink_to("nowhere")
        case "swapped":
            shutil.copy(run / "README.md", path)
    assert name in refusal(Model.read, run)
    if name != "manifest.json":
        assert [fault.split()[0] for fault in verify(run)] == [name]
        if name == "config.json":
            assert name in refusal(summarise_model, str(run))
        else:
            assert summarise_model(str(run))


@pytest.mark.parametrize(
    "files", [[], {}, 3, {"config.json": 3}, {"config.json": {}}, {"../a": {"bytes": 1, "sha256": ""}}]
)
def test_a_manifest_with_odd_files_is_damaged(run, files):
    (run / "manifest.json").write_text(json.dumps({"version": 1, "files": files, "card": None}))
    for read in (Model.read, verify):
        assert f"{run / 'manifest.json'} is damaged" in refusal(read, run)
    assert f"{run / 'manifest.json'} is damaged" in refusal(write_recipe, run, "{}")


def test_writing_refuses_a_damaged_manifest(run):
    model = Model.read(run)
    (run / "manifest.json").write_text("[]")
    message = refusal(write_model, run, model.config, {}, (model.source, model.target), {"README.md": "mine"})
    remedy = "take it from a backup, or delete it if a run is to go on"
    assert message == f"{run / 'manifest.json'} is damaged: it is not a manifest; {remedy}"


@given(
    content=st.one_of(
        st.binary(max_size=40), st.sampled_from([b"[" * 5000, b'{"version": 1, "files": {}}', b"null", b"NaN"])
    )
)
@example(content=b'{"version": 1e400, "files": {}}')
@example(content=b'{"version": [1], "files": []}')
def test_any_bytes_for_a_manifest_are_refused(shared, content):
    (shared / "manifest.json").write_bytes(content)
    assert "manifest.json" in refusal(Model.read, shared)


@pytest.mark.parametrize("name", FILES)
@given(where=st.floats(0, 1, exclude_max=True), cut=st.booleans(), inserted=st.binary(max_size=3))
@settings(max_examples=6)
def test_any_damage_is_refused_by_name(trained, shared, name, where, cut, inserted):
    for file in (*FILES, "manifest.json"):
        shutil.copy(trained / file, shared / file)
    content = (shared / name).read_bytes()
    place = int(where * len(content))
    damaged = content[:place] + inserted + (b"" if cut else content[place + 1 :])
    (shared / name).write_bytes(damaged)
    if damaged == content:
        Model.read(shared)
    else:
        assert f"{shared} is damaged: {name}; " in refusal(Model.read, shared)
        assert [fault.split()[0] for fault in verify(shared)] == [name]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["model", "d_model"], 26, "model.safetensors does not hold the weights"),
        (["model", "d_model"], "24", '`model.d_model` is "24"'),
        (["model", "encoder_layers"], 10**9, "`model.encoder_layers` is 1000000000"),
        (["model", "mixer", "heads"], 2**53 - 1, "no machine could hold this model"),
        (["model", "kind"], None, "`model` is"),
        (["vocabulary"], {"source": 321, "target": 321}, "does not hold the weights"),
        (["decoding", "length_penalty"], float("inf"), "`decoding.length_penalty` is Infinity"),
        (["weights"], None, "`weights` is missing"),
    ],
)
def test_a_wrong_configuration_is_refused(run, path, value, message):
    edit_json(run, "config.json", path, value)
    assert message in refusal(Model.read, run)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 5000, b"3"])
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_files_without_valid_content_are_refused(run, name, content):
    write_with_checksum(run, name, content)
    assert str(run / name) in refusal(Model.read, run)


def test_subwords_of_another_model_are_refused(run):
    """Their ids exceed the embeddings, which would be an error in the middle of a translation."""
    other = Subwords.learn(["some other words than those of the run"] * 3, Bpe(size=270))
    write_with_checksum(run, "tokenizer.json", other.as_json().encode())
    assert "config.json and the subwords are of different models: config.json has 320 and 320 ids" in refusal(
        Model.read, run
    )


def test_a_manifest_without_subwords_is_refused(run):
    manifest = json.loads((run / "manifest.json").read_text())
    del manifest["files"]["tokenizer.json"]
    (run / "manifest.json").write_text(json.dumps(manifest))
    assert "does not list source.tokenizer.json, target.tokenizer.json" in refusal(Model.read, run)


@pytest.mark.parametrize("dtype", [torch.int32, torch.float64])
def test_weights_of_another_type_are_refused(run, dtype):
    weights = {name: tensor.to(dtype) for name, tensor in load_file(run / "model.safetensors").items()}
    write_with_checksum(run, "model.safetensors", save(weights))
    assert "does not hold the weights that config.json describes" in refusal(Model.read, run)


def test_a_recipe_without_data_names_no_test_set(run):
    (run / "recipe.yaml").write_text("{model: {preset: tiny}}")
    assert f"{run / 'recipe.yaml'}: `train` is missing" in refusal(named_test_set, run, "validation")


def test_a_copied_checkpoint_does_not_belong_to_the_run(trained, tmp_path):
    folder = shutil.copytree(trained / "training", tmp_path / "training")
    steps = Checkpoints(folder, keep=2).steps()
    shutil.copytree(folder / "step-00000012", folder / "step-00000012.old")
    (folder / "step-backup").mkdir()
    assert Checkpoints(folder, keep=2).steps() == steps == [8, 12]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused(run, value):
    name = "encoder.1.feed_forward.inner.weight"
    weights = load_file(run / "model.safetensors")
    weights[name][3] = value
    write_with_checksum(run, "model.safetensors", save(weights))
    message = refusal(Model.read, run)
    rows, columns = weights[name].shape
    assert f"{run / 'model.safetensors'}: {columns} of the {rows * columns:,} weights of {name} are" in message
    weights[name][3] = 3e38  # finite, although their sum is not
    write_with_checksum(run, "model.safetensors", save(weights))
    Model.read(run)
