"""Writing and reading a model directory; every change of a file is reported by its name."""

import errno
import json
import shutil
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file

from transduce.model.transformer import Transformer
from transduce.model.translation_model import Vocabulary
from transduce.model_directory import manifest
from transduce.model_directory.config import Config, Weights
from transduce.model_directory.manifest import MANIFEST, NEXT, verify
from transduce.model_directory.model import Model, weights_of
from transduce.model_directory.writing import write_model, write_recipe
from transduce.search.beam import Decoding
from transduce.text.subword_training import Bpe
from transduce.text.subwords import Subwords
from transduce.text.token_vocabulary import share_subwords

CHECKED = ["config.json", "model.safetensors", "recipe.yaml", "tokenizer.json"]


@pytest.fixture
def run(trained, tmp_path):
    """A model directory to damage: a copy of a run without its training folder."""
    return shutil.copytree(trained, tmp_path / "model", ignore=shutil.ignore_patterns("training"))


def refusal(directory):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the caller looks at the message
        Model.read(directory)
    return str(caught.value)


def test_the_manifest_lists_every_file_but_the_metrics_log_and_the_card(run):
    files = {path.name for path in run.iterdir()} - {"README.md", "metrics.jsonl", "manifest.json"}
    assert files == set(CHECKED)
    assert list(json.loads((run / "manifest.json").read_text())["files"]) == CHECKED


def test_reading_returns_the_trained_model(trained):
    model = Model.read(trained)
    stored = load_file(trained / "model.safetensors")
    assert {name: tuple(weight.shape) for name, weight in model.module.named_parameters()} == {
        name: tuple(weight.shape) for name, weight in stored.items()
    }
    assert all(torch.equal(weight, stored[name]) for name, weight in model.module.named_parameters())
    assert model.config.weights == Weights(kind="averaged", steps=(8, 12))
    assert (model.config.source_language, model.config.target_language, model.config.decoding.beam) == ("en", "de", 2)
    assert share_subwords((model.source, model.target))
    assert not model.module.training
    assert model.module.target_embedding.weight is model.module.source_embedding.weight is model.module.readout.weight
    assert Model.read_config(trained) == model.config


def test_the_config_has_every_setting(trained):
    values = json.loads((trained / "config.json").read_text())
    assert values == Model.read(trained).config.as_dictionary()
    assert values["version"] == 2
    assert values["model"]["positions"] == {"kind": "sinusoidal", "layout": "interleaved", "first": 0}
    assert values["model"]["readout"] == {"kind": "tied", "bias": False}
    assert values["model"]["symbols"] == {"pad": 0, "begin": 1, "end": 2}
    assert Decoding.model_validate(values["decoding"]) == Decoding(beam=2, length_penalty=0.6, extra_length=4)


def config(embeddings, source, target):
    model = Transformer(
        d_model=8,
        encoder_layers=1,
        decoder_layers=2,
        mixer={"kind": "attention", "heads": 2, "d_k": 3, "d_v": 5},
        cross={"heads": 1, "d_k": 4, "d_v": 2},
        feed_forward={"kind": "feed_forward", "d_ff": 7},
        embeddings=embeddings,
    )
    return Config(
        model=model,
        vocabulary=Vocabulary(source=source, target=target),
        weights=Weights(kind="best", steps=(3,)),
    )


def test_separate_subwords_are_read_for_their_sides(tmp_path):
    source = Subwords.learn(["hello hello hello world"] * 9, Bpe(size=262))
    target = Subwords.learn(["guten guten Tag guten Tag"] * 9, Bpe(size=265))
    written = config("separate", source.size, target.size)
    module = written.model.build(written.vocabulary)
    write_model(tmp_path / "a" / "b", written, weights_of(module), (source, target), {"README.md": "mine"})
    read = Model.read(tmp_path / "a" / "b")
    assert (read.source.size, read.target.size) == (source.size, target.size)
    assert source.size != target.size
    assert read.source.encode(["hello guten"]) == source.encode(["hello guten"]) != read.target.encode(["hello guten"])
    assert read.config == written
    assert all(map(torch.equal, read.module.parameters(), module.parameters()))
    assert (tmp_path / "a" / "b" / "README.md").read_text() == "mine"


def test_an_edited_card_is_not_replaced(run):
    (run / "README.md").write_text("# What I say")
    assert verify(run) == []
    model = Model.read(run)
    write_model(
        run, model.config, weights_of(model.module), (model.source, model.target), {"README.md": "the program's"}
    )
    assert (run / "README.md").read_text() == "# What I say"
    (run / "README.md").unlink()
    assert verify(run) == []


def test_an_unedited_card_is_replaced_with_the_weights(run):
    model = Model.read(run)
    for card in ("first", "second"):
        (run / "README.md").unlink()
        for text in ("earlier", card):
            write_model(run, model.config, weights_of(model.module), (model.source, model.target), {"README.md": text})
        assert (run / "README.md").read_text() == card


def test_a_failed_write_leaves_the_old_card(run, monkeypatch):
    model = Model.read(run)

    def write(card):
        write_model(run, model.config, weights_of(model.module), (model.source, model.target), {"README.md": card})

    write("first")
    with monkeypatch.context() as full:
        full.setattr(
            "transduce.model_directory.writing.write_tensors", Mock(side_effect=OSError(errno.ENOSPC, "no space left"))
        )
        with pytest.raises(OSError, match="no space left"):
            write("second")
    assert (run / "README.md").read_text() == "first"
    assert not list(run.glob(".*next*"))
    with monkeypatch.context() as cut_short:
        cut_short.setattr("transduce.model_directory.writing.flush_to_disk", Mock(side_effect=OSError))
        write("third")  # the manifest is not replaced, and that beside it counts
    assert verify(run) == []
    with monkeypatch.context() as held:
        held.setattr("transduce.model_directory.writing.replace", Mock(side_effect=PermissionError))
        with pytest.raises(PermissionError):
            write("fourth")  # while the files before it are not in their places
    assert (run / "README.md").read_text() == "third"
    write("fifth")
    assert (run / "README.md").read_text() == "fifth"


def test_files_that_cannot_be_replaced_are_read_beside_their_places(run, monkeypatch):
    model, earlier = Model.read(run), (run / "model.safetensors").read_bytes()
    doubled = {name: 2 * weight for name, weight in weights_of(model.module).items()}
    with monkeypatch.context() as held:
        held.setattr("transduce.model_directory.writing.replace", Mock(side_effect=PermissionError))
        write_model(run, model.config, doubled, (model.source, model.target), {"README.md": "new"})
    assert (run / "model.safetensors").read_bytes() == earlier
    assert all(torch.equal(weight, doubled[name]) for name, weight in weights_of(Model.read(run).module).items())
    assert verify(run) == []


def test_a_write_that_fails_leaves_nothing_on_a_full_disk(run, monkeypatch):
    model, before = Model.read(run), sorted(path.name for path in run.iterdir())
    monkeypatch.setattr(
        "transduce.model_directory.writing.checksums_of_files", Mock(side_effect=OSError(errno.ENOSPC, "no space left"))
    )
    with pytest.raises(OSError, match="no space left"):
        write_model(run, model.config, weights_of(model.module), (model.source, model.target), {"README.md": "new"})
    assert sorted(path.name for path in run.iterdir()) == before


def test_a_rewritten_recipe_is_no_damage(run):
    write_recipe(run, "{}")
    assert (run / "recipe.yaml").read_text() == "{}"
    assert verify(run) == []
    Model.read(run)


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize("place", [0, 0.5, -1])
def test_a_flipped_bit_is_reported(run, name, place):
    content = bytearray((run / name).read_bytes())
    content[int(place * len(content)) if place > 0 else place] ^= 4
    (run / name).write_bytes(content)
    assert verify(run) == [f"{name} has changed since it was written (its checksum differs)"]
    message = refusal(run)
    assert f"{run} is damaged: {name}; " in message
    assert f"transduce info {run} --verify" in message


@pytest.mark.parametrize("name", CHECKED)
def test_a_truncated_or_missing_file_is_reported(run, name):
    content = (run / name).read_bytes()
    (run / name).write_bytes(content[:-1])
    assert verify(run) == [f"{name} has {len(content) - 1:,} bytes where the manifest says {len(content):,}"]
    assert f"is damaged: {name};" in refusal(run)
    (run / name).unlink()
    assert verify(run) == [f"{name} is missing"]
    assert f"is damaged: {name};" in refusal(run)


def test_every_fault_is_reported(run):
    (run / "config.json").unlink()
    (run / "recipe.yaml").write_text("")
    assert [fault.split()[0] for fault in verify(run)] == ["config.json", "recipe.yaml"]
    assert "config.json, recipe.yaml" in refusal(run)


def test_a_manifest_that_a_writer_renames_meanwhile_is_no_fault(run, monkeypatch):
    read = manifest.files_of_manifest

    def renamed_meanwhile(directory, manifest):
        if manifest == NEXT:
            (directory / NEXT).replace(directory / MANIFEST)
        return read(directory, manifest)

    shutil.copy(run / MANIFEST, run / NEXT)
    monkeypatch.setattr(manifest, "files_of_manifest", renamed_meanwhile)
    assert verify(run) == []


def test_a_folder_that_is_no_model_directory_is_refused(tmp_path, trained):
    assert f"there is no model directory {tmp_path / 'x'}" in refusal(tmp_path / "x")
    assert "transduce train" in refusal(tmp_path / "x")
    assert f"{trained / 'README.md'} is a file" in refusal(trained / "README.md")
    assert f"{tmp_path} is not a model directory: it has no manifest.json" in refusal(tmp_path)
    (tmp_path / "training").mkdir()
    assert "its training has written no model yet" in refusal(tmp_path)
    with pytest.raises(ValueError, match="not a model directory"):
        verify(tmp_path)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"files": 3', "\udcff".encode("utf-8", "surrogateescape")])
def test_an_invalid_manifest_is_refused(run, content):
    (run / "manifest.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert f"{run / 'manifest.json'} is damaged" in refusal(run)


def test_another_version_is_refused(run):
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "version": 7}))
    assert "version 7; this program reads version 1" in refusal(run)


def test_weights_of_another_model_are_refused(run):
    model = Model.read(run)
    weights = weights_of(model.module)
    del weights["encoder.1.feed_forward.inner.bias"]
    write_model(run, model.config, weights, (model.source, model.target), {})
    assert "does not hold the weights that config.json describes" in refusal(run)
    weights = weights_of(model.module) | {"encoder.1.feed_forward.inner.bias": torch.zeros(41)}
    write_model(run, model.config, weights, (model.source, model.target), {})
    assert "does not hold the weights that config.json describes" in refusal(run)


def test_a_failed_write_leaves_the_old_model(run, monkeypatch):
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    model = Model.read(run)
    monkeypatch.setattr("safetensors.torch.save_file", lambda weights, path: path.write_bytes(b"half") / 0)
    with pytest.raises(ZeroDivisionError):
        write_model(run, model.config, weights_of(model.module), (model.source, model.target), {})
    assert {name: (run / name).read_bytes() for name in before} == before
    assert verify(run) == []
