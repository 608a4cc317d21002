"""Subwords: encoding is lossless and deterministic, and agrees with the library and the published algorithm."""

import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from transduce.text.byte_level import BEGIN, END, PAD
from transduce.text.subword_training import Bpe, WordPiece
from transduce.text.subwords import Subwords

LINES = [
    "The young man in the green shirt is holding a guitar.",
    "A man and a woman are walking down the street, holding hands.",
    "Two dogs aren't playing in the snow; l'homme n'y croit pas.",
    "Ein junger Mann im grünen Hemd hält eine Gitarre.",
    "Größere Straßen, schönere Häuser: 1989, 2014 und 2017!",
] * 3
SPECS = [Bpe(size=400), WordPiece(size=640)]


@pytest.fixture(scope="module", params=SPECS, ids=lambda spec: spec.kind)
def subwords(request: pytest.FixtureRequest) -> Subwords:
    return Subwords.learn(LINES, request.param)


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
@example("")
@example(" ")
@example("   two  spaces \t and\u00a0others \u2003 ")
@example("\0\x01\x1b\x7f\x85\r\u2028\ufeff")
@example("<s></s><pad>##a Ġ▁Ċ ⟨pad⟩⟨s⟩⟨/s⟩‿b [UNK]")
@example("e\u0301\u0301 \u0301 👩‍👩‍👧 🏳️‍🌈 𝔘")
@example("\U0010ffff\ufffe\ufffd")
def test_gives_back_any_text(subwords: Subwords, text: str) -> None:
    (ids,) = subwords.encode([text])
    assert subwords.decode([ids]) == [text]
    assert all(END < token < subwords.size for token in ids)


@pytest.mark.parametrize(
    "text", ["a" * 100_000, "字" * 30_000, "'" * 10_000 + "x’" * 5_000, " " * 20_000, "9\u0301" * 9_999]
)
def test_long_text_without_spaces_is_encoded(subwords: Subwords, text: str) -> None:
    assert subwords.decode(subwords.encode([text])) == [text]


ODD = st.sampled_from([*" \t\n\x1c\x85\u00a0\u2003\u3000\u200b", "a", "man", "’", "'", "1", "!", "\u0301", "字", "👩"])


@given(
    lines=st.lists(
        st.lists(ODD, max_size=12).map("".join) | st.text(st.characters(exclude_categories=["Cs"])), max_size=4
    )
)
@example(lines=["a man", "a  man", " a man", "a man ", "a\u00a0man a", "man\x1ca a", "", " ", "a" * 65 + " a"])
def test_a_line_is_encoded_as_the_library_encodes_it_whole(subwords: Subwords, lines: list[str]) -> None:
    whole = tokenizers.Tokenizer.from_str(subwords.as_json())
    assert subwords.encode([*lines, *LINES]) == [whole.encode(line).ids for line in (*lines, *LINES)]


def test_threads_may_share_the_cache(subwords: Subwords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.text.subwords.CACHE_SIZE", 30)
    random = Random(1)
    batches = [[" ".join(f"{random.randrange(200)}" for _ in range(8)) for _ in range(5)] for _ in range(400)]
    with ThreadPoolExecutor(8) as pool:
        encoded = list(pool.map(subwords.encode, batches))
    assert encoded == [[encoding.ids for encoding in subwords._tokenizer.encode_batch(batch)] for batch in batches]


def test_the_cache_is_bounded(subwords: Subwords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.text.subwords.CACHE_SIZE", 20)
    for number in range(200):
        subwords.encode([f"{number} {number + 1} and so on"])
    assert len(subwords._cache) <= 20 + 5


def test_batches_do_not_matter(subwords: Subwords) -> None:
    assert subwords.encode(LINES) == [subwords.encode([line])[0] for line in LINES]


def test_a_word_is_the_same_at_the_beginning_of_a_line_and_inside(subwords: Subwords) -> None:
    (word, twice) = subwords.encode(["man", "man man"])
    assert twice == [*word, *word]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_frequent_words_are_whole(spec: Bpe | WordPiece) -> None:
    subwords = Subwords.learn([*LINES, *["the man"] * 30], spec)
    (ids,) = subwords.encode(["the man"])
    assert subwords.readable_subwords([BEGIN, *ids, END, PAD]) == ["<s>", "▁the", "▁man", "</s>", "<pad>"]


def test_parts_of_characters_are_readable() -> None:
    byte_by_byte = Subwords.learn([], Bpe(size=259))
    (ids,) = byte_by_byte.encode(["é\n"])
    assert byte_by_byte.readable_subwords(ids) == ["▁", "\\xc3", "\\xa9", "\\n"]


def test_symbols_are_left_out_of_text_and_broken_characters_become_question_marks(subwords: Subwords) -> None:
    (ids,) = subwords.encode(["a字"])
    assert subwords.decode([[BEGIN, *ids, END, PAD], [PAD, *ids[:-1]], [], ids[-1:]]) == [
        "a字",
        "a\ufffd",
        "",
        "\ufffd",
    ]


def test_half_a_surrogate_pair_is_refused_by_line(subwords: Subwords) -> None:
    with pytest.raises(ValueError, match=r"line 2 holds '\\udc80', half a surrogate pair, at character 3"):
        subwords.encode(["fine", "ab\udc80", "fine"])


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_the_same_lines_give_the_same_file(spec: Bpe | WordPiece, tmp_path: Path) -> None:
    for name, lines in (("one", LINES), ("two", LINES), ("other order", LINES[::-1])):
        Subwords.learn(lines, spec).save(tmp_path / name)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_size_is_reached_where_the_text_suffices(spec: Bpe | WordPiece) -> None:
    assert Subwords.learn(LINES, spec).size == spec.size
    assert Subwords.learn([], spec).size == {"bpe": 3 + 256, "wordpiece": 3 + 512}[spec.kind]


LOAD_AGAIN_AND_AGAIN = """
import gc, os, sys
from pathlib import Path
from transduce.text.subwords import Subwords

content = Path(sys.argv[1]).read_bytes()
lines = [" ".join(f"{part}{number * 7919}" for part in "abc") for number in range(2_000)]
for times in (5, 30):
    for _ in range(times):
        Subwords.parse(content, place="the test").encode(lines)
    gc.collect()
    print(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the resident memory from /proc")
def test_a_process_that_loads_a_model_again_and_again_does_not_grow(subwords: Subwords, tmp_path: Path) -> None:
    # A tokenizer of `tokenizers` 0.23 keeps about 1 MiB when it is dropped, where it encoded some thousand words.
    # The process is a new one, since nothing else in it takes or returns memory.
    subwords.save(tmp_path / "tokenizer.json")
    run = [sys.executable, "-c", LOAD_AGAIN_AND_AGAIN, str(tmp_path / "tokenizer.json")]
    before, after = map(float, subprocess.run(run, check=True, capture_output=True, timeout=200).stdout.split())
    assert after < before + 10


def test_the_file_alone_gives_the_same_ids_to_hugging_face(subwords: Subwords, tmp_path: Path) -> None:
    subwords.save(tmp_path / "tokenizer.json")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    lines = [*LINES, "<s> ⟨s⟩ ⟨/s⟩ ⟨pad⟩", "", " x", "\0"]
    assert [theirs.encode(line).ids for line in lines] == subwords.encode(lines)
    assert [theirs.decode(theirs.encode(line).ids) for line in lines] == lines
    assert Subwords.load(tmp_path / "tokenizer.json").encode(lines) == subwords.encode(lines)


def _cut_short(text: str) -> str:
    return text[: len(text) // 2]


def _without_a_byte(text: str) -> str:
    return text.replace('"Ā"', '"ĀĀĀĀ"')


def _shifted(text: str) -> str:
    return text.replace("⟨s⟩", "<s>")


def _with_a_prefix(text: str) -> str:
    # On which the library panics: its exception is no `Exception`.
    return text.replace('"continuing_subword_prefix": null', '"continuing_subword_prefix": "0123456789"')


@pytest.mark.parametrize(
    "damage",
    [_cut_short, _without_a_byte, _shifted, _with_a_prefix, lambda text: "{}", lambda text: "\udcff"],
)
def test_a_damaged_file_is_named(subwords: Subwords, damage: object, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    subwords.save(path)
    assert callable(damage)
    damaged = damage(path.read_text("utf-8"))
    if damaged == path.read_text("utf-8"):
        pytest.skip("WordPiece has this setting")
    path.write_text(damaged, "utf-8", errors="surrogateescape")
    with pytest.raises(ValueError, match=r"tokenizer\.json holds no subwords of transduce, or is damaged"):
        Subwords.load(path)


def _slow_bpe(words: Counter[str], merges: int) -> list[tuple[str, str]]:
    """Returns merges by the algorithm of Sennrich et al.: counts all pairs and merges the most frequent, repeatedly."""
    symbols = {word: [chr(byte) for byte in word.encode()] for word in words}
    learned = []
    for _ in range(merges):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in zip(symbols[word], symbols[word][1:]):
                pairs[pair] += count
        ranked = pairs.most_common(2)
        assert ranked[0][1] > ranked[1][1], "a tie: this text cannot decide between two orders"
        best = ranked[0][0]
        learned.append(best)
        for word, letters in symbols.items():
            symbols[word] = _joined(letters, best)
    return learned


def _joined(letters: list[str], pair: tuple[str, str]) -> list[str]:
    joined: list[str] = []
    for letter in letters:
        if joined and (joined[-1], letter) == pair:
            joined[-1] += letter
        else:
            joined.append(letter)
    return joined


def test_merges_are_those_of_the_published_algorithm() -> None:
    random = Random(16)
    words = Counter(
        {"".join(random.choices("abcde", k=random.randint(1, 7))): random.randint(1, 999) for _ in range(50)}
    )
    merges = _slow_bpe(Counter({f" {word}": count for word, count in words.items()}), 25)
    subwords = Subwords.learn([word for word, count in words.items() for _ in range(count)], Bpe(size=259 + 25))
    learned = [subword.replace("▁", " ") for subword in subwords.readable_subwords(range(259, 284))]
    assert learned == [left + right for left, right in merges]
