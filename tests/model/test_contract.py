"""What every variant of the model keeps: no look-ahead, the whole source seen, padding and company without effect."""

import pytest
import torch
from torch import Tensor, nn
from variants import BEGIN, VARIANTS, batch, build

from transduce.model import Transformer, TransformerModel

every_variant = pytest.mark.parametrize("spec", [pytest.param(spec, id=name) for name, spec in VARIANTS.items()])


def gradient_by_place(outputs: Tensor, inputs: Tensor) -> Tensor:
    """[batch outputs inputs]: how strongly each output of a sentence depends on each input of it."""
    generator = torch.Generator().manual_seed(3)
    # A plain sum over d_model would be constant after a layer norm.
    weighted = (outputs * torch.randn(outputs.shape, generator=generator, dtype=outputs.dtype)).sum((0, 2))
    rows = [torch.autograd.grad(place, inputs, retain_graph=True)[0].abs().sum(-1) for place in weighted]
    return torch.stack(rows, dim=1)


def capture(module: nn.Module) -> list[Tensor]:
    """A list that will hold what the module gives."""
    captured: list[Tensor] = []
    module.register_forward_hook(lambda _module, _inputs, output: captured.append(output))
    return captured


def log_probabilities(model: TransformerModel, source: Tensor, visible: Tensor, target_in: Tensor) -> Tensor:
    """The whole at once, as training has it."""
    whole: Tensor = model.readout(model(source, visible, target_in).states)
    return whole


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_the_unions_are_read() -> None:
    kinds = {"text", "norm-pre", "positions-learned", "positions-layout-halves", "embeddings-separate"}
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
def test_whatever_lies_under_padding_is_invisible(spec: Transformer) -> None:
    model, (source, visible, target_in) = build(spec), batch()
    expected = log_probabilities(model, source, visible, target_in)
    generator = torch.Generator().manual_seed(4)
    wider = torch.nn.functional.pad(visible, (0, 2))
    rubbish = torch.randint(0, 17, wider.shape, generator=generator)
    rubbish = torch.where(wider, torch.nn.functional.pad(source, (0, 2)), rubbish)
    longer = torch.cat([target_in, torch.randint(0, 17, (4, 3), generator=generator)], dim=1)
    close(log_probabilities(model, rubbish, wider, longer)[:, :9], expected)


@every_variant
def test_a_sentence_alone_is_as_in_company(spec: Transformer) -> None:
    model, (source, visible, target_in) = build(spec), batch()
    group = log_probabilities(model, source, visible, target_in)
    for sentence, present in enumerate(visible):
        one = slice(sentence, sentence + 1)
        alone = log_probabilities(model, source[one, present], visible[one, present], target_in[one])
        close(alone, group[one])


@every_variant
def test_step_by_step_is_blocks_is_whole(spec: Transformer) -> None:
    model, (source, visible, target_in) = build(spec), batch()
    whole = log_probabilities(model, source, visible, target_in)
    for blocks in [[1] * 9, [9], [4, 3, 2], [1, 6, 1, 1]]:
        state = model.start(source, visible, 9)
        steps = []
        for tokens in target_in.split(blocks, dim=1):
            given, state = model.step(tokens, state)
            steps.append(given)
        close(torch.cat(steps, dim=1), whole)


# How many rows each sentence has, and how many words they write, as a beam search goes: it opens, widens, loses
# hypotheses here and whole sentences there, widens again.
WALK: list[tuple[list[int], int]] = [
    ([3, 3, 3, 3], 1),
    ([5, 1, 2, 4], 1),
    ([4, 2, 0, 2], 2),
    ([2, 1, 0, 1], 1),
    ([0, 2, 0, 1], 1),
    ([0, 6, 0, 3], 3),
    ([0, 0, 0, 1], 1),
]


@every_variant
def test_rows_picked_as_a_beam_picks_them_are_as_from_scratch(spec: Transformer) -> None:
    model, (source, visible, _) = build(spec), batch()
    generator = torch.Generator().manual_seed(5)
    state = model.start(source, visible, 10)
    owners = torch.arange(4)
    written = torch.full((4, 1), BEGIN)
    given, state = model.step(written, state)
    close(given, log_probabilities(model, source, visible, written)[:, -1:])
    for counts, new in WALK:
        chosen = []
        for sentence, count in enumerate(counts):
            mine = (owners == sentence).nonzero().flatten()
            # Parents repeat and cross over, as hypotheses do.
            chosen.append(mine[torch.randint(0, max(len(mine), 1), (count,), generator=generator)])
        rows = torch.cat(chosen)
        state, owners = state.pick(rows), owners[rows]
        added = torch.randint(3, 17, (len(rows), new), generator=generator)
        written = torch.cat([written[rows], added], dim=1)
        given, state = model.step(added, state)
        close(given, log_probabilities(model, source[owners], visible[owners], written)[:, -new:])


def test_caches_grow_past_the_room_they_began_with() -> None:
    model, (source, visible, _) = build(VARIANTS["text"]), batch()
    target_in = torch.randint(3, 17, (4, 70), generator=torch.Generator().manual_seed(6))
    state = model.start(source, visible, 70)
    for tokens in target_in.split(7, dim=1):
        given, state = model.step(tokens, state)
    close(given, log_probabilities(model, source, visible, target_in)[:, -7:])


@every_variant
def test_slots_that_no_row_needs_are_thrown_out_of_a_long_search(spec: Transformer) -> None:
    model, (source, visible, _) = build(spec), batch()
    max_length = min(60, model.max_positions or 60)
    generator = torch.Generator().manual_seed(8)
    state = model.start(source, visible, max_length)
    owners, written = torch.arange(4), torch.full((4, 1), BEGIN)
    _, state = model.step(written, state)
    for _ in range(max_length - 1):
        # Four hypotheses a sentence, all from one: after a step most of what three of them had written is of no use.
        rows = torch.tensor([int((owners == sentence).nonzero()[-1]) for sentence in range(4)]).repeat_interleave(4)
        state, owners = state.pick(rows), owners[rows]
        added = torch.randint(3, 17, (16, 1), generator=generator)
        written = torch.cat([written[rows], added], dim=1)
        given, state = model.step(added, state)
    close(given, log_probabilities(model, source[owners], visible[owners], written)[:, -1:])
    assert state.ancestors.shape[1] < 1 + 4 * (max_length - 1) or max_length < 10
    assert all(cache.used == state.ancestors.shape[1] <= 2 * max_length + 40 for cache in state.caches)
