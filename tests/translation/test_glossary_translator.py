"""Translation with a glossary: every term is honoured, and the rest is as free as before."""

import pytest

from micro_run import WORDS
from transduce.exchange.moses_bpe import MosesBpe
from transduce.search.greedy_and_sampling import Sampling
from transduce.text.glossary import Glossary
from transduce.translation.batching import LineTooLargeError
from transduce.translation.engine import TorchEngine
from transduce.translation.glossary_translator import Attempt, Draft, GlossaryTranslator, _word_boundaries
from transduce.translation.results import Translation
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

LINES = ["cat dog owl", "", "the owl saw a mole", "mole owl ant mole", "ibis", "lark pig newt"]


@pytest.fixture(scope="module")
def translator(fluent):
    return Translator.load(fluent)


def texts(translations):
    return [best[0].text for best in translations]


@pytest.mark.parametrize("greedy", [False, True])
def test_every_term_is_honoured_and_other_lines_are_unchanged(translator, greedy):
    with_terms = GlossaryTranslator(
        translator, Glossary({"owl": ("Uhu",), "mole": ("Wurf", "Würfe"), "ibis": ("ibis",)})
    )
    method = SearchMethod(translator.decoding, greedy=greedy)
    forced, free = texts(with_terms.translate_lines(LINES, method)), texts(translator.translate_lines(LINES, method))
    assert (with_terms.honoured, with_terms.terms) == (7, 7)
    assert [line.count("Uhu") for line in forced] == [1, 0, 1, 1, 0, 0]
    assert forced[3].count("Wurf") + forced[3].count("Würfe") == 2
    assert forced[4].split()[0].rstrip(".") == "ibis"
    assert [forced[place] for place in (1, 5)] == [free[place] for place in (1, 5)]


def test_terms_stand_where_the_model_would_write_their_words(translator):
    """The micro run translates word by word, so that the place of a term is known."""
    free = texts(translator.translate_lines(["cat dog owl pig"]))[0].rstrip(".").split()
    assert free == ["tac", "god", "lwo", "gip"]  # else the test would show nothing
    forced = GlossaryTranslator(translator, Glossary({"dog": ("Köter",)})).translate_lines(["cat dog owl pig"])
    assert texts(forced)[0].startswith("tac Köter")
    assert "god" not in texts(forced)[0].split()  # the word that the term replaces


def test_a_replaced_word_that_follows_its_term_is_banned_there(translator, monkeypatch):
    """Of two lines the first has its replaced word after the term; it alone is searched again, without the word."""
    with_terms = GlossaryTranslator(translator, Glossary({"dog": ("Köter",)}))
    replaced, another = with_terms._boundaries.nonzero().flatten().tolist()[-2:]
    (prefix,) = translator.target.encode(["tac Köter"])
    searches = []

    def search(attempts, method, batch_tokens):
        tokens = [*prefix, another] if searches else [*prefix, replaced]
        searches.append((attempts, (with_terms._boundaries & ~method.may_follow).nonzero().flatten().tolist()))
        return {attempt: Translation("", 0.0, 0.0, tokens) for attempt in attempts}

    monkeypatch.setattr(with_terms, "_search", search)
    first, second = (Attempt(place, "cat dog", "tac Köter", token) for place, token in enumerate((replaced, another)))
    results = with_terms._translate([first, second], SearchMethod(translator.decoding), 100)
    assert searches == [([first, second], []), ([first], [replaced])]
    assert [results[attempt].tokens[-1] for attempt in (first, second)] == [another, replaced]


def test_a_term_at_the_beginning_has_a_capital_where_the_draft_has_one(translator):
    with_terms = GlossaryTranslator(translator, Glossary({"inu": ("hund",)}))
    (occurrence,) = with_terms.glossary.find("inu")
    for text, expected in (("Katze schläft", "Hund"), ("katze schläft", "hund")):
        draft = Draft("inu", [occurrence], Translation(text, -1.0, -1.0, []), [occurrence])
        (attempt,) = with_terms._attempts(0, draft._replace(prefix=""))
        assert attempt.prefix == expected


def test_a_whole_word_of_fairseq_is_longer_with_no_token():
    class Subwords(MosesBpe):
        size = 5

        def __init__(self):
            pass

    assert _word_boundaries(Subwords(), 2).tolist() == [True] * 5


def test_the_best_alternative_is_chosen_by_score(translator):
    line = ["cat dog owl pig"]
    scores = {}
    for target in ("Köter", "kcud"):
        ((best,),) = GlossaryTranslator(translator, Glossary({"dog": (target,)})).translate_lines(line)
        scores[target] = best.score
    ((best,),) = GlossaryTranslator(translator, Glossary({"dog": tuple(scores)})).translate_lines(line)
    assert best.score == pytest.approx(max(scores.values()))


def test_a_term_that_fits_no_more_is_counted_as_missing(translator, monkeypatch):
    monkeypatch.setattr(translator, "max_line_tokens", 30)
    with_terms = GlossaryTranslator(translator, Glossary({"dog": ("x" * 40,)}))
    assert texts(with_terms.translate_lines(["dog"])) == texts(translator.translate_lines(["dog"]))
    assert (with_terms.honoured, with_terms.terms) == (0, 1)


@pytest.mark.parametrize("work", ["attention_weights", "search"])
def test_a_line_that_does_not_fit_into_memory_is_named(translator, monkeypatch, work):
    done = getattr(TorchEngine, work)

    def short(self, *arguments):
        if work == "search" and not any(arguments[0].prefixes):
            return done(self, *arguments)
        raise MemoryError

    monkeypatch.setattr(TorchEngine, work, short)
    with_terms = GlossaryTranslator(translator, Glossary({"dog": ("Köter",)}))
    with pytest.raises(LineTooLargeError, match=r"line 12 has .* for the memory here; split the line"):
        with_terms.translate_lines(["cat owl", "cat dog owl"], lines_before=10)


def test_many_random_lines_are_honoured(translator):
    glossary = Glossary({word: (f"{word}-ø", f"{word}x") for word in WORDS[::2]})
    lines = [" ".join(WORDS[(3 * n + k * k) % len(WORDS)] for k in range(1 + n % 6)) for n in range(40)]
    with_terms = GlossaryTranslator(translator, glossary)
    outputs = texts(with_terms.translate_lines(lines))
    assert with_terms.terms == sum(line.split().count(word) for line in lines for word in WORDS[::2])
    assert with_terms.honoured == with_terms.terms
    assert all(not glossary.missing(output, glossary.find(line)) for line, output in zip(lines, outputs, strict=True))


def test_sampling_and_n_best_are_refused(translator):
    with_terms = GlossaryTranslator(translator, Glossary({"dog": ("Hund",)}))
    for method in (SearchMethod(translator.decoding, n_best=2), SearchMethod(translator.decoding, sampling=Sampling())):
        with pytest.raises(ValueError, match="leave sampling and --n-best out"):
            with_terms.translate_lines(["dog"], method)


def test_the_command_says_how_many_terms_are_honoured(fluent, tmp_path, command):
    (tmp_path / "terms.tsv").write_text("dog\tHund\nowl\tUhu\n")
    (tmp_path / "in.txt").write_text("cat dog\nowl\npig\n")
    code, out, error = command("translate", fluent, tmp_path / "in.txt", "--glossary", tmp_path / "terms.tsv")
    assert (code, "2 of 2 terms honoured" in error) == (0, True), error
    assert [word in line for word, line in zip(("Hund", "Uhu"), out.splitlines(), strict=False)] == [True, True]
    for options, message in (
        (["--n-best", 2], "leave sampling and --n-best out"),
        (["--prefix", tmp_path / "in.txt"], "--prefix"),
    ):
        code, _, error = command(
            "translate", fluent, tmp_path / "in.txt", "--glossary", tmp_path / "terms.tsv", *options
        )
        assert (code, message in error) == (2, True), error
