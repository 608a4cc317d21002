"""ONNX graphs against our model: every option, long and padded sentences, token by token, and the files' contract."""

import json
import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from models import spec_of, write_random_model

from transduce.exchange import onnx_format
from transduce.exchange.export_model import FORMATS
from transduce.exchange.parity import compare, odd_sentences
from transduce.exchange.transformer_weights import int8_rows
from transduce.model.transformer import TransformerModel
from transduce.model_directory.model import Model
from transduce.search.beam import Decoding
from transduce.text.subwords import Subwords
from transduce.text.tree_linearisation import InOrder
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

LINES = ["the cat sat on the mat", "a dog, a bird and a cat sing", "Zwei Kinder", "schläft die Katze im Garten?"]

NARROW = {"heads": 2, "d_k": 5, "d_v": 7}

VARIANTS = {
    "text": {},
    "released": {
        "mixer": {"bias": True},
        "cross": {"bias": True},
        "positions": {"kind": "sinusoidal", "layout": "halves"},
        "norm_epsilon": 1e-6,
        "first_input": "zeros",
    },
    "pre-norm": {"norm": "pre", "feed_forward": {"activation": "gelu"}},
    "separate": {"embeddings": "separate", "readout": {"kind": "separate"}, "feed_forward": {"activation": "swish"}},
    "narrow": {"mixer": {**NARROW, "compatibility": {"kind": "bilinear"}}, "cross": {"compatibility": {"kind": "dot"}}},
    "additive": {"cross": {**NARROW, "compatibility": {"kind": "additive"}}, "embeddings": "separate"},
    "imported": {
        "positions": {"kind": "sinusoidal", "layout": "paper-halves", "first": 2},
        "readout": {"kind": "tied", "bias": True},
    },
    "learned": {"positions": {"kind": "learned", "max_positions": 300}},
    "local": {"mixer": {"kind": "local_attention", "heads": 3, "d_k": 8, "d_v": 8, "neighbours": 2}},
}


def noisy_model(changes, folder):
    return Model.read(write_random_model(folder.with_name(f"{folder.name}-run"), spec_of(changes)))


def written(changes, folder, precision="float32"):
    """Returns a model, and the engine of its exported folder."""
    model = noisy_model(changes, folder)
    onnx_format.check(model)
    onnx_format.write(model, folder, precision)
    return model, onnx_format.OnnxEngine(folder)


def parity(model, engine, lines):
    translator = Translator.of_models([model.module], model.source, model.target, model.config.decoding)
    return compare(translator, engine, lines, FORMATS["onnx"].max_positions)


def odd(model):
    """Returns the odd lines but the very long one, whose translation by a random model would never end."""
    lines = odd_sentences(Translator.of_models([model.module], model.source, model.target, model.config.decoding))
    return [line for line in lines if len(line) < 100]


@pytest.mark.parametrize("variant", VARIANTS)
def test_log_probabilities_and_translations_equal_ours(variant, tmp_path):
    model, engine = written(VARIANTS[variant], tmp_path)
    result = parity(model, engine, [*LINES, *odd(model)])
    assert result.greatest < 1e-4
    assert result.mean < 1e-5
    assert result.fault("float32") is None
    assert result.tokens > 30


@pytest.mark.parametrize(("precision", "suffix", "size"), [("float16", "_fp16", 0.7), ("int8", "_quantized", 0.6)])
def test_half_and_int8_weights_are_smaller_and_nearly_equal(precision, suffix, size, tmp_path):
    wide = {"feed_forward": {"d_ff": 1000}}  # or the names of the nodes are half of the file
    model, engine = written(wide, tmp_path, precision)
    (tmp_path / "float32").mkdir()
    written(wide, tmp_path / "float32")
    files = sorted(path.name for path in (tmp_path / "onnx").iterdir())
    assert files == [f"decoder_model_merged{suffix}.onnx", f"encoder_model{suffix}.onnx"]
    for name in ("encoder_model", "decoder_model_merged"):
        whole = (tmp_path / "float32" / "onnx" / f"{name}.onnx").stat().st_size
        assert (tmp_path / "onnx" / f"{name}{suffix}.onnx").stat().st_size < size * whole
    if precision == "int8":  # beside the same weights in float32: an overflow of the products would stand out
        for weight in model.module.parameters():
            if weight.ndim == 2:
                numbers, scales = int8_rows(weight.detach().numpy())
                weight.data = torch.from_numpy(numbers * scales[:, None])
    result = parity(model, engine, LINES)
    assert 1e-5 < result.mean < {"float16": 2e-3, "int8": 5e-2}[precision]


def sessions(folder, precision="float32"):
    return [onnxruntime.InferenceSession(folder / "onnx" / name) for name in onnx_format.graph_files(precision)]


def empty_cache(decoder, rows, heads=None, width=None):
    """Returns a cache without positions; `heads` and `width` replace those that the graph names."""
    cache = {}
    for given in decoder.get_inputs():
        if given.name.startswith("past_key_values"):
            shape = [rows, heads or given.shape[1], 0, width or given.shape[3]]
            cache[given.name] = np.zeros(shape, np.float32)
    return cache


def step(decoder, tokens, state):
    """Returns the logits of new tokens, and the next state."""
    names = [output.name for output in decoder.get_outputs()]
    outputs = dict(zip(names, decoder.run(None, {**state, "input_ids": tokens}), strict=True))
    logits = outputs.pop("logits")
    return logits, state | {name.replace("present", "past_key_values"): value for name, value in outputs.items()}


def encoded(encoder, source, mask):
    (states,) = encoder.run(None, {"input_ids": source, "attention_mask": mask})
    return {"encoder_hidden_states": states, "encoder_attention_mask": mask}


def random_batch(model, source_lengths, target_length):
    """Returns padded sources, their mask, and targets that begin with the begin symbol."""
    drawn = np.random.default_rng(5)
    source = drawn.integers(3, model.source.size, (len(source_lengths), max(source_lengths)))
    mask = (np.arange(source.shape[1]) < np.array(source_lengths)[:, None]).astype(np.int64)
    target = drawn.integers(3, model.target.size, (len(source_lengths), target_length))
    target[:, 0] = 1
    return source * mask, mask, target


@pytest.mark.parametrize("variant", ["text", "narrow", "local"])
def test_tokens_one_by_one_and_in_blocks_equal_whole_sentences(variant, tmp_path):
    model, _ = written(VARIANTS[variant], tmp_path)
    encoder, decoder = sessions(tmp_path)
    source, mask, target = random_batch(model, [7, 3, 1], 9)
    # Other engines begin with a cache of the shape d_model / heads, which is none of the variant "narrow".
    heads, width = (4, 6) if variant == "narrow" else (3, 8)
    state = encoded(encoder, source, mask) | empty_cache(decoder, 3, heads, width)
    whole, _ = step(decoder, target, state)
    with torch.inference_mode():
        assert isinstance(model.module, TransformerModel)
        states = model.module(*map(torch.from_numpy, (source, mask.astype(bool), target))).states
        expected = (states @ model.module.readout.weight.T).numpy()
    np.testing.assert_allclose(whole, expected, atol=1e-4)
    logits = []
    for first, stop in ((0, 1), (1, 2), (2, 5), (5, 9)):
        part, state = step(decoder, target[:, first:stop], state)
        logits.append(part)
    np.testing.assert_allclose(np.concatenate(logits, axis=1), whole, atol=1e-5)


@pytest.mark.parametrize("variant", ["text", "released"])
def test_600_source_and_600_target_positions(variant, tmp_path):
    model, _ = written(VARIANTS[variant], tmp_path)
    encoder, decoder = sessions(tmp_path)
    source, mask, target = random_batch(model, [600, 37], 600)
    logits, _ = step(decoder, target, encoded(encoder, source, mask) | empty_cache(decoder, 2))
    with torch.inference_mode():
        states = model.module(*map(torch.from_numpy, (source, mask.astype(bool), target))).states
        expected = model.module.readout(states)
    np.testing.assert_allclose(torch.from_numpy(logits).log_softmax(-1), expected, atol=1e-4)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_sentence_does_not_depend_on_its_batch(precision, tmp_path):
    model, _ = written({}, tmp_path, precision)
    encoder, decoder = sessions(tmp_path, precision)
    source, mask, target = random_batch(model, [4, 11], 6)
    both, _ = step(decoder, target, encoded(encoder, source, mask) | empty_cache(decoder, 2))
    alone = encoded(encoder, source[:1, :4], mask[:1, :4])
    one, _ = step(decoder, target[:1], alone | empty_cache(decoder, 1))
    np.testing.assert_allclose(one, both[:1], atol=2e-5)


def test_names_shapes_and_settings_are_those_that_other_engines_expect(tmp_path):
    model, _ = written({"embeddings": "separate"}, tmp_path)
    encoder, decoder = sessions(tmp_path)
    batch = "batch_size"
    assert {given.name: given.shape for given in encoder.get_inputs()} == {
        "input_ids": [batch, "encoder_sequence_length"],
        "attention_mask": [batch, "encoder_sequence_length"],
    }
    assert [output.name for output in encoder.get_outputs()] == ["last_hidden_state"]
    parts = [
        f"{layer}.{side}.{part}" for layer in range(3) for side in ("decoder", "encoder") for part in ("key", "value")
    ]
    inputs = {given.name: given.shape for given in decoder.get_inputs()}
    caches = {name: inputs.pop(name) for name in list(inputs) if name.startswith("past_key_values.")}
    assert list(inputs) == ["input_ids", "encoder_attention_mask", "encoder_hidden_states"]
    assert list(caches) == [f"past_key_values.{part}" for part in parts]
    assert all(shape[0] == batch and shape[1:2] + shape[3:] == [3, 8] for shape in caches.values())
    outputs = [output.name for output in decoder.get_outputs()]
    assert outputs == ["logits", *(f"present.{part}" for part in parts)]
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["model_type"] == "marian"
    assert (config["vocab_size"], config["decoder_vocab_size"]) == (model.source.size, model.target.size)
    assert (config["encoder_layers"], config["decoder_layers"]) == (2, 3)
    generation = json.loads((tmp_path / "generation_config.json").read_text())
    assert generation["bad_words_ids"] == [[0], [1]]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "config.json",
        "generation_config.json",
        "onnx",
        "target",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"mixer": {"kind": "convolution", "kernel": 3}}, "`model.mixer.kind` is convolution"),
        (
            {"feed_forward": {"kind": "experts", "expert": {"kind": "feed_forward", "d_ff": 22}}},
            "`model.feed_forward.kind` is experts",
        ),
    ],
)
def test_what_the_graphs_cannot_represent_is_refused_by_name(changes, name, tmp_path):
    with pytest.raises(ValueError, match=f"ONNX cannot represent this model: {name}"):
        onnx_format.check(noisy_model(changes, tmp_path))


def test_a_parser_is_refused(tmp_path):
    model = noisy_model({}, tmp_path)
    parser = model._replace(config=model.config.model_copy(update={"linearisation": InOrder()}))
    with pytest.raises(ValueError, match="it is a parser"):
        onnx_format.check(parser)


GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "onnx-and-browser.md"


def test_the_program_of_the_guide_translates_as_the_model_does(tmp_path, monkeypatch, capsys):
    (tmp_path / "exported" / "onnx").mkdir(parents=True)
    model, _ = written({}, tmp_path / "exported" / "onnx")
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    namespace: dict = {}
    exec(program, namespace)
    translator = Translator.of_models([model.module], model.source, model.target, model.config.decoding)
    method = SearchMethod(Decoding(extra_length=50), greedy=True)
    for line in ("the cat", "⟨/s⟩ dog"):
        (best,) = translator.translate_lines([line], method)
        assert namespace["translate"](line) == best[0].text
    assert capsys.readouterr().out.strip()


def test_source_tags_are_refused(tmp_path):
    model = noisy_model({}, tmp_path)
    assert isinstance(model.source, Subwords)
    with pytest.raises(ValueError, match="its sources begin with tags"):
        onnx_format.check(model._replace(source=model.source.with_tags(["to:de"])))
