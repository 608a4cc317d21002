"""COMET, with a module in the place of unbabel-comet 2.2.7 whose functions have its names and arguments."""

import json
import logging
import os
import pickle
import types

import numpy as np
import pytest

from transduce.measure.comet import compare_by_comet, load_comet

SOURCE = ["die Katze", "ein Hund", "so ist es", "der Vogel singt"]
REFERENCE = ["the cat", "a dog", "so it is", "the bird sings"]
GOOD = ["the cat", "a dog", "so is it", "the bird sang"]
BAD = ["cat", "dog a", "it", "sing bird"]


class FakeModel:
    """Scores by the characters that the output shares with the reference, or else with the source."""

    def __init__(self, *, needs_references: bool) -> None:
        self.needs_references = needs_references
        self.calls: list[dict[str, object]] = []

    def requires_references(self):
        return self.needs_references

    def predict(
        self,
        samples,
        batch_size=16,
        gpus=1,
        devices=None,
        mc_dropout=0,
        progress_bar=True,
        accelerator="auto",
        num_workers=None,
        length_batching=True,
    ):
        keys = {"src", "mt", "ref"} if self.needs_references else {"src", "mt"}
        assert all(keys <= set(sample) for sample in samples)
        self.calls.append({"gpus": gpus, "progress_bar": progress_bar, "batch_size": batch_size})
        scores = [_overlap(sample["mt"], sample["ref" if self.needs_references else "src"]) for sample in samples]
        return types.SimpleNamespace(scores=scores, system_score=sum(scores) / len(scores))


def _overlap(left, right):
    return len(set(left) & set(right)) / max(len(set(left) | set(right)), 1)


@pytest.fixture
def library(monkeypatch, tmp_path):
    """The module, with a model that needs references in `wmt22-comet-da`, and one that needs none in cometkiwi."""
    module = types.ModuleType("comet")
    module.__version__ = "2.2.7"
    module.loaded = []
    module.refusal = None

    def download_model(model, saving_directory=None, local_files_only=False):
        if not model.startswith("Unbabel/"):
            raise KeyError(f"Model '{model}' not supported by COMET.")
        return f"/cache/{model}/checkpoints/model.ckpt"

    def load_from_checkpoint(checkpoint_path, reload_hparams=False, strict=False, local_files_only=False):
        module.loaded.append((str(checkpoint_path), os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD")))
        if module.refusal is not None:
            raise module.refusal
        return FakeModel(needs_references="kiwi" not in str(checkpoint_path))

    module.download_model, module.load_from_checkpoint = download_model, load_from_checkpoint
    monkeypatch.setitem(__import__("sys").modules, "comet", module)
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", raising=False)
    return module


@pytest.fixture
def files(tmp_path):
    for name, lines in (("source", SOURCE), ("reference", REFERENCE), ("good", GOOD), ("bad", BAD)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def test_the_score_is_the_mean_of_sentences_times_100(library):
    comet = load_comet("comet")
    comparison = compare_by_comet(comet, [GOOD], SOURCE, REFERENCE, None)
    expected = 100 * sum(map(_overlap, GOOD, REFERENCE)) / len(GOOD)
    assert comparison.baseline.score == pytest.approx(expected)
    assert comparison.baseline.signature == "model:Unbabel/wmt22-comet-da|scale:100|unbabel-comet:2.2.7"
    assert (comparison.baseline.low, comparison.differences) == (None, ())
    assert comet.model.calls == [{"gpus": 0, "progress_bar": False, "batch_size": 16}]


def test_without_references_the_source_is_enough(library):
    comparison = compare_by_comet(load_comet("comet-qe"), [GOOD], SOURCE, None, None)
    assert comparison.baseline.score == pytest.approx(100 * sum(map(_overlap, GOOD, SOURCE)) / len(GOOD))
    assert "wmt22-cometkiwi-da" in comparison.baseline.signature


def test_systems_are_compared_by_resampled_sentences(library):
    sides = [side * 8 for side in (GOOD, BAD, GOOD)]
    comparison = compare_by_comet(load_comet("comet"), sides, SOURCE * 8, REFERENCE * 8, 500)
    worse, same = comparison.differences
    assert comparison.baseline.low < comparison.baseline.score < comparison.baseline.high
    deltas = [100 * (_overlap(b, r) - _overlap(g, r)) for g, b, r in zip(GOOD, BAD, REFERENCE, strict=True)]
    assert worse.delta == pytest.approx(float(np.mean(deltas)))
    assert worse.p == pytest.approx(1 / 501)
    assert (same.delta, same.p) == (0, 1)


def test_the_checkpoint_is_loaded_without_unpickling_and_without_a_trace(library):
    level = logging.getLogger().level
    load_comet("comet")
    assert library.loaded == [("/cache/Unbabel/wmt22-comet-da/checkpoints/model.ckpt", "1")]
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ
    assert logging.getLogger().level == level


def test_a_checkpoint_file_is_a_model(library, tmp_path):
    (tmp_path / "mine" / "checkpoints").mkdir(parents=True)
    path = tmp_path / "mine" / "checkpoints" / "model.ckpt"
    path.write_bytes(b"")
    assert load_comet("comet", str(path)).signature.startswith("model:mine|")
    library.refusal = pickle.UnpicklingError("Weights only load failed.\nMore")
    with pytest.raises(ValueError, match="holds more than weights and settings: nothing else is unpickled"):
        load_comet("comet", str(path))
    library.refusal = Exception("hparams.yaml file is missing")
    with pytest.raises(ValueError, match=r"model.ckpt is not a checkpoint of COMET: hparams.yaml file is missing"):
        load_comet("comet", str(path))


def test_models_that_do_not_fit_are_refused(library):
    with pytest.raises(ValueError, match="this model needs no reference; use --metric comet-qe"):
        load_comet("comet", "Unbabel/kiwi")
    with pytest.raises(ValueError, match="this model needs references; use --metric comet"):
        load_comet("comet-qe", "Unbabel/other")
    with pytest.raises(ValueError, match="no such model can be downloaded"):
        load_comet("comet", "nobody")
    with pytest.raises(ValueError, match="output 1 has 3 lines and the source 4"):
        compare_by_comet(load_comet("comet"), [GOOD[:3]], SOURCE, REFERENCE, None)
    with pytest.raises(ValueError, match="the source has no lines"):
        compare_by_comet(load_comet("comet"), [[]], [], [], None)


def test_the_command(library, files, command):
    paths = ("--source", files / "source", files / "good")
    code, out, error = command("measure", "--metric", "chrf,comet", "--reference", files / "reference", *paths)
    assert code == 0, error
    assert [line.split()[0] for line in out.splitlines()] == ["chrf", "comet"]
    code, out, error = command("measure", "--metric", "comet-qe", *paths, files / "bad", "--json", "--bootstrap", 50)
    assert code == 0, error
    (result,) = json.loads(out).values()
    assert result["signature"].startswith("model:Unbabel/wmt22-cometkiwi-da")
    assert result["compared"][0]["delta"] < 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metric", "comet", "--reference", "reference"], "give --source FILE"),
        (["--metric", "comet", "--source", "source"], "give --reference FILE"),
        (["--metric", "comet-qe", "--source", "source", "--reference", "reference"], "is not for comet-qe"),
        (["--metric", "bleu", "--source", "source", "--reference", "reference"], "--source source: it is for"),
        (["--metric", "bleu", "--model", "x", "--reference", "reference"], "--model x: it is for"),
        (["--metric", "comet", "--source", "source", *["--reference", "reference"] * 2], "comet takes one reference"),
        (
            ["--metric", "comet,comet-qe", "--model", "x", "--source", "source", "--reference", "reference"],
            "is for one of comet and comet-qe",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(library, files, command, monkeypatch, arguments, message):
    monkeypatch.chdir(files)
    code, _, error = command("measure", *arguments, "good")
    assert (code, message in error) == (2, True), error


def test_what_to_install_is_said(files, command, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "comet", None)
    code, _, error = command("measure", "--metric", "comet-qe", "--source", files / "source", files / "good")
    assert (code, "`pip install '.[comet]'` in the clone of transduce, in an environment of its own" in error) == (
        2,
        True,
    ), error
