"""A model that was trained with marked terms translates marked lines; what that leaves out is forced."""

import random
from pathlib import Path

import pytest

from micro_run import RECIPE, WORDS, forked
from transduce.text.glossary import Glossary, Occurrence
from transduce.translation.glossary_translator import GlossaryTranslator
from transduce.translation.marking_translator import MarkingTranslator
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

LETTERS = "abcdefghijklmnopqrstuvwxyz"
CHANGES = [
    "data.terms.share=0.6",
    "training.steps=240",
    "training.batch_tokens=1024",
    "training.micro_batches=1",
    "training.schedule.warmup=30",
    "training.schedule.peak=0.01",
    "training.average=null",
    "training.validate_every=240",
    "training.save_every=240",
    "subwords.size=500",
    "model.d_model=32",
    "model.dropout=0.0",
    "model.initialisation=fused-glorot",
]


def nouns() -> dict[str, str]:
    """Rare words, and translations that are not their letters."""
    drawn = random.Random(1)
    words = ["".join(drawn.choice(LETTERS) for _ in range(3)) for _ in range(60)]
    return dict(zip(words[:30], words[30:], strict=True))


NOUNS = nouns()


def write_pairs(folder: Path, name: str, count: int) -> None:
    """Words spelt backwards, and a noun in each line."""
    drawn = random.Random(name)
    lines = [[drawn.choice(WORDS) for _ in range(drawn.randint(1, 3))] for _ in range(count)]
    for words in lines:
        words.insert(drawn.randint(0, len(words)), drawn.choice(sorted(NOUNS)))
    (folder / f"{name}.en").write_text("".join(" ".join(words) + "\n" for words in lines))
    translated = [" ".join(NOUNS.get(word, word[::-1]) for word in words) for words in lines]
    (folder / f"{name}.de").write_text("".join(f"{line}.\n" for line in translated))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `run`, a training with marked terms."""
    folder = tmp_path_factory.mktemp("marked")
    for name, count in (("train", 1000), ("validation", 7), ("test", 5)):
        write_pairs(folder, name, count)
    (folder / "recipe.yaml").write_text(RECIPE)
    ended = forked("train", folder / "recipe.yaml", "--out", folder / "run", *(f"--set={one}" for one in CHANGES))
    assert ended.code == 0, ended.error
    assert "terms are marked in" in ended.error
    return folder


@pytest.fixture(scope="module")
def translator(folder: Path) -> Translator:
    return Translator.load(folder / "run")


def texts(translations):
    return [best[0].text for best in translations]


def test_terms_are_copied_without_force(translator):
    """The words are those that the model has seen between marks, in places of words that it has never seen marked."""
    targets = sorted(NOUNS.values())
    glossary = Glossary({word: (target,) for word, target in zip(WORDS[:6], targets, strict=False)})
    lines = [f"{noun} {word}" for noun in sorted(NOUNS)[:5] for word in WORDS[:6]]
    with_terms = GlossaryTranslator(translator, glossary)
    outputs = texts(with_terms.translate_lines(lines))
    assert with_terms.honoured == with_terms.terms == len(lines)
    assert with_terms.forced < 2 / 3 * len(lines)  # without marks nearly all are
    assert all(not glossary.missing(text, glossary.find(line)) for line, text in zip(lines, outputs, strict=True))


def test_lines_that_have_their_terms_stay_as_they_are(translator):
    noun = sorted(NOUNS)[0]
    free = texts(translator.translate_lines([f"{noun} cat", "dog"]))
    word = free[0].split()[0]
    with_terms = GlossaryTranslator(translator, Glossary({noun: (word,), "cat": (free[0].split()[1].rstrip("."),)}))
    assert texts(with_terms.translate_lines([f"{noun} cat", "dog"])) == free
    assert (with_terms.honoured, with_terms.terms, with_terms.forced) == (2, 2, 0)


def test_a_marked_translation_that_has_no_more_terms_is_not_taken(translator, monkeypatch):
    def translated(marking, requests, *_):
        return [[marking.translator.translate("owl")._replace(score=100.0)] for _ in requests]

    monkeypatch.setattr(MarkingTranslator, "translate", translated)
    glossary = Glossary({"cat": ("Zyx-9",)})
    (best,) = texts(GlossaryTranslator(translator, glossary).translate_lines(["cat dog"]))
    marked = translator.translate("owl").text.rstrip(".")
    assert marked not in best


def test_a_term_that_marks_do_not_give_is_forced(translator, monkeypatch):
    monkeypatch.setattr(MarkingTranslator, "translate", lambda self, requests, *_: [[] for _ in requests])
    with_terms = GlossaryTranslator(translator, Glossary({"cat": ("Zyx-9",)}))
    (best,) = texts(with_terms.translate_lines(["cat dog"]))
    assert "Zyx-9" in best
    assert (with_terms.honoured, with_terms.forced) == (1, 1)


def test_a_line_is_marked_once_for_each_alternative(translator):
    marking = MarkingTranslator.of(translator, Glossary({"x": ("y",)}))
    dog, cat = Occurrence(2, 5, ("Hund", "Hundes")), Occurrence(6, 9, ("katze", "kater", "katers"))
    begin, end = "⟨term:begin⟩", "⟨term:end⟩"
    assert marking._marked_lines("A dog cat", [dog, cat], "der Hund") == [
        f"A {begin}Hund{end} {begin}{target}{end}" for target in cat.targets
    ]
    assert marking._marked_lines("Cat", [cat._replace(start=0, end=3)], "") == [
        f"{begin}{target}{end}" for target in ("Katze", "Kater", "Katers")
    ]
    assert marking._marked_lines(f"A dog {begin}", [dog], "") == []


def test_a_marked_line_that_is_too_long_has_no_translation(translator, monkeypatch):
    marking = MarkingTranslator.of(translator, Glossary({"x": ("y",)}))
    monkeypatch.setattr(marking.translator, "max_line_tokens", 20)
    requests = [(line, [Occurrence(0, 3, (target,))], "") for line, target in (("cat", "x" * 40), ("dog", "abc"))]
    found = marking.translate(requests, SearchMethod(translator.decoding), 100)
    assert list(map(len, found)) == [0, 1]


def test_a_model_without_marks_does_not_mark(fluent):
    assert MarkingTranslator.of(Translator.load(fluent), Glossary({"x": ("y",)})) is None


def test_a_model_without_marks_learns_them_by_fine_tuning(micro, folder, fluent, command, tmp_path):
    """Its vocabulary gains the two marks, and the same command resumes."""
    recipe = tmp_path / "terms.yaml"
    data = f"data:\n  train: {{source: {folder}/train.en, target: {folder}/train.de}}\n  terms: {{share: 0.5}}\n"
    recipe.write_text(data)
    options = ["--from", fluent, "--no-report", "--set", "training.save_every=1"]
    for steps in (2, 3):
        settings = ["--set", f"training.steps={steps}", *options]
        code, _, error = command("train", recipe, "--out", tmp_path / "run", *settings)
        assert code == 0, error
    tuned, before = Translator.load(tmp_path / "run"), Translator.load(fluent)
    assert tuned.source.size == before.source.size + 2
    assert MarkingTranslator.of(tuned, Glossary({"x": ("y",)})) is not None


def test_two_vocabularies_are_refused(folder, command, tmp_path):
    settings = ["--set", "data.terms.share=0.5", "--set", "subwords.shared=false", "--set", "model.embeddings=separate"]
    code, _, error = command("train", folder / "recipe.yaml", "--out", tmp_path / "run", *settings)
    assert (code, "subwords.shared: true" in error) == (2, True), error
