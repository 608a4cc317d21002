"""Invariants of every model: causality, steps = blocks = whole sentences, no effect of padding and batch."""

import json
import typing
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from variants import BEGIN, VARIANTS, annotation_of, batch

from transduce.model.local_attention import LocalAttention
from transduce.model.model_spec import MODELS, CustomModel, ModelSpec
from transduce.model.residual import Dropout
from transduce.model.translation_model import TranslationModel, Vocabulary
from transduce.settings import Spec

SHARED = {"d_model": 14, "dropout": 0.1}
TRANSFORMER = {
    "kind": "transformer",
    "d_model": 14,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "mixer": {"kind": "attention", "heads": 3, "d_k": 5, "d_v": 6},
    "cross": {"kind": "attention", "heads": 2, "d_k": 4, "d_v": 8},
    "feed_forward": {"kind": "feed_forward", "d_ff": 22},
}
LOCAL = {"kind": "local_attention", "heads": 3, "d_k": 5, "d_v": 6}
RECURRENT = {"kind": "recurrent", "encoder_layers": 3, "decoder_layers": 3, "cell": {"kind": "gru"}, **SHARED}
BLOCKS = [{"layers": 2, "width": 10, "kernel": 3}, {"layers": 1, "width": 12, "kernel": 2}]
MEMORY = {"kind": "memory_network", "hops": 3, "span": 4, **SHARED}

MEMBERS = {
    **{
        f"transformer-{kind}": {**TRANSFORMER, "cross": {**TRANSFORMER["cross"], "compatibility": {"kind": kind}}}
        for kind in ("dot", "bilinear", "additive")
    },
    "transformer-additive-everywhere": {
        **TRANSFORMER,
        "mixer": {**TRANSFORMER["mixer"], "compatibility": {"kind": "additive"}},
    },
    **{f"transformer-local-{reach}": {**TRANSFORMER, "mixer": {**LOCAL, "neighbours": reach}} for reach in (1, 3, 20)},
    **{
        f"transformer-{kind}-{kernel}": {**TRANSFORMER, "mixer": {"kind": kind, "kernel": kernel}}
        for kind in ("convolution", "separable_convolution")
        for kernel in (1, 3, 4)
    },
    "transformer-experts": {
        **TRANSFORMER,
        "feed_forward": {"kind": "experts", "expert": {"d_ff": 22}, "number": 3, "chosen": 2},
    },
    **{
        f"ablated-{part}-{norm}": {**TRANSFORMER, "kind": "ablated_transformer", "without": part, "norm": norm}
        for part in ("positions", "norm", "residual", "feed_forward")
        for norm in ("post", "pre")
    },
    **{
        f"recurrent-{kind}": {**RECURRENT, "cell": {"kind": kind, **more}}
        for kind, more in (("plain", {}), ("lstm", {}), ("factorised_lstm", {"rank": 5}), ("gru", {}))
    },
    "recurrent-forwards": {**RECURRENT, "directions": "forwards"},
    "recurrent-gnmt": {**RECURRENT, "directions": "both_first", "residual": True},
    "recurrent-not-fed": {**RECURRENT, "input_feeding": False},
    **{
        f"recurrent-attending-below{name}": {**RECURRENT, "attending": "bottom", "input_feeding": feeding}
        for name, feeding in (("", True), ("-not-fed", False))
    },
    **{
        f"recurrent-{kind}": {**RECURRENT, "compatibility": {"kind": kind}}
        for kind in ("scaled_dot", "bilinear", "additive")
    },
    "convolutional": {"kind": "convolutional", "encoder": BLOCKS, "decoder": BLOCKS, "max_positions": 20, **SHARED},
    "bytenet": {"kind": "bytenet", "sets": 2, "dilations": [1, 2], **SHARED},
    "neural_gpu": {"kind": "neural_gpu", "layers": 2, "height": 3, **SHARED},
    **{f"memory_network-{tying}": {**MEMORY, "tying": tying} for tying in ("adjacent", "layerwise", "untied")},
    "recurrent-separate-readout": {**RECURRENT, "embeddings": "separate", "readout": {"kind": "separate"}},
}
MEMBERS |= {
    f"{kind}-separate": {**MEMBERS[kind], "embeddings": "separate"}
    for kind in ("convolutional", "bytenet", "neural_gpu", "memory_network-adjacent")
}

# Relative error of `multiplications`, which halves masked attention and omits the bridge to the decoder.
TOLERANCE = {"transformer": 0.2, "ablated_transformer": 0.2, "recurrent": 0.2}


def possible_choices(annotation: Any) -> Iterator[tuple[str, str, Any]]:
    """Yields (spec, field, value) for each member of a union, each literal, and both values of a bool."""
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        for name, field in annotation.model_fields.items():
            values = typing.get_args(field.annotation) if typing.get_origin(field.annotation) is typing.Literal else ()
            yield from ((annotation.__name__, name, value) for value in values)
            if field.annotation is bool:
                yield from ((annotation.__name__, name, value) for value in (False, True))
            yield from possible_choices(annotation_of(field))
    elif typing.get_origin(annotation) is not typing.Literal:
        for member in typing.get_args(annotation):
            yield from possible_choices(member)


def choices_of(spec: Spec) -> Iterator[tuple[str, str, Any]]:
    """Yields the (spec, field, value) of a spec."""
    for name in type(spec).model_fields:
        value = getattr(spec, name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Spec):
                yield from choices_of(part)
        if isinstance(value, bool | str):
            yield type(spec).__name__, name, value


def test_every_choice_of_settings_is_tested():
    specs = [validated_member(spec) for spec in MEMBERS.values()]
    tested = {choice for spec in [*specs, *VARIANTS.values()] for choice in choices_of(spec)}
    models = set(MODELS.all_classes()) - {CustomModel}  # its model is in no file: see outsider.py
    inherited = {("AblatedTransformer", *choice[1:]) for choice in tested if choice[0] == "Transformer"}
    assert not {choice for model in models for choice in possible_choices(model)} - tested - inherited


every_member = pytest.mark.parametrize("spec", [pytest.param(spec, id=name) for name, spec in MEMBERS.items()])


def validated_member(spec: dict[str, object]) -> Any:
    return TypeAdapter(ModelSpec).validate_json(json.dumps(spec), strict=True)


def build(spec: dict[str, object]) -> TranslationModel:
    torch.manual_seed(1)
    source = 17 if spec.get("embeddings", "shared") == "shared" else 19
    model = validated_member(spec).build(Vocabulary(source=source, target=17))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.1)
    return model.double().eval()


def log_probabilities(model: TranslationModel, source: Tensor, visible: Tensor, target_in: Tensor) -> Tensor:
    return model.readout(model(source, visible, target_in).states)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-11)


@pytest.mark.no_shape_checks
@every_member
def test_a_token_changes_later_results_and_no_earlier_ones(spec):
    model, (source, visible, target_in) = build(spec), batch()
    expected = log_probabilities(model, source, visible, target_in)
    for place in range(1, 9):
        changed = target_in.clone()
        changed[:, place] = torch.where(changed[:, place] == 5, 6, 5)
        actual = log_probabilities(model, source, visible, changed)
        close(actual[:, :place], expected[:, :place])
        # Without residual connections, a token's effect on its own position vanishes within three layers.
        if getattr(model.spec, "without", None) != "residual":
            assert (actual[:, place] - expected[:, place]).abs().amax(-1).gt(1e-9).all()


@pytest.mark.no_shape_checks
@every_member
def test_every_visible_source_token_changes_the_results(spec):
    model, (source, visible, target_in) = build(spec), batch()
    expected = log_probabilities(model, source, visible, target_in)
    for place in range(7):
        changed = source.clone()
        changed[:, place] = torch.where(changed[:, place] == 5, 6, 5)
        actual = log_probabilities(model, torch.where(visible, changed, source), visible, target_in)
        differs = (actual - expected).abs().amax((1, 2)) > 1e-9
        assert torch.equal(differs, visible[:, place])


@every_member
def test_padding_tokens_do_not_change_results(spec):
    model, (source, visible, target_in) = build(spec), batch()
    expected = log_probabilities(model, source, visible, target_in)
    generator = torch.Generator().manual_seed(4)
    wider = torch.nn.functional.pad(visible, (0, 2))
    noise = torch.randint(0, 17, wider.shape, generator=generator)
    noise = torch.where(wider, torch.nn.functional.pad(source, (0, 2)), noise)
    longer = torch.cat([target_in, torch.randint(3, 17, (4, 3), generator=generator)], dim=1)
    close(log_probabilities(model, noise, wider, longer)[:, :9], expected)


@every_member
def test_a_sentence_has_the_same_result_alone_and_in_a_batch(spec):
    model, (source, visible, target_in) = build(spec), batch()
    group = log_probabilities(model, source, visible, target_in)
    for sentence, present in enumerate(visible):
        row = slice(sentence, sentence + 1)
        close(log_probabilities(model, source[row, present], visible[row, present], target_in[row]), group[row])


@every_member
def test_step_by_step_is_blocks_is_whole(spec):
    model, (source, visible, target_in) = build(spec), batch()
    whole = log_probabilities(model, source, visible, target_in)
    for blocks in [[1] * 9, [9], [4, 3, 2], [1, 6, 1, 1]]:
        state, steps = model.start(source, visible, 9), []
        for tokens in target_in.split(blocks, dim=1):
            result, state = model.step(tokens, state)
            steps.append(result)
        close(torch.cat(steps, dim=1), whole)


WALK = [
    ([3, 3, 3, 3], 1),
    ([5, 1, 2, 4], 1),
    ([4, 2, 0, 2], 2),
    ([2, 1, 0, 1], 1),
    ([0, 2, 0, 1], 1),
    ([0, 6, 0, 3], 3),
    ([0, 0, 0, 1], 1),
]


@pytest.mark.no_shape_checks
@every_member
def test_picked_rows_have_the_results_of_whole_sentences(spec):
    model, (source, visible, _) = build(spec), batch()
    generator = torch.Generator().manual_seed(5)
    state, sentences, written = model.start(source, visible, 12), torch.arange(4), torch.full((4, 1), BEGIN)
    result, state = model.step(written, state)
    for counts, new in WALK:
        chosen = []
        for sentence, count in enumerate(counts):
            parents = (sentences == sentence).nonzero().flatten()
            chosen.append(parents[torch.randint(0, max(len(parents), 1), (count,), generator=generator)])
        rows = torch.cat(chosen)
        state, sentences = state.pick(rows), sentences[rows]
        added = torch.randint(3, 17, (len(rows), new), generator=generator)
        written = torch.cat([written[rows], added], dim=1)
        result, state = model.step(added, state)
        close(result, log_probabilities(model, source[sentences], visible[sentences], written)[:, -new:])


@pytest.mark.no_shape_checks
@every_member
def test_every_weight_has_a_gradient(spec):
    model, (source, visible, target_in) = build(spec).train(), batch()
    torch.manual_seed(3)
    model(source, visible, target_in).states.square().sum().backward()
    unused = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    # The noise of experts affects the penalty only, a separate readout the loss only.
    assert [name for name in unused if ".noise." not in name and not name.startswith("readout")] == []


def set_dropout(values: Any, probability: float) -> Any:
    """Returns the settings with every `dropout` set to `probability`."""
    if isinstance(values, dict):
        changed = {key: set_dropout(part, probability) for key, part in values.items()}
        return {**changed, "dropout": probability} if "dropout" in values else changed
    return [set_dropout(part, probability) for part in values] if isinstance(values, list | tuple) else values


@pytest.mark.no_shape_checks
@every_member
def test_dropout_has_the_probability_of_the_spec_and_is_active_in_training_only(spec):
    model = build(set_dropout(validated_member(spec).as_dictionary(), 0.5))
    dropouts = [module for module in model.modules() if isinstance(module, Dropout)]
    assert {dropout.probability for dropout in dropouts} == {0.5}
    called = []
    for dropout in dropouts:
        dropout.register_forward_hook(lambda module, inputs, states: called.append(module))

    def seeded(seed):
        torch.manual_seed(seed)
        return log_probabilities(model, *batch())

    evaluated = seeded(1)
    assert torch.equal(seeded(2), evaluated)
    model.train()
    called.clear()
    trained = seeded(1)
    assert set(called) == set(dropouts)
    assert torch.equal(seeded(1), trained)
    assert not torch.allclose(seeded(2), trained)
    assert not torch.allclose(trained, evaluated)


def test_local_attention_counts_both_sides_in_the_encoder_and_earlier_tokens_in_the_decoder():
    local = LocalAttention(heads=1, d_k=3, d_v=5, neighbours=4)
    plain = local.multiplications(8, 0)
    assert local.multiplications(8, 100) == plain + 9 * 8
    assert local.multiplications(8, 100, causal=True) == plain + 5 * 8
    assert local.multiplications(8, 3, causal=True) == plain + 3 * 8


@every_member
def test_multiplications_are_those_that_torch_counts(spec):
    """Masked self-attention of the Transformer is computed whole but counted by half."""
    model, length = build(spec), 6
    spec = model.spec
    source = torch.arange(3, 3 + length).unsqueeze(0)
    with FlopCounterMode(display=False) as counted:
        model.readout(model(source, torch.ones_like(source, dtype=torch.bool), source).states)
    source_count, target_count = spec.multiplications(length)
    flops = 2 * length * (source_count + target_count + spec.d_model * 17)
    assert flops == pytest.approx(counted.get_total_flops(), rel=TOLERANCE.get(spec.kind, 0.02))


@pytest.mark.parametrize("name", ["bytenet", "neural_gpu"])
def test_a_sentence_of_25_tokens_has_the_same_columns_alone_and_in_a_batch(name):
    """1.2 · 25 is 30 in Python and more than 30 in float32."""
    model, generator = build(MEMBERS[name]), torch.Generator().manual_seed(11)
    source, visible = torch.randint(3, 17, (2, 27), generator=generator), torch.ones(2, 27, dtype=torch.bool)
    visible[0, 25:] = False
    target_in = torch.randint(3, 17, (2, 36), generator=generator)
    group = log_probabilities(model, source, visible, target_in)
    close(log_probabilities(model, source[:1, :25], visible[:1, :25], target_in[:1]), group[:1])
