"""BLEU of Chinese, Japanese and Korean and spBLEU: words cut by hand, and messages where a package or a file lacks."""

import ssl
import urllib.error
from pathlib import Path

import pytest

from transduce.measure.scoring import scores

# An output, its reference, and both with the spaces that the tokeniser must put.
CUT = {
    "zh": ("我有一只黑猫 ok。", "我有一只白猫 ok。", "我 有 一 只 黑 猫 ok 。", "我 有 一 只 白 猫 ok 。"),
    "ja": ("私は猫が大好きです。", "私は犬が大好きです。", "私 は 猫 が 大好き です 。", "私 は 犬 が 大好き です 。"),
    "ko": ("나는 고양이를 좋아한다.", "나는 개를 좋아한다.", "나 는 고양이 를 좋아한다 .", "나 는 개 를 좋아한다 ."),
}  # fmt: skip
PACKAGES = {"zh": "sacrebleu", "ja": "MeCab", "ko": "mecab_ko"}
EXTRAS = {"ja": "japanese", "ko": "korean"}


@pytest.mark.parametrize("language", CUT)
def test_words_are_cut_as_by_hand(language: str) -> None:
    pytest.importorskip(PACKAGES[language])
    output, reference, cut_output, cut_reference = CUT[language]
    expected = scores([cut_output], [[cut_reference]], tokenize="none")["bleu"].score
    assert 0 < expected < 100
    measured = scores([output], [[reference]], language=language)["bleu"]
    assert measured.score == pytest.approx(expected)
    assert f"|tok:{language}" in measured.signature


@pytest.mark.parametrize(
    ("code", "tokeniser"),
    [("zh-Hant", "zh"), ("cmn", "zh"), ("zho_Hans", "zh"), ("chi", "zh"), ("de", "13a"), ("chv", "13a"), (None, "13a")],
)
def test_longer_codes_are_known(code: str | None, tokeniser: str) -> None:
    assert f"|tok:{tokeniser}|" in scores(["a"], [["a"]], language=code)["bleu"].signature


@pytest.mark.parametrize(("language", "short"), [("ja", "ja"), ("jpn_Jpan", "ja"), ("ko-KR", "ko"), ("kor", "ko")])
def test_a_missing_package_is_named_with_its_extra(language: str, short: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"sacrebleu.tokenizers.tokenizer_{short}_mecab.MeCab", None)
    with pytest.raises(ValueError, match=rf"{short}-mecab: `pip install '\.\[{EXTRAS[short]}\]'`"):
        scores(["a"], [["a"]], language=language)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of sacreBLEU's SentencePiece models, in which there is none, and no network."""
    pytest.importorskip("sentencepiece")

    def refuse(*_: object) -> None:
        raise urllib.error.URLError("no network")

    for module in ("utils", "tokenizers.tokenizer_spm"):
        monkeypatch.setattr(f"sacrebleu.{module}.SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setattr("urllib.request.urlopen", refuse)
    return tmp_path / "models"


def test_spbleu_cuts_with_the_model_of_flores(folder: Path) -> None:
    import sentencepiece

    text = ["ein Mann steht auf der Straße", "eine Frau sitzt in einem Haus", "der Mann sieht das Haus"] * 4
    path = folder / "flores200sacrebleuspm"
    folder.mkdir()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(text), model_prefix=str(path), vocab_size=31, minloglevel=2
    )
    Path(f"{path}.model").rename(path)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    output, reference = "ein Mann steht in einem Haus", "eine Frau steht in einem Haus"
    cut = [" ".join(processor.encode(line, out_type=str)) for line in (output, reference)]
    expected = scores([cut[0]], [[cut[1]]], tokenize="none")["bleu"].score
    measured = scores([output], [[reference]], ["spbleu"])["spbleu"]
    assert measured.score == pytest.approx(expected)
    assert 0 < expected < 100
    assert "|tok:flores200|" in measured.signature
    path.write_bytes(b"\x80 damaged")
    with pytest.raises(ValueError, match=r"flores200sacrebleuspm is not a SentencePiece model, which flores200 needs"):
        scores([output], [[reference]], ["spbleu"])


@pytest.mark.parametrize("tokeniser", ["flores200", "flores101", "spBLEU-1K"])
def test_without_a_network_the_place_of_the_model_is_named(folder: Path, tokeniser: str) -> None:
    with pytest.raises(
        ValueError, match=rf"{tokeniser} needs .* cannot be downloaded .*no network.* as {folder}/\w.* or set SACREBLEU"
    ):
        scores(["a"], [["a"]], tokenize=tokeniser)


def test_a_refused_certificate_is_a_message(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ssl.SSLError("bad certificate")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    with pytest.raises(ValueError, match="the certificate was refused"):
        scores(["a"], [["a"]], ["spbleu"])


def test_sentencepiece_is_an_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sentencepiece", None)
    with pytest.raises(ValueError, match=r"flores200: `pip install '\.\[sentencepiece\]'`"):
        scores(["a"], [["a"]], ["spbleu"])
