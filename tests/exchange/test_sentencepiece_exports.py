"""Exports of a model that learned SentencePiece write the model files that other engines read."""

import json

import pytest

from transduce.commands import main
from transduce.model_directory.model import Model
from transduce.recipe.recipe import load
from transduce.run.train import run_training

sentencepiece = pytest.importorskip("sentencepiece", reason="needs the extra sentencepiece")
NEEDS = {"ctranslate2": "ctranslate2", "hugging-face": "transformers", "onnx": "onnx"}


@pytest.fixture(scope="module")
def run(micro, tmp_path_factory):
    out = tmp_path_factory.mktemp("pieces") / "run"
    spec = json.dumps({"kind": "sentencepiece", "size": 320})
    sizes = json.dumps({"preset": "released-2017", "d_model": 16, "encoder_layers": 1, "decoder_layers": 1})
    heads = json.dumps({"kind": "attention", "heads": 2, "d_k": 8, "d_v": 8})
    changes = ["training.steps=2", f"subwords={spec}", f"model={sizes}", f"model.mixer={heads}"]
    run_training(load(micro / "recipe.yaml", [*changes, 'model.cross={"heads": 2, "d_k": 8, "d_v": 8}']), out)
    return out


@pytest.mark.parametrize("engine", ["ctranslate2", "hugging-face"])
def test_the_model_of_each_side_is_beside_the_weights(run, tmp_path, engine):
    pytest.importorskip(NEEDS[engine], reason=f"needs {NEEDS[engine]}")
    with pytest.raises(SystemExit) as ended:
        main(["export", str(run), "--to", engine, "--out", str(tmp_path / "out"), "--sentences", "2"])
    assert ended.value.code == 0
    model = Model.read(run)
    for side, name in ((model.source, "source.spm"), (model.target, "target.spm")):
        library = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "out" / name))
        assert library.encode("owl naïve 犬", out_type=str) == [
            side.vocabulary[token] for token in side.encode(["owl naïve 犬"])[0]
        ]


def test_graphs_name_what_they_lack(run, tmp_path, capsys):
    pytest.importorskip("onnx", reason="needs onnx")
    with pytest.raises(SystemExit):
        main(["export", str(run), "--to", "onnx", "--out", str(tmp_path / "out")])
    assert "its subwords are SentencePiece" in capsys.readouterr().err
