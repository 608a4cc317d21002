"""Invariants of every variant of the Transformer: causality, a visible source, no effect of padding and batch."""

import pytest
import torch
from jaxtyping import TypeCheckError
from torch import Tensor, nn
from variants import BEGIN, VARIANTS, batch, build

from transduce.model.transformer import Transformer, TransformerModel

every_variant = pytest.mark.parametrize("spec", [pytest.param(spec, id=name) for name, spec in VARIANTS.items()])


def gradient_by_place(outputs: Tensor, inputs: Tensor) -> Tensor:
    """Returns [batch outputs inputs]: how strongly each output of a sentence depends on each of its inputs."""
    generator = torch.Generator().manual_seed(3)
    # A plain sum over d_model would be constant after a layer norm.
    weighted = (outputs * torch.randn(outputs.shape, generator=generator, dtype=outputs.dtype)).sum((0, 2))
    rows = [torch.autograd.grad(place, inputs, retain_graph=True)[0].abs().sum(-1) for place in weighted]
    return torch.stack(rows, dim=1)


def capture(module: nn.Module) -> list[Tensor]:
    """Returns a list to which the outputs of the module are appended."""
    captured: list[Tensor] = []
    module.register_forward_hook(lambda _module, _inputs, output: captured.append(output))
    return captured


def log_probabilities(model: TransformerModel, source: Tensor, visible: Tensor, target_in: Tensor) -> Tensor:
    """Returns the log-probabilities of whole sentences, as training computes them."""
    whole: Tensor = model.readout(model(source, visible, target_in).states)
    return whole


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def test_shapes_are_checked() -> None:
    source, visible, target_in = batch()
    with pytest.raises(TypeCheckError, match="visible"):
        build(VARIANTS["text"])(source, visible[:, 1:], target_in)


def test_variants_cover_the_unions() -> None:
    kinds = {"text", "norm-pre", "positions-learned", "positions-layout-halves", "embeddings-separate"}
    kinds |= {"readout-bias-true", "readout-separate-bias-true", "positions-layout-paper-halves", "positions-first-2"}
    kinds |= {"readout-separate", "first_input-zeros", "mixer-bias-true", "cross-bias-true", "everything"}
    assert kinds <= set(VARIANTS)
    assert VARIANTS["everything"].norm == "pre"


@every_variant
def test_a_word_sees_itself_and_those_before_it_and_none_after(spec: Transformer) -> None:
    model, (source, visible, target_in) = build(spec), batch()
    embedded = capture(model.target_embedding)
    states = model(source, visible, target_in).states
    seen = gradient_by_place(states, embedded[0]) > 0
    assert torch.equal(seen, torch.ones(9, 9, dtype=torch.bool).tril().expand(4, 9, 9))


@every_variant
def test_every_encoder_state_and_every_decoder_state_sees_all_visible_words_and_no_others(spec: Transformer) -> None:
    model, (source, visible, target_in) = build(spec), batch()
    embedded = capture(model.source_embedding)
    encoded = model.encode(source, visible)
    seen = gradient_by_place(encoded, embedded[0]) > 0
    for sentence, present in enumerate(visible):
        assert torch.equal(seen[sentence][present], present.expand(int(present.sum()), -1))
    states = model(source, visible, target_in).states
    seen = gradient_by_place(states, embedded[1]) > 0
    assert torch.equal(seen, visible.unsqueeze(1).expand(4, 9, 7))


@every_variant
def test_padding_tokens_do_not_change_results(spec: Transformer) -> None:
    model, (source, visible, target_in) = build(spec), batch()
    expected = log_probabilities(model, source, visible, target_in)
    generator = torch.Generator().manual_seed(4)
    wider = torch.nn.functional.pad(visible, (0, 2))
    noise = torch.randint(0, 17, wider.shape, generator=generator)
    noise = torch.where(wider, torch.nn.functional.pad(source, (0, 2)), noise)
    longer = torch.cat([target_in, torch.randint(0, 17, (4, 3), generator=generator)], dim=1)
    close(log_probabilities(model, noise, wider, longer)[:, :9], expected)


@every_variant
def test_a_sentence_has_the_same_result_alone_and_in_a_batch(spec: Transformer) -> None:
    model, (source, visible, target_in) = build(spec), batch()
    group = log_probabilities(model, source, visible, target_in)
    for sentence, present in enumerate(visible):
        row = slice(sentence, sentence + 1)
        alone = log_probabilities(model, source[row, present], visible[row, present], target_in[row])
        close(alone, group[row])


@every_variant
def test_step_by_step_is_blocks_is_whole(spec: Transformer) -> None:
    model, (source, visible, target_in) = build(spec), batch()
    whole = log_probabilities(model, source, visible, target_in)
    for blocks in [[1] * 9, [9], [4, 3, 2], [1, 6, 1, 1]]:
        state = model.start(source, visible, 9)
        steps = []
        for tokens in target_in.split(blocks, dim=1):
            result, state = model.step(tokens, state)
            steps.append(result)
        close(torch.cat(steps, dim=1), whole)


# Rows of each sentence, and tokens that a step appends, as in a beam search: it widens, loses hypotheses and whole
# sentences, and widens again.
WALK: list[tuple[list[int], int]] = [
    ([3, 3, 3, 3], 1),
    ([5, 1, 2, 4], 1),
    ([4, 2, 0, 2], 2),
    ([2, 1, 0, 1], 1),
    ([0, 2, 0, 1], 1),
    ([0, 6, 0, 3], 3),
    ([0, 0, 0, 1], 1),
]


@pytest.mark.no_shape_checks
@every_variant
def test_picked_rows_have_the_results_of_whole_sentences(spec: Transformer) -> None:
    model, (source, visible, _) = build(spec), batch()
    generator = torch.Generator().manual_seed(5)
    state = model.start(source, visible, 10)
    sentences = torch.arange(4)
    written = torch.full((4, 1), BEGIN)
    result, state = model.step(written, state)
    close(result, log_probabilities(model, source, visible, written)[:, -1:])
    for counts, new in WALK:
        chosen = []
        for sentence, count in enumerate(counts):
            parents = (sentences == sentence).nonzero().flatten()
            # Parents repeat and change their order, as in a beam search.
            chosen.append(parents[torch.randint(0, max(len(parents), 1), (count,), generator=generator)])
        rows = torch.cat(chosen)
        state, sentences = state.pick(rows), sentences[rows]
        added = torch.randint(3, 17, (len(rows), new), generator=generator)
        written = torch.cat([written[rows], added], dim=1)
        result, state = model.step(added, state)
        close(result, log_probabilities(model, source[sentences], visible[sentences], written)[:, -new:])


def test_caches_grow_beyond_their_initial_capacity() -> None:
    model, (source, visible, _) = build(VARIANTS["text"]), batch()
    target_in = torch.randint(3, 17, (4, 70), generator=torch.Generator().manual_seed(6))
    state = model.start(source, visible, 70)
    for tokens in target_in.split(7, dim=1):
        result, state = model.step(tokens, state)
    close(result, log_probabilities(model, source, visible, target_in)[:, -7:])


@pytest.mark.no_shape_checks
@every_variant
def test_a_long_search_drops_unused_slots(spec: Transformer) -> None:
    model, (source, visible, _) = build(spec), batch()
    max_length = min(32, model.max_positions or 32)
    generator = torch.Generator().manual_seed(8)
    state = model.start(source, visible, max_length)
    sentences, written = torch.arange(4), torch.full((4, 1), BEGIN)
    _, state = model.step(written, state)
    for _ in range(max_length - 1):
        # Four hypotheses a sentence, all with the same parent: most slots of the other three become unused.
        rows = torch.tensor([int((sentences == sentence).nonzero()[-1]) for sentence in range(4)]).repeat_interleave(4)
        state, sentences = state.pick(rows), sentences[rows]
        added = torch.randint(3, 17, (16, 1), generator=generator)
        written = torch.cat([written[rows], added], dim=1)
        result, state = model.step(added, state)
    close(result, log_probabilities(model, source[sentences], visible[sentences], written)[:, -1:])
    assert state.ancestors.shape[1] < 1 + 4 * (max_length - 1) or max_length < 10
    assert all(cache.used == state.ancestors.shape[1] <= 2 * max_length + 40 for cache in state.caches)
