"""The next word of parsers: what is added to the decoder's input, in training and in search."""

import torch

from transduce.model.int8 import quantise
from transduce.model.transformer import Transformer
from transduce.model.translation_model import Vocabulary
from transduce.settings import validated

SOURCE, TARGET = 12, 9
BEGINS = torch.tensor([0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0], dtype=torch.bool)  # tokens 3 to 6 begin words
TAGS = torch.tensor([0, 0, 0, 0, 1, 1, 0, 0, 0], dtype=torch.bool)  # tokens 4 and 5 are parts of speech


def build(**changes):
    """Returns a small model in evaluation mode that knows its words."""
    torch.manual_seed(3)
    attention = {"kind": "attention", "heads": 2, "d_k": 4, "d_v": 4}
    values = {
        "kind": "transformer",
        "d_model": 8,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "mixer": attention,
        "cross": attention,
        "feed_forward": {"kind": "feed_forward", "d_ff": 16},
        "embeddings": "separate",
        "next_word": True,
        **changes,
    }
    model = validated(Transformer, values, place="a test").build(Vocabulary(source=SOURCE, target=TARGET)).eval()
    model.next_word.set_flags(BEGINS, TAGS)
    return model


SENTENCES = torch.tensor([[3, 7, 4, 8, 8, 5, 2], [6, 7, 2, 0, 0, 0, 0]])  # three words, and one
OUTPUT = torch.tensor([[1, 6, 4, 6, 5, 7, 4, 7], [1, 6, 5, 7, 7, 0, 0, 0]])


def test_the_next_word_follows_the_last_part_of_speech():
    model = build()
    encoded = torch.arange(2 * 7 * 8, dtype=torch.float32).view(2, 7, 8)
    words = model.next_word.source_words(SENTENCES, encoded)
    vectors, after = model.next_word.next_words(OUTPUT, words, torch.arange(2))
    projected = model.next_word.project(encoded)
    nothing = torch.zeros(8)
    first = [projected[0, place] for place in (0, 0, 2, 2, 5, 5)] + [nothing, nothing]
    second = [projected[1, 0], projected[1, 0]] + [nothing] * 6
    torch.testing.assert_close(vectors, torch.stack([torch.stack(first), torch.stack(second)]))
    assert after.tagged.tolist() == [3, 1]


def test_search_reads_the_same_words_as_training():
    model = build()
    visible = SENTENCES != 0
    with torch.inference_mode():
        whole = model.readout(model(SENTENCES, visible, OUTPUT).states)
        state, steps = model.start(SENTENCES, visible, 20), []
        for place in range(OUTPUT.shape[1]):
            log_probabilities, state = model.step(OUTPUT[:, place : place + 1], state)
            steps.append(log_probabilities)
        torch.testing.assert_close(torch.cat(steps, 1), whole, atol=1e-5, rtol=1e-5)
        first, state = model.step(OUTPUT[:, :3], model.start(SENTENCES, visible, 20))
        rest, _ = model.step(OUTPUT[:, 3:], state)
        torch.testing.assert_close(torch.cat([first, rest], 1), whole, atol=1e-5, rtol=1e-5)


def test_hypotheses_keep_their_words_when_rows_are_chosen():
    model = build()
    visible = SENTENCES != 0
    with torch.inference_mode():
        whole = model.readout(model(SENTENCES, visible, OUTPUT).states)
        _, state = model.step(OUTPUT[:, :1], model.start(SENTENCES, visible, 20))
        _, state = model.step(OUTPUT[[0, 0, 1], 1:2], state.pick(torch.tensor([0, 0, 1])))
        # The second row of the first sentence goes on, alone; then the first sentence has no row any more.
        _, both = model.step(OUTPUT[:, 2:3], state.pick(torch.tensor([1, 2])))
        _, alone = model.step(OUTPUT[1:, 3:4], both.pick(torch.tensor([1])))
        log_probabilities, _ = model.step(OUTPUT[1:, 4:5], alone)
    torch.testing.assert_close(log_probabilities[0, 0], whole[1, 4], atol=1e-5, rtol=1e-5)


def test_a_sentence_has_the_same_words_in_a_longer_batch():
    model = build()
    alone = SENTENCES[1:, :3]
    with torch.inference_mode():
        together, _ = model.step(OUTPUT[:, :4], model.start(SENTENCES, SENTENCES != 0, 20))
        separate, _ = model.step(OUTPUT[1:, :4], model.start(alone, alone != 0, 20))
    torch.testing.assert_close(together[1], separate[0], atol=1e-5, rtol=1e-5)


def test_the_weights_of_attention_are_those_of_the_forward_pass():
    model = build()
    with torch.inference_mode():
        cross = model.attention_weights(SENTENCES, SENTENCES != 0, OUTPUT).cross[0]
        model.next_word.set_flags(torch.zeros_like(BEGINS), TAGS)
        other = model.attention_weights(SENTENCES, SENTENCES != 0, OUTPUT).cross[0]
    assert (cross - other).abs().max() > 1e-4


def test_int8_reads_the_next_word_too():
    model = build()
    visible = SENTENCES != 0
    with torch.inference_mode():
        exact, _ = model.step(OUTPUT, model.start(SENTENCES, visible, 20))
        stepper = quantise(model)
        log_probabilities, _ = stepper.step(OUTPUT, stepper.start(SENTENCES, visible, 20))
        model.next_word.set_flags(torch.zeros_like(BEGINS), TAGS)
        without, _ = model.step(OUTPUT, model.start(SENTENCES, visible, 20))
    assert (log_probabilities - exact).abs().max() < 0.1 * (without - exact).abs().max()


def test_its_matrix_and_its_arithmetic_are_counted():
    model = build()
    values = model.spec.as_dictionary()
    plain = validated(Transformer, {**values, "next_word": False}, place="a test")
    count = [
        sum(parameter.numel() for parameter in built.parameters())
        for built in (model, plain.build(Vocabulary(source=SOURCE, target=TARGET)))
    ]
    assert count[0] - count[1] == 8 * 8
    assert model.spec.multiplications(10)[0] - plain.multiplications(10)[0] == 8 * 8
