"""A training that begins with an imported model: it takes steps, and its run is as the imported one."""

from pathlib import Path

import pytest
import torch
from foreign_models import ENGLISH, GERMAN, write_opus_mt

from transduce.exchange.import_model import import_model
from transduce.model_directory.model import Model
from transduce.recipe.recipe import Recipe, from_values
from transduce.run.train import TrainOptions, run_training
from transduce.translation.translator import Translator

TRAINING = {
    "steps": 3,
    "batch_tokens": 4096,
    "precision": "float32",
    "label_smoothing": 0.1,
    "schedule": {"kind": "inverse_square_root", "warmup": 1, "peak": 0.01},
    "save_every": 2,
    "log_every": 1,
    "validate_every": 2,
    "average": None,
}


@pytest.mark.parametrize("separate", [False, True])
def test_training_goes_on_from_an_imported_model(tmp_path: Path, separate: bool, log_lines) -> None:
    write_opus_mt(tmp_path / "opus", separate=separate)
    config = import_model(tmp_path / "opus", tmp_path / "imported")
    texts = {"train.en": ENGLISH, "train.de": GERMAN, "valid.en": ENGLISH[:7], "valid.de": GERMAN[:7]}
    for name, lines in texts.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", "utf-8")
    files = [
        {"source": str(tmp_path / f"{part}.en"), "target": str(tmp_path / f"{part}.de")} for part in ("train", "valid")
    ]
    values = {
        "data": {"train": files[0], "validation": files[1]},
        "subwords": {"shared": not separate},
        "model": config.model.as_dictionary(),
        "training": TRAINING,
        "decoding": {"beam": 2, "extra_length": 5},
    }
    recipe = from_values(values, place="a test")
    result = run_training(recipe, tmp_path / "run", TrainOptions("cpu", 1, start_from=tmp_path / "imported"))
    before, after = Model.read(tmp_path / "imported"), Model.read(tmp_path / "run")
    assert result.step == 3
    assert (after.config.source_language, after.config.target_language) == ("eng", "deu")
    assert [side.as_json() for side in after[2:]] == [side.as_json() for side in before[2:]]
    moved = {
        name: float((parameter - before.module.get_parameter(name)).detach().abs().max())
        for name, parameter in after.module.named_parameters()
    }
    assert min(moved.values()) > 1e-4
    assert max(moved.values()) < 1
    bias = after.module.readout.bias
    assert isinstance(bias, torch.Tensor)
    assert bias[1] < -90
    assert bias[2:].min() > -10
    assert len(Translator.load(tmp_path / "run").translate(ENGLISH[:3])) == 3


def test_dropout_of_subwords_is_refused(tmp_path: Path) -> None:
    write_opus_mt(tmp_path / "opus")
    config = import_model(tmp_path / "opus", tmp_path / "imported")
    for name, lines in {"train.en": ENGLISH, "train.de": GERMAN}.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", "utf-8")
    values = {
        "data": {"train": {"source": str(tmp_path / "train.en"), "target": str(tmp_path / "train.de")}},
        "subwords": {"dropout": 0.1},
        "model": config.model.as_dictionary(),
        "training": {**TRAINING, "validate_every": None},
    }
    options = TrainOptions("cpu", 1, start_from=tmp_path / "imported")
    with pytest.raises(ValueError, match=r"of --from are those of another program.*set subwords.dropout: 0"):
        run_training(from_values(values, place="a test"), tmp_path / "run", options)


def test_data_alone_fine_tunes_an_imported_model(tmp_path: Path) -> None:
    """Shape, languages and search come from `config.json`; SentencePiece does not grow."""
    write_opus_mt(tmp_path / "opus")
    config = import_model(tmp_path / "opus", tmp_path / "imported")
    for name, lines in {"train.en": ENGLISH, "train.de": GERMAN}.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", "utf-8")
    (tmp_path / "domain.yaml").write_text("data: {train: {source: train.en, target: train.de}}", "utf-8")
    changes = ["training.steps=1", "training.precision=float32"]
    recipe = Recipe.load(tmp_path / "domain.yaml", changes, start_from=tmp_path / "imported")
    assert (recipe.model, recipe.decoding) == (config.model, config.decoding)
    assert recipe.data.target_language == config.target_language
    start = TrainOptions("cpu", 1, start_from=tmp_path / "imported")
    grown = start._replace(grow_vocabulary=5)
    with pytest.raises(ValueError, match="--grow-vocabulary: the source subwords of --from are no BPE over bytes"):
        run_training(recipe, tmp_path / "grown", grown)
    assert run_training(recipe, tmp_path / "run", start).step == 1
    before, after = Model.read(tmp_path / "imported"), Model.read(tmp_path / "run")
    assert [side.as_json() for side in after[2:]] == [side.as_json() for side in before[2:]]
