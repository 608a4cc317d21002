"""Text to text, with a model that has learned a little, or with random models where that is enough."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from transduce.measure.scoring import scores
from transduce.model.attention import FusedCore, MultiHeadAttention
from transduce.model.int8 import LARGEST, largest_weight
from transduce.model.transformer import Transformer
from transduce.model.translation_model import Vocabulary
from transduce.model_directory.model import Model
from transduce.search.beam import Decoding, Hypothesis
from transduce.search.greedy_and_sampling import Sampling
from transduce.text.subword_training import Bpe
from transduce.text.subwords import Subwords
from transduce.translation.alignment import aligned_words
from transduce.translation.results import Explanation
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

DECODING = Decoding(beam=3, length_penalty=0.6, extra_length=4)
LINES = [
    "cat dog",
    "",
    "the owl saw a mole and an ibis near the lark",
    "pig",
    "   ",
    "naïve Straße 🙂 שלום",
    "\t",
    "gnu hen ibis jay kite",
    "a\u0085b\u2028c",
    "fox",
    "cat dog",
]


def model_of(seed, size, **changes):
    spec = Transformer(
        d_model=16,
        encoder_layers=2,
        decoder_layers=3,
        mixer={"kind": "attention", "heads": 2, "d_k": 3, "d_v": 5},
        cross={"heads": 3, "d_k": 4, "d_v": 2},
        feed_forward={"kind": "feed_forward", "d_ff": 24},
        **changes,
    )
    torch.manual_seed(seed)
    return spec.build(Vocabulary(source=size, target=size)).eval()


@pytest.fixture(scope="module")
def translator(fluent):
    return Translator.load(fluent)


@pytest.fixture(scope="module", params=["float32", "int8"])
def any_translator(request, fluent):
    """The same model in float32 and in int8."""
    return Translator.load(fluent, precision=request.param)


@pytest.fixture(scope="module")
def subwords(translator):
    return translator.target


@pytest.fixture(scope="module")
def sides(micro):
    """Lines to translate, and their references."""
    return [(micro / f"validation.{side}").read_text().split("\n")[:-1] for side in ("en", "de")]


def bleu(translations, target):
    return scores([best[0].text for best in translations], [target])["bleu"].score


def texts(translations):
    return [[translation.text for translation in best] for best in translations]


METHODS = {
    "beam": SearchMethod(DECODING),
    "n-best": SearchMethod(DECODING, n_best=3),
    "greedy": SearchMethod(DECODING, greedy=True),
    "sample": SearchMethod(DECODING, sampling=Sampling(temperature=0.7, top_k=50), seed=4),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_translation_does_not_depend_on_the_batch(any_translator, method):
    """Rule 2 of the design: the same text for batches of one sentence and of all."""
    translations = any_translator.translate_lines(LINES, METHODS[method], batch_tokens=10_000)
    alone = any_translator.translate_lines(LINES, METHODS[method], batch_tokens=1)
    assert texts(translations) == texts(alone)
    for best, best_alone in zip(translations, alone, strict=True):
        expected = [translation.log_probability for translation in best_alone]
        assert [translation.log_probability for translation in best] == pytest.approx(expected, abs=1e-4)
    # Few different texts would prove little.
    assert len(set(map(tuple, texts(translations)))) >= 8


def test_lines_stay_in_order_and_are_translated_as_alone(any_translator):
    translations = texts(any_translator.translate_lines(LINES))
    assert len(translations) == len(LINES)
    for line, best in zip(LINES, translations, strict=True):
        assert texts(any_translator.translate_lines([line])) == [best]
    order = [7, 3, 1, 9, 0]
    shuffled = texts(any_translator.translate_lines([LINES[place] for place in order]))
    assert shuffled == [translations[place] for place in order]
    assert any_translator.translate_lines([]) == []


def test_empty_lines_stay_empty(translator):
    translations = translator.translate_lines(LINES)
    empty = [line for line, best in zip(LINES, translations, strict=True) if not best[0].tokens]
    assert empty == ["", "   ", "\t"]
    assert [best[0] for best in translations if not best[0].tokens] == [("", 0.0, 0.0, [])] * 3


class Silent:
    """A stepper around a stepper that finds the end symbol most probable everywhere."""

    def __init__(self, inner, end):
        self.inner, self.start, self.end = inner, inner.start, end

    def step(self, tokens, state):
        log_probabilities, state = self.inner.step(tokens, state)
        log_probabilities[:, :, self.end] = 0
        return log_probabilities, state


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_line_with_text_has_a_token_though_the_model_would_rather_end(fluent, method, monkeypatch):
    translator = Translator.load(fluent)
    engine = translator.torch_engine
    stepper, compiled = engine.current
    monkeypatch.setattr(engine, "current", (Silent(stepper, engine.symbols.end), compiled))
    for line, (best, *_) in zip(LINES, translator.translate_lines(LINES, method), strict=True):
        assert bool(best.tokens) == bool(line.strip()), line


def test_one_line_in_is_one_line_out(translator, subwords, monkeypatch):
    tokens = subwords.encode(["a\nb\n\nc"])[0]
    monkeypatch.setattr(
        "transduce.translation.engine.greedy_search",
        lambda stepper, problem, *, compiled: [Hypothesis(tokens, -1.0, -1.0)],
    )
    assert texts(translator.translate_lines(["x"], METHODS["greedy"])) == [["a b  c"]]


def test_n_best_are_different_and_best_first(any_translator):
    single, several = (any_translator.translate_lines(LINES, METHODS[name]) for name in ("beam", "n-best"))
    for line, best, single_best in zip(LINES, several, single, strict=True):
        assert best[0].text == single_best[0].text
        if line.strip():
            assert len({tuple(translation.tokens) for translation in best}) == 3
            assert [translation.score for translation in best] == sorted(
                (translation.score for translation in best), reverse=True
            )
            penalties = [((5 + len(translation.tokens) + 1) / 6) ** 0.6 for translation in best]
            expected = [best[n].log_probability / penalty for n, penalty in enumerate(penalties)]
            assert [translation.score for translation in best] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_log_probabilities_equal_those_of_scoring(any_translator, subwords, method):
    """For translations whose text is encoded to the same tokens; other tokens have another probability."""
    sources, targets, log_probabilities = [], [], []
    for line, best in zip(LINES, any_translator.translate_lines(LINES, METHODS[method]), strict=True):
        for translation in best:
            has_ended = len(translation.tokens) < len(subwords.encode([line])[0]) + 1 + DECODING.extra_length
            if line.strip() and has_ended and subwords.encode([translation.text]) == [translation.tokens]:
                sources.append(line)
                targets.append(translation.text)
                log_probabilities.append(translation.log_probability)
    assert len(log_probabilities) >= 4
    assert any_translator.score(sources, targets) == pytest.approx(log_probabilities, abs=1e-4)
    assert any_translator.score(sources, targets, batch_tokens=1) == pytest.approx(log_probabilities, abs=1e-4)


def test_scores_are_sums_over_tokens_end_included(translator, subwords):
    sources, targets = ["cat dog", "pig", "owl"], ["ibis kite", "", "hen hen hen"]
    scores_by_token = translator.token_scores(sources, targets)
    assert [len(row) for row in scores_by_token] == [len(ids) + 1 for ids in subwords.encode(targets)]
    assert translator.score(sources, targets) == pytest.approx([row.sum() for row in scores_by_token])
    model = translator.models[0]
    with torch.inference_mode():
        source = torch.tensor([[*subwords.encode(["owl"])[0], 2]])
        target = subwords.encode(["hen hen hen"])[0]
        log_probabilities = model.readout(model(source, source != 0, torch.tensor([[1, *target]])).states)[0]
        expected = log_probabilities[range(len(target) + 1), [*target, 2]]
    assert scores_by_token[2] == pytest.approx(expected.double().numpy(), abs=1e-4)


def test_prefixes(any_translator):
    lines = ["cat dog", "pig", "gnu hen ibis", "owl"]
    prefixes = ["ibis kite", "", "a", "lark mole newt owl pig hen jay"]
    free = any_translator.translate_lines(lines)
    translations = any_translator.translate_lines(lines, prefixes=prefixes)
    for prefix, best in zip(prefixes, translations, strict=True):
        assert best[0].text.startswith(prefix)
    assert translations[1][0].text == free[1][0].text
    assert texts(translations) == texts(any_translator.translate_lines(lines, prefixes=prefixes, batch_tokens=1))
    assert translations[0][0].log_probability < free[0][0].log_probability


def test_a_space_at_the_end_of_a_prefix_belongs_to_the_word_that_follows(translator):
    lines, prefixes = ["cat dog", "gnu hen ibis"], ["ibis kite", ""]
    translations = translator.translate_lines(lines, prefixes=prefixes)
    assert translator.translate_lines(lines, prefixes=[f"{prefix} " for prefix in prefixes]) == translations
    assert texts(translations) != texts(translator.translate_lines(lines, prefixes=["", ""]))


def test_an_ensemble_is_the_mean_of_its_members(subwords):
    first_model, second_model = (model_of(seed, subwords.size) for seed in (1, 2))
    both = Translator.of_models([first_model, second_model], subwords, subwords, DECODING)
    parts = [Translator.of_models([member], subwords, subwords, DECODING) for member in (first_model, second_model)]
    lines = ["cat dog", "owl"]
    target = ["pig", "gnu"]
    first, second = (member.token_scores(lines, target) for member in parts)
    for mean, *members in zip(both.token_scores(lines, target), first, second, strict=True):
        assert np.exp(mean) == pytest.approx((np.exp(members[0]) + np.exp(members[1])) / 2, rel=1e-4)
    twice = Translator.of_models([first_model, first_model], subwords, subwords, DECODING)
    assert texts(twice.translate_lines(LINES)) == texts(parts[0].translate_lines(LINES))
    assert texts(both.translate_lines(LINES)) != texts(parts[0].translate_lines(LINES))


def test_samples_depend_on_the_seed(translator):
    def sampled(seed, lines=LINES):
        return texts(translator.translate_lines(lines, SearchMethod(DECODING, sampling=Sampling(), seed=seed)))

    assert sampled(1) == sampled(1) != sampled(2)
    # The first and the last line are the same, and their draws are not.
    assert sampled(1)[0] != sampled(1)[-1]
    sharp = SearchMethod(DECODING, sampling=Sampling(top_k=1), seed=1)
    assert texts(translator.translate_lines(LINES, sharp)) == texts(
        translator.translate_lines(LINES, METHODS["greedy"])
    )


@pytest.mark.parametrize("target", [None, "", "a kite is a kite"])
@pytest.mark.parametrize("text", ["owl saw naïve 🙂", ""])
def test_explanations(translator, subwords, text, target):
    explanation = translator.explain(text, target)
    source_length, target_length = len(explanation.source), len(explanation.target)
    assert [layer.shape for layer in explanation.encoder] == [(2, source_length, source_length)] * 2
    assert [layer.shape for layer in explanation.decoder] == [(2, target_length, target_length)]
    assert [layer.shape for layer in explanation.cross] == [(3, target_length, source_length)]
    for layer in (*explanation.encoder, *explanation.decoder, *explanation.cross):
        assert layer.sum(axis=-1) == pytest.approx(np.ones(layer.shape[:2]), abs=1e-5)
        assert (layer >= 0).all()
    for layer in explanation.decoder:
        assert not np.triu(layer, 1).any()
    assert explanation.source == (*subwords.readable_subwords(subwords.encode([text])[0]), "</s>")
    assert explanation.source_text == text
    expected = translator.translate(text) if target is None else target
    assert explanation.target_text == expected
    assert explanation.target[-1] == "</s>"
    if target is not None:
        assert explanation.target[:-1] == tuple(subwords.readable_subwords(subwords.encode([target])[0]))


def cores(translator):
    modules = translator.models[0].modules()
    return [type(module.core) for module in modules if isinstance(module, MultiHeadAttention)]


def test_explaining_leaves_the_model_as_it_was(translator, monkeypatch):
    before = texts(translator.translate_lines(LINES))
    translator.explain("cat dog")
    assert cores(translator) == [FusedCore] * 4
    assert texts(translator.translate_lines(LINES)) == before
    monkeypatch.setattr(translator.models[0], "attention_weights", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        translator.explain("cat dog", "pig")
    assert cores(translator) == [FusedCore] * 4


def test_a_line_longer_than_the_learned_positions_is_named(subwords):
    positions = {"kind": "learned", "max_positions": 9}
    short = Translator.of_models([model_of(3, subwords.size, positions=positions)], subwords, subwords, DECODING)
    assert len(short.translate_lines(["cat dog hen", "owl"])) == 2
    long = "cat " * 9
    message = "line 3 has .* subwords, and this model has learned positions for 8"
    with pytest.raises(ValueError, match=message):
        short.translate_lines(["cat", "", long])
    with pytest.raises(ValueError, match="line 2 of the target has"):
        short.score(["cat", "dog"], ["hen", long])
    with pytest.raises(ValueError, match="line 2 of the prefixes has"):
        short.translate_lines(["cat", "dog"], prefixes=["hen", long])
    with pytest.raises(ValueError, match=r"line 1 of the source has .* positions for 8"):
        short.explain(long, "hen")
    with pytest.raises(ValueError, match=r"line 1 of the target has .* positions for 8"):
        short.explain("hen", long)


def test_it_translates(translator, sides):
    source, target = sides
    assert bleu(translator.translate_lines(source), target) > 8  # without training, below 1


def test_loading(fluent):
    translator = Translator.load(fluent)
    assert translator.decoding == Decoding(beam=2, length_penalty=0.6, extra_length=4)
    (written,) = texts(translator.translate_lines(["ant bee"]))
    assert written[0].strip()
    assert texts(Translator.load(fluent, str(fluent)).translate_lines(["ant bee"])) == [written]


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_lower_precisions_translate_nearly_as_well(fluent, sides, precision, caplog):
    source, target = sides
    exact, rounded = Translator.load(fluent), Translator.load(fluent, precision=precision)
    assert (exact.torch_engine.precision, rounded.torch_engine.precision) == ("float32", precision)
    assert ("slower in bfloat16" in caplog.text) == (precision == "bfloat16")
    expected, translations = exact.translate_lines(source), rounded.translate_lines(source)
    score = bleu(expected, target)
    assert score > 8  # else the comparison would prove little
    # Weights of seven bits, where the processor has no VNNI, are half as exact.
    assert bleu(translations, target) > score - 2 * (LARGEST / largest_weight() if precision == "int8" else 1)
    assert [best[0].log_probability for best in translations] != [best[0].log_probability for best in expected]


def test_threads_that_explain_and_threads_that_translate_do_not_disturb_each_other(translator):
    """Explaining once put other modules into the shared model for a time: 10 of 40 explanations were wrong."""
    lines = ["cat dog", "ant bee hen", "owl", "pig cat"]
    explained = [translator.explain(line) for line in lines]
    expected = translator.translate_lines(LINES)
    with ThreadPoolExecutor(4) as pool:
        jobs = [
            (pool.submit(translator.explain, lines[number % 4]), pool.submit(translator.translate_lines, LINES))
            for number in range(20)
        ]
        for number, (explanation, translations) in enumerate(jobs):
            assert translations.result() == expected
            for part in ("encoder", "decoder", "cross"):
                pairs = zip(getattr(explanation.result(), part), getattr(explained[number % 4], part), strict=True)
                assert all((layer == expected_layer).all() for layer, expected_layer in pairs)
    assert cores(translator) == [FusedCore] * 4
    assert translator.translate_lines(LINES) == expected


def test_int8_leaves_the_callers_model_in_float32(subwords):
    model = model_of(3, subwords.size)
    before = texts(Translator.of_models([model], subwords, subwords, DECODING).translate_lines(LINES))
    Translator.of_models([model], subwords, subwords, DECODING, "int8")
    assert texts(Translator.of_models([model], subwords, subwords, DECODING).translate_lines(LINES)) == before
    assert any(isinstance(module, torch.nn.Linear) for module in model.modules())


def test_several_threads_may_translate_at_once(any_translator):
    expected = any_translator.translate_lines(LINES)
    with ThreadPoolExecutor(4) as pool:
        for translations in pool.map(lambda _: any_translator.translate_lines(LINES), range(12)):
            assert translations == expected


def test_an_ensemble_may_have_members_in_int8(fluent):
    alone, twice = (Translator.load(*[fluent] * members, precision="int8") for members in (1, 2))
    for best, same in zip(alone.translate_lines(LINES), twice.translate_lines(LINES), strict=True):
        assert same[0].text == best[0].text
        assert same[0].log_probability == pytest.approx(best[0].log_probability, abs=1e-4)


def test_in_int8_no_sentence_depends_on_the_batch(fluent, sides):
    source, target = sides
    translator = Translator.load(fluent, precision="int8")
    batched, alone = translator.translate_lines(source), translator.translate_lines(source, batch_tokens=1)
    assert bleu(batched, target) > 8
    assert texts(alone) == texts(batched)
    # One scale for a whole batch would change each by a tenth.
    expected = [best[0].log_probability for best in batched]
    assert [best[0].log_probability for best in alone] == pytest.approx(expected, abs=0.01)


def test_int8_is_for_a_cpu(fluent):
    with pytest.raises(ValueError, match="precision int8 is for a CPU, not for cuda"):
        Translator.load(fluent, device="cuda", precision="int8")


def test_translating_a_line_never_imports_the_compiler(fluent):
    """It takes a second and more, as long as torch itself."""
    program = (
        "import sys; from transduce.translation.translator import Translator; "
        f"best = Translator.load({str(fluent)!r}).translate('ant bee'); assert best.strip(); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_an_ensemble_shares_its_subwords(fluent, tmp_path):
    from transduce.model_directory.model import weights_of
    from transduce.model_directory.writing import write_model

    model = Model.read(fluent)
    # Another alphabet, because words that are cut into bytes are cut alike.
    other = Subwords.learn(["犬が走る 猫が眠る " * 3] * 9, Bpe(size=model.source.size))
    vocabulary = Vocabulary(source=other.size, target=other.size)
    config = model.config.model_copy(update={"vocabulary": vocabulary})
    weights = weights_of(config.model.build(vocabulary))
    write_model(tmp_path / "other", config, weights, (other, other), {})
    with pytest.raises(ValueError, match="have different subwords"):
        Translator.load(fluent, tmp_path / "other")


def explanation(source, target, *layers):
    layers = tuple(np.array(layer, dtype=np.float32) for layer in layers)
    return Explanation(tuple(source), tuple(target), "", "", (), (), layers)


def test_alignment_reads_the_last_layer_but_one():
    """Sums subwords into words, averages heads, and leaves out the end symbols."""
    source, target = ["▁the", "▁bl", "ue", "▁owl", "</s>"], ["▁die", "▁blau", "e", "</s>"]
    unused = np.eye(4, 5)[None].repeat(2, axis=0)
    heads = [
        # For the first head, "blau" is "owl"; over both, one subword of "blue" has 0.3 and "owl" 0.325, but both 0.6.
        [[0.5, 0.0, 0.0, 0.1, 0.4], [0.05, 0.2, 0.2, 0.55, 0.0], [0.0, 0.1, 0.1, 0.2, 0.6], [0, 0, 0, 0, 1]],
        [[0.1, 0.0, 0.0, 0.2, 0.7], [0.0, 0.4, 0.4, 0.1, 0.1], [0.0, 0.1, 0.1, 0.2, 0.6], [0, 0, 0, 0, 1]],
    ]
    assert aligned_words(explanation(source, target, unused[:, :, ::-1], heads, unused)) == [(0, 0), (1, 1)]


def test_alignment_with_one_layer_or_no_word():
    heads = [[[0.1, 0.8, 0.1], [0.2, 0.3, 0.5]]]
    assert aligned_words(explanation(["▁a", "▁b", "</s>"], ["▁c", "</s>"], heads)) == [(1, 0)]
    assert aligned_words(explanation(["▁a", "</s>"], ["</s>"], [[[0.5, 0.5]]])) == []
    assert aligned_words(explanation(["</s>"], ["▁c", "</s>"], [[[1.0], [1.0]]])) == []
    assert aligned_words(explanation(["▁", "</s>"], ["▁c", "</s>"], [[[0.5, 0.5], [0.5, 0.5]]])) == []


def test_spaces_alone_are_no_word_to_align():
    heads = [np.eye(4)[[2, 0, 1, 3]]]
    pairs = aligned_words(explanation(["▁", "▁a", "▁b", "</s>"], ["▁c", "▁▁", "▁d", "</s>"], heads))
    assert pairs == [(1, 0), (0, 1)]


def test_a_tab_is_a_space_between_words_to_align():
    heads = [np.eye(4)[[1, 2, 0, 3]]]
    pairs = aligned_words(explanation(["▁a", "▁b", "▁c", "</s>"], ["▁d", "\t", "e", "</s>"], heads))
    assert pairs == [(1, 0), (0, 1)]


def test_an_explanation_of_a_translation_cut_at_its_bound_ends_with_the_positions(fluent):
    translator = Translator.load(fluent)
    translator.max_line_tokens = 3
    assert len(translator.explain("owl", [5, 6, 7, 8]).target) == 4
    assert len(translator.explain("owl", [5, 6, 7]).target) == 4


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_translations_are_bit_identical_for_any_number_of_threads(fluent, sides, precision):
    translator, threads, results = Translator.load(fluent, precision=precision), torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append([best[0] for best in translator.translate_lines(sides[0][:20])])
    finally:
        torch.set_num_threads(threads)
    assert results[0] == results[1] == results[2]
