"""Models of Marian's shape, imported, against a forward pass in NumPy; vocabularies and refusals."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign_models import ENGLISH, GERMAN, ODD, pieces, train_sentence_piece
from marian_models import SETTINGS, MarianInNumPy, random_weights, save_npz, write_marian
from ruamel.yaml import YAML

from transduce.exchange import marian_format
from transduce.exchange.import_marian import read_vocabulary
from transduce.exchange.import_model import import_model
from transduce.model_directory.manifest import verify
from transduce.model_directory.model import Model
from transduce.translation.translator import Translator

SENTENCES = [ENGLISH[5], "the cat", "a bee likes the owl, 你", f"{ENGLISH[70]} {ENGLISH[3]}"]
TARGETS = [GERMAN[9], "der", f"{GERMAN[100]} {GERMAN[2]}", "Kauz mag Käfer ½"]


def import_quietly(folder: Path, out: Path, **languages: str) -> Model:
    import_model(folder, out, **languages)
    return Model.read(out)


def rows_of(folder: Path, model: Model, tied: bool) -> tuple[list[int], list[int]]:
    """Returns the original row of each of our ids after the symbols, for source and target."""
    names = ("vocab.yml",) * 2 if tied else ("vocab.en.spm", "vocab.de.spm")
    rows = []
    for name, side in zip(names, (model.source, model.target), strict=True):
        vocabulary = read_vocabulary(folder / name, side.size - 2)  # pad and begin are added
        ids = {token: row for row, token in vocabulary.names.items()}
        rows.append([ids[subword] for subword in side.vocabulary[3:]])
    return rows[0], rows[1]


@pytest.mark.parametrize("tied", [True, False])
def test_log_probabilities_are_those_of_a_forward_pass_in_numpy(tmp_path: Path, tied: bool) -> None:
    foreign = MarianInNumPy(write_marian(tmp_path / "marian", tied=tied))
    model = import_quietly(tmp_path / "marian", tmp_path / "run", source_language="en", target_language="de")
    assert verify(tmp_path / "run") == []
    source_rows, target_rows = rows_of(tmp_path / "marian", model, tied)
    for source, target in zip(model.source.encode(SENTENCES), model.target.encode(TARGETS), strict=True):
        theirs = foreign.log_probabilities(
            [*(source_rows[token - 3] for token in source), 0], [target_rows[token - 3] for token in target]
        )
        source_in, target_in = torch.tensor([[*source, 2]]), torch.tensor([[1, *target]])
        with torch.no_grad():
            states = model.module(source_in, source_in != 0, target_in).states
            ours = model.module.readout(states)[0].double().numpy()
        expected = np.concatenate([theirs[:, [0]], theirs[:, target_rows]], axis=1)
        assert theirs.std() > 1
        np.testing.assert_allclose(ours[:, 2:], expected, rtol=0, atol=3e-5)
        assert (np.exp(ours[:, :2]) < 1e-30).all()
    assert (model.config.decoding.beam, model.config.decoding.length_penalty) == (6, 0.75)
    assert (model.config.source_language, model.config.model.first_input) == ("en", "zeros")
    assert len(Translator.load(tmp_path / "run").translate(SENTENCES)) == 4


@pytest.mark.parametrize("tied", [True, False])
def test_the_export_back_has_the_original_tensors(tmp_path: Path, tied: bool) -> None:
    write_marian(tmp_path / "marian", tied=tied)
    model = import_quietly(tmp_path / "marian", tmp_path / "run")
    marian_format.check(model)
    marian_format.write(model, tmp_path, "float32")
    settings = json.loads((tmp_path / "decoder.yml").read_text())
    assert (settings["beam-size"], settings["normalize"]) == (6, 0.6)  # those of the imported model
    (original,) = (tmp_path / "marian").glob("*.npz")
    rows = rows_of(tmp_path / "marian", model, tied)
    with np.load(original) as before, np.load(tmp_path / marian_format.MODEL) as after:
        assert {*before} == {*after}
        for name in {*before} - {"special:model.yml"}:
            order = [0, *rows[name != "encoder_Wemb"]]  # the end symbol, then all others
            if name.endswith("Wemb"):
                assert np.array_equal(before[name][order], after[name][2:])
            elif "logit_out" in name:
                assert np.array_equal(before[name][:, order], after[name][:, 2:])
            else:
                assert np.array_equal(before[name], after[name])


@pytest.mark.parametrize("tied", [True, False])
def test_odd_text_never_fails_and_shows_what_is_unknown(tmp_path: Path, tied: bool) -> None:
    write_marian(tmp_path / "marian", tied=tied)
    model = import_quietly(tmp_path / "marian", tmp_path / "run")
    for side, lines in ((model.source, ENGLISH), (model.target, GERMAN)):
        assert side.decode(side.encode(lines)) == lines
        encoded = side.encode(ODD)
        assert all(2 < token < side.size for tokens in encoded for token in tokens)
        unknown = side.content.unknown
        for tokens, text in zip(encoded, side.decode(encoded), strict=True):
            assert text.count("⁇") == tokens.count(unknown)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("type", "s2s"),
        ("transformer-preprocess", '"n"'),
        ("transformer-postprocess", "da"),
        ("transformer-postprocess-top", "n"),
        ("transformer-decoder-autoreg", "rnn"),
        ("transformer-train-position-embeddings", "true"),
        ("transformer-ffn-depth", 3),
        ("transformer-tied-layers", "[1, 1]"),
        ("transformer-heads", 5),
        ("dim-emb", 26),
        ("dim-emb", "many"),
        ("enc-depth", 1),
        ("enc-depth", 3),
        ("tied-embeddings-src", "maybe"),
        ("right-left", "true"),
        ("transformer-ffn-activation", "gelu"),
    ],
)
def test_what_cannot_be_represented_is_refused_by_name(tmp_path: Path, name: str, value: Any) -> None:
    write_marian(tmp_path / "marian", tied=True, **{name: value})
    faults = {"transformer-heads": "5 heads do not divide", "dim-emb": "settings ask for|`dim-emb` is 'many'"}
    faults["enc-depth"] = "encoder_l"
    with pytest.raises(ValueError, match=faults.get(name, f"`{name}` is ")):
        import_quietly(tmp_path / "marian", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_one_sentence_piece_model_for_both_sides_is_one_file(tmp_path: Path) -> None:
    write_marian(tmp_path / "marian", tied=False)
    (tmp_path / "marian" / "decoder.yml").unlink()
    with pytest.raises(ValueError, match=r"write decoder\.yml with `vocabs: \[SOURCE, TARGET\]`"):
        import_quietly(tmp_path / "marian", tmp_path / "run")
    (tmp_path / "marian" / "vocab.de.spm").unlink()
    model = train_sentence_piece([*ENGLISH, *GERMAN], 60, eos_id=0, unk_id=1, bos_id=-1)
    size = len(pieces(model))
    (tmp_path / "marian" / "vocab.en.spm").write_bytes(model)
    settings = "".join(f"{name}: {value}\n" for name, value in SETTINGS.items())
    save_npz(
        tmp_path / "marian" / "model.npz",
        random_weights(size, size, tied=True),
        f"{settings}dim-vocabs: [{size}, {size}]\n",
    )
    read = import_quietly(tmp_path / "marian", tmp_path / "run")
    assert read.source is read.target
    assert (tmp_path / "run" / "tokenizer.json").is_file()
    assert (read.config.decoding.beam, read.config.decoding.length_penalty) == (12, 0.0)


def test_without_the_library_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_marian(tmp_path / "marian", tied=True)
    import_quietly(tmp_path / "marian", tmp_path / "run")
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(
        ValueError, match=r"is not installed: `pip install '\.\[sentencepiece\]'` in the clone of transduce$"
    ):
        Model.read(tmp_path / "run")


def test_missing_files_and_settings_are_named(tmp_path: Path) -> None:
    weights = write_marian(tmp_path / "marian", tied=True)
    (tmp_path / "marian" / "source.spm").rename(tmp_path / "marian" / "source.away")
    with pytest.raises(ValueError, match=r"has no source\.spm"):
        import_quietly(tmp_path / "marian", tmp_path / "run")
    np.savez(tmp_path / "marian" / "model.npz", **weights)
    with pytest.raises(ValueError, match=r"lacks special:model\.yml"):
        import_quietly(tmp_path / "marian", tmp_path / "run")
    save_npz(tmp_path / "marian" / "model.npz", weights, "type: [transformer")
    with pytest.raises(ValueError, match=r"special:model\.yml is not YAML"):
        import_quietly(tmp_path / "marian", tmp_path / "run")


def test_letters_beyond_16_bits_are_escaped_as_yaml_reads_them(tmp_path: Path) -> None:
    tokens = ["</s>", "<unk>", "▁😀", "\\U0001f600", "\u0085\u2028", '"', "🇩"]
    (tmp_path / "vocab.yml").write_text(marian_format._vocabulary(tokens))
    assert YAML(typ="safe").load((tmp_path / "vocab.yml").read_text()) == {token: n for n, token in enumerate(tokens)}
    assert list(read_vocabulary(tmp_path / "vocab.yml", len(tokens)).names.values()) == tokens


def test_a_vocabulary_has_a_token_and_an_id_on_each_line(tmp_path: Path) -> None:
    path = tmp_path / "vocab.yml"
    path.write_text('</s>: 0\n"<unk>": 1\n\'it\'\'s\': 2\n"\\"": 3\n: 4\n"\\u2581a": 5\n: : 6\n\r\n', "utf-8")
    with pytest.raises(ValueError, match="line 5"):
        read_vocabulary(path, 7)
    path.write_text('</s>: 0\n"<unk>": 1\n\'it\'\'s\': 2\n"\\"": 3\n▁:: 4\n"\\u2581a": 5\n', "utf-8")
    assert read_vocabulary(path, 6).names == {0: "</s>", 1: "<unk>", 2: "it's", 3: '"', 4: "▁:", 5: "▁a"}
    for content, fault in (
        ("</s>: 0\n<unk>: 9\n", "the id 9"),
        ("</s>: 0\n<unk>: 0\n", "the id 0"),
        ("<unk>: 0\n", "</s>"),
    ):
        path.write_text(content, "utf-8")
        with pytest.raises(ValueError, match=fault):
            read_vocabulary(path, 6)
    for line in (
        b"\xff: 1",
        b'"half: 1',
        b"none",
        b"x: -1",
        b"x: 1.5",
        b": 1",
        b"x: " + b"9" * 5000,
        b" " * 10**6 + b"x",
    ):
        path.write_bytes(b"</s>: 0\n" + line + b"\n")
        with pytest.raises(ValueError, match="line 2"):
            read_vocabulary(path, 6)
    path.write_bytes(b"</s>: 0\n\xff: 1\n")
    with pytest.raises(ValueError, match="line 2"):
        read_vocabulary(path, 6)
