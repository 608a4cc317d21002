"""Models of OPUS-MT's shape, imported, against transformers: logits, tokens, text."""

import json
import time
from pathlib import Path

import pytest
import torch
from foreign_models import ENGLISH, GERMAN, ODD, write_opus_mt
from torch import Tensor
from transformers import MarianMTModel, MarianTokenizer

from transduce.exchange.export_model import export
from transduce.exchange.import_model import import_model
from transduce.exchange.imported_model import ForeignVocabulary
from transduce.model.embedding import Sinusoidal
from transduce.model_directory.manifest import verify
from transduce.model_directory.model import Model
from transduce.translation.translator import Translator

SENTENCES = [ENGLISH[5], "the cat", "a bee likes the owl, 你好", f"{ENGLISH[70]} {ENGLISH[3]}"]
TARGETS = [GERMAN[9], "der", f"{GERMAN[100]} {GERMAN[2]}", "Kauz mag Käfer ½"]
BELOW = 1e-30
SYMBOLS = {"<pad>": 0, "</s>": 2}


def foreign_log_probabilities(model: MarianMTModel, tokenizer: MarianTokenizer) -> list[Tensor]:
    """Returns the log-probabilities of transformers for each pair, padded as one batch."""
    source = tokenizer(SENTENCES, return_tensors="pt", padding=True)
    rows = tokenizer(text_target=TARGETS)["input_ids"]
    start, pad = model.config.decoder_start_token_id, model.config.pad_token_id
    width = max(map(len, rows))
    target_in = torch.tensor([[start, *row[:-1], *[pad] * (width - len(row))] for row in rows])
    with torch.no_grad():
        logits = model(**source, decoder_input_ids=target_in).logits
    return [logits[number, : len(row)].log_softmax(-1) for number, row in enumerate(rows)]


def our_log_probabilities(model: Model) -> list[Tensor]:
    """Returns the log-probabilities of an imported model for each pair, padded as one batch."""

    def rectangle(rows: list[list[int]]) -> Tensor:
        width = max(map(len, rows))
        return torch.tensor([row + [0] * (width - len(row)) for row in rows])

    targets = model.target.encode(TARGETS)
    source = rectangle([[*row, 2] for row in model.source.encode(SENTENCES)])
    target_in = rectangle([[1, *row] for row in targets])
    with torch.no_grad():
        whole = model.module.readout(model.module(source, source != 0, target_in).states)
    return [whole[number, : len(row) + 1] for number, row in enumerate(targets)]


def assert_equal_distributions(ours: list[Tensor], theirs: list[Tensor], columns: list[int]) -> None:
    """Asserts equal log-probabilities of every token; `columns` are our ids of their tokens."""
    missing = sorted({*range(ours[0].shape[1])} - {*columns})
    for our, their in zip(ours, theirs, strict=True):
        assert our.shape[0] == their.shape[0]
        torch.testing.assert_close(our[:, columns], their, rtol=0, atol=5e-5)
        assert (our[:, missing].exp() < BELOW).all()


def columns(model: Model, ids: dict[str, int]) -> list[int]:
    """Returns our id of each of their ids."""
    return [SYMBOLS[token] if token in SYMBOLS else model.target.vocabulary.index(token, 3) for token in ids]


@pytest.mark.parametrize(
    ("kind", "separate", "changes"),
    [
        ("unigram", False, {}),
        ("bpe", False, {"activation_function": "relu", "encoder_layers": 1}),
        ("unigram", True, {"activation_function": "gelu"}),
        ("bpe", True, {"tie_word_embeddings": False}),
    ],
)
def test_log_probabilities_are_those_of_transformers(
    tmp_path: Path, kind: str, separate: bool, changes: dict[str, object]
) -> None:
    foreign = write_opus_mt(tmp_path / "opus", kind=kind, separate=separate, **changes)
    tokenizer = MarianTokenizer.from_pretrained(tmp_path / "opus")
    config = import_model(tmp_path / "opus", tmp_path / "run")
    model = Model.read(tmp_path / "run")
    assert model.config == config
    assert verify(tmp_path / "run") == []
    assert (config.source_language, config.target_language) == ("eng", "deu")
    ids = json.loads((tmp_path / "opus" / ("target_vocab.json" if separate else "vocab.json")).read_text("utf-8"))
    theirs = foreign_log_probabilities(foreign, tokenizer)
    assert max(float(rows.std()) for rows in theirs) > 1  # the models have something to differ in
    assert_equal_distributions(our_log_probabilities(model), theirs, columns(model, ids))


@pytest.fixture(scope="module")
def opus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Returns the folder of a model of OPUS-MT's shape, and the run that it was imported as."""
    folder = tmp_path_factory.mktemp("imported")
    write_opus_mt(folder / "opus", kind="bpe")
    import_model(folder / "opus", folder / "run")
    return folder / "opus", folder / "run"


def their_tokens(tokenizer: MarianTokenizer, line: str, *, is_target: bool) -> list[str]:
    """Returns the tokens of the original tokeniser, with its unknown token, without the end symbol."""
    encoded = tokenizer(text_target=line) if is_target else tokenizer(line)
    return tokenizer.convert_ids_to_tokens(encoded["input_ids"])[:-1]


@pytest.mark.parametrize("line", [*ODD, ">>deu<< the cat"])
def test_text_is_encoded_and_decoded_as_the_original_does(opus: tuple[Path, Path], line: str) -> None:
    tokenizer, model = MarianTokenizer.from_pretrained(opus[0]), Model.read(opus[1])
    for side, is_target in ((model.source, False), (model.target, True)):
        (tokens,) = side.encode([line])
        ours = [side.vocabulary[token] for token in tokens]
        if line == "</s> <unk> <pad> ▁the":  # the original takes the symbols from a user's text
            assert min(tokens) > 2
            assert ours.count("<unk>") > 3
        else:
            assert ours == their_tokens(tokenizer, line, is_target=is_target)
        assert "".join(side.decode([tokens])).count("⁇") == ours.count("<unk>")


def test_a_code_that_the_vocabulary_lacks_is_text(opus: tuple[Path, Path]) -> None:
    """The original loses such text: it makes one unknown token of it."""
    model = Model.read(opus[1])
    (tokens,) = model.source.encode([">>cat<< the"])
    shown = "".join(model.source.readable_subwords(tokens))
    assert "cat" in shown
    assert shown.endswith("▁the")


def test_decoding_undoes_encoding(opus: tuple[Path, Path]) -> None:
    model = Model.read(opus[1])
    for side, lines in ((model.source, ENGLISH), (model.target, GERMAN)):
        assert side.decode(side.encode(lines)) == lines
    shown = model.target.readable_subwords([*model.target.encode(["der Kauz"])[0], 2])
    assert shown[0].startswith("▁")
    assert "".join(shown) == "▁der▁Kauz</s>"


def test_greedy_text_is_that_of_transformers(opus: tuple[Path, Path]) -> None:
    foreign = MarianMTModel.from_pretrained(opus[0]).eval()
    tokenizer = MarianTokenizer.from_pretrained(opus[0])
    lines = [ENGLISH[29], "owl", "a bee likes 你"]
    translator = Translator.load(opus[1])
    ours = translator.translate_records(lines, greedy=True)
    for line, our in zip(lines, ours, strict=True):
        bound = len(translator.source.encode([line])[0]) + 51
        with torch.no_grad():
            (their,) = foreign.generate(
                **tokenizer([line], return_tensors="pt"),
                num_beams=1,
                do_sample=False,
                max_new_tokens=bound,
                bad_words_ids=[[tokenizer.pad_token_id]],
            )
        tokens = [token for token in tokenizer.convert_ids_to_tokens(their[1:]) if token != "</s>"]
        assert [translator.target.vocabulary[token] for token in our.tokens] == tokens


def test_the_run_translates_scores_draws_and_is_an_ensemble(opus: tuple[Path, Path]) -> None:
    translator = Translator.load(opus[1], opus[1])
    single, (both,) = Translator.load(opus[1]), Translator.load(opus[1], opus[1]).translate_records(["the cat"], beam=3)
    assert single.translate_records("the cat", beam=3).tokens == both.tokens
    assert translator.score(["the cat"], [GERMAN[0]]) == pytest.approx(single.score(["the cat"], [GERMAN[0]]))
    explanation = single.explain("the cat", GERMAN[0])
    assert explanation.source[-1] == "</s>"
    int8 = Translator.load(opus[1], precision="int8")
    (exact,), (rounded,) = (one.score([ENGLISH[3]], [GERMAN[5]]) for one in (single, int8))
    assert exact == pytest.approx(rounded, rel=0.05)
    assert len(int8.translate_records(ENGLISH[:2], beam=2)) == 2


def test_the_run_is_exported_with_its_bias_and_its_subwords(opus: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    export(opus[1], "ctranslate2", tmp_path / "exported", "float32", 3)
    parity = json.loads((tmp_path / "exported" / "parity.json").read_text("utf-8"))
    assert parity["greatest_difference"] < 1e-4
    assert parity["tokens"] > 100


@pytest.mark.parametrize("separate", [pytest.param(False, marks=pytest.mark.slow), True])
def test_the_export_back_has_the_original_tensors(tmp_path: Path, separate: bool) -> None:
    foreign = write_opus_mt(tmp_path / "opus", separate=separate)
    import_model(tmp_path / "opus", tmp_path / "run")
    export(tmp_path / "run", "hugging-face", tmp_path / "back", "float32", 3)
    model, back = Model.read(tmp_path / "run"), MarianMTModel.from_pretrained(tmp_path / "back").state_dict()
    rows = {}
    for side, name in ((model.source, "vocab.json"), (model.target, "target_vocab.json" if separate else "vocab.json")):
        ids = json.loads((tmp_path / "opus" / name).read_text("utf-8"))
        rows[len(ids)] = [SYMBOLS[token] if token in SYMBOLS else side.vocabulary.index(token, 3) for token in ids]
    for name, tensor in foreign.state_dict().items():
        if "embed_positions" in name:
            torch.testing.assert_close(back[name][: len(tensor)], tensor, rtol=0, atol=1e-6)
        elif name == "final_logits_bias":
            assert torch.equal(back[name][:, rows[tensor.shape[1]]], tensor)
        elif len(tensor) in rows:
            assert torch.equal(back[name][rows[len(tensor)]], tensor)
        else:
            assert torch.equal(back[name], tensor)
    tokenizers = [MarianTokenizer.from_pretrained(tmp_path / name) for name in ("opus", "back")]
    left, right = (tokenizer.convert_ids_to_tokens(tokenizer(SENTENCES[2]).input_ids) for tokenizer in tokenizers)
    assert left == right


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scale_embedding", False),
        ("normalize_before", True),
        ("normalize_embedding", True),
        ("add_final_layer_norm", True),
        ("static_position_embeddings", False),
        ("activation_function", "gelu_new"),
        ("model_type", "pegasus"),
        ("decoder_attention_heads", 4),
        ("encoder_ffn_dim", 48),
        ("encoder_layers", 3),
        ("encoder_layers", 1),
        ("d_model", 26),
        ("d_model", "24"),
        ("pad_token_id", 7),
        ("eos_token_id", [0, 5]),
        ("decoder_start_token_id", 70000),
        ("vocab_size", 20),
        ("num_beams", 0),
        ("length_penalty", "long"),
    ],
)
def test_what_cannot_be_represented_is_refused_by_name(
    opus: tuple[Path, Path], tmp_path: Path, name: str, value: object
) -> None:
    folder = tmp_path / "opus"
    folder.mkdir()
    for path in opus[0].iterdir():
        if path.name != "generation_config.json":
            (folder / path.name).write_bytes(path.read_bytes())
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, name: value}), "utf-8")
    fault = {"encoder_layers": "encoder.layers.", "vocab_size": "vocab.json", "num_beams": "beam"}
    fault |= {"d_model": "settings ask for|d_model", "decoder_start_token_id": "70000"}
    with pytest.raises(ValueError, match=fault.get(name, name)):
        import_model(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_card_states_origin_and_checksums_and_the_decoding_is_the_nearest(opus: tuple[Path, Path]) -> None:
    card = (opus[1] / "README.md").read_text("utf-8")
    assert "No licence was checked" in card
    for name in ("model.safetensors", "vocab.json", "source.spm", "target.spm", "config.json"):
        assert f"| `{name}` | {(opus[0] / name).stat().st_size:,} |" in card
    config = Model.read_config(opus[1])
    assert (config.decoding.beam, config.decoding.length_penalty, config.weights.kind) == (4, 1.25, "imported")


def test_a_vocabulary_of_a_hundred_thousand_is_ordered_at_once() -> None:
    """A second for each side at most; a search through all rows for each token would take minutes."""
    size = 100_000
    ids = {"</s>": 0, "<unk>": 1} | {f"▁{row}": row for row in range(2, size)}
    began = time.process_time()
    vocabulary = ForeignVocabulary.of(ids, size, pad=size - 1, begin=size - 1, end=0, place="a file")
    assert vocabulary.moses_bpe((), "en").vocabulary[3:5] == ["<unk>", "▁2"]
    assert time.process_time() - began < 2


def test_an_out_with_content_is_refused(opus: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes").write_text("mine")
    with pytest.raises(ValueError, match="is not empty"):
        import_model(opus[0], tmp_path / "run")
    with pytest.raises(ValueError, match="holds no model that can be imported"):
        import_model(tmp_path / "run", tmp_path / "other")


@pytest.mark.parametrize("layout", ["halves", "odd", None])
def test_tables_of_positions_in_a_file_are_those_of_the_run(
    opus: tuple[Path, Path], tmp_path: Path, layout: str
) -> None:
    """Old files hold the table of positions, which transformers then takes: sinusoids, or any numbers."""
    folder = tmp_path / "opus"
    folder.mkdir()
    for path in opus[0].iterdir():
        if path.suffix != ".safetensors":
            (folder / path.name).write_bytes(path.read_bytes())
    foreign = MarianMTModel.from_pretrained(opus[0]).eval()
    tensors = {name: tensor.clone() for name, tensor in foreign.state_dict().items()}
    tables = [name for name in tensors if "embed_positions" in name]
    assert len(tables) == 2
    for number, name in enumerate(tables):
        if layout == "halves":
            tensors[name] = Sinusoidal(layout="halves").build(24)(0, 400).clone()
        elif layout == "odd":
            tensors[name] = torch.randn(400, 24, generator=torch.Generator().manual_seed(number))
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=layout != "odd")
    import_model(folder, tmp_path / "run")
    foreign.load_state_dict(tensors)
    tokenizer, model = MarianTokenizer.from_pretrained(folder), Model.read(tmp_path / "run")
    assert model.config.model.positions.kind == ("learned" if layout == "odd" else "sinusoidal")
    ids = json.loads((folder / "vocab.json").read_text("utf-8"))
    theirs = foreign_log_probabilities(foreign, tokenizer)
    assert_equal_distributions(our_log_probabilities(model), theirs, columns(model, ids))
