"""Source tags: ids that no text is encoded as, in files that Hugging Face's `tokenizers` reads."""

import json

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from transduce.text.source_tags import tag_of_subword
from transduce.text.subword_training import Bpe, WordPiece
from transduce.text.subwords import Subwords
from transduce.text.symbol_vocabulary import SymbolVocabulary
from transduce.text.token_vocabulary import ids_of_tags, names_languages, parse_vocabulary, tags_of

LINES = ["the owl saw a mole", "the mole saw the owl"] * 5
PLAIN = [Subwords.learn(LINES, spec) for spec in (Bpe(size=270), WordPiece(size=530))]
TAGS = ["to:de", "to:zh-Hans", "tag:synthetic"]
SPELLINGS = ["⟨to:de⟩", "<to:de>", "⟨tag:synthetic⟩ owl", "⟨pad⟩", "to:de", "⟨to:de⟩⟨to:de⟩"]


@pytest.mark.parametrize("plain", PLAIN, ids=["bpe", "wordpiece"])
def test_tags_get_the_ids_after_the_last_and_change_no_encoding(plain):
    tagged = plain.with_tags(TAGS)
    assert tagged.tags == {tag: plain.size + place for place, tag in enumerate(TAGS)}
    assert tagged.size == plain.size + len(TAGS)
    assert plain.tags == {}
    for lines in (LINES, SPELLINGS):
        assert tagged.encode(lines) == plain.encode(lines)
    assert plain.with_tags([]) is plain


@pytest.mark.parametrize("plain", PLAIN, ids=["bpe", "wordpiece"])
@given(text=st.text(max_size=20))
def test_no_text_is_encoded_as_a_tag(plain, text):
    tagged = plain.with_tags(TAGS)
    (ids,) = tagged.encode([f"{text}⟨to:de⟩{text}"])
    assert not set(ids) & set(tagged.tags.values())
    assert tagged.decode([ids]) == [f"{text}⟨to:de⟩{text}"]


@pytest.mark.parametrize("plain", PLAIN, ids=["bpe", "wordpiece"])
def test_decoding_leaves_tags_out_and_readable_subwords_show_them(plain):
    tagged = plain.with_tags(TAGS)
    (ids,) = tagged.encode(["the owl"])
    assert tagged.decode([[tagged.tags["to:zh-Hans"], *ids]]) == ["the owl"]
    shown = tagged.readable_subwords([tagged.tags["to:zh-Hans"], *ids, 2])
    assert (shown[0], "".join(shown[1:])) == ("<to:zh-Hans>", "▁the▁owl</s>")
    assert not tagged.begins_word[list(tagged.tags.values())].any()
    assert tagged.begins_word[ids[0]]


@pytest.mark.parametrize("plain", PLAIN, ids=["bpe", "wordpiece"])
def test_a_saved_file_gives_the_same_ids_here_and_in_the_library(plain, tmp_path):
    tagged, path = plain.with_tags(TAGS), tmp_path / "tokenizer.json"
    tagged.save(path)
    assert parse_vocabulary(path.read_bytes(), place="file").tags == tagged.tags
    library = tokenizers.Tokenizer.from_file(str(path))
    for line in LINES + SPELLINGS:
        assert library.encode(line).ids == tagged.encode([line])[0]
    assert library.token_to_id("⟨to:de⟩") == tagged.tags["to:de"]


def test_a_file_with_a_subword_that_is_neither_bytes_nor_a_tag_is_refused():
    content = json.loads(PLAIN[0].with_tags(["to:de"]).as_json())
    vocabulary = content["model"]["vocab"]
    for name in ("⟨to:d e⟩", "⟨to:⟩", "⟨de⟩", "⟨to:d⟩e⟩"):
        assert tag_of_subword(name) is None
        changed = {name if key == "⟨to:de⟩" else key: token for key, token in vocabulary.items()}
        content["model"]["vocab"] = changed
        with pytest.raises(ValueError, match="holds no subwords of transduce"):
            Subwords.parse(json.dumps(content, ensure_ascii=False).encode(), place="file")


def test_a_missing_tag_is_named_and_other_vocabularies_have_none():
    tagged = PLAIN[0].with_tags(["to:de", "tag:wsj"])
    assert ids_of_tags(tagged, ["tag:wsj", "to:de"]) == [tagged.tags["tag:wsj"], tagged.tags["to:de"]]
    with pytest.raises(ValueError, match=r"no tag to:fr, its tags: to:de, tag:wsj"):
        ids_of_tags(tagged, ["to:fr"])
    assert names_languages(tagged)
    assert not names_languages(PLAIN[0].with_tags(["tag:wsj"]))
    assert tags_of(SymbolVocabulary(["(S", ")S"])) == {}


def test_dropout_of_merges_encodes_no_tag():
    tagged = PLAIN[0].with_tags(TAGS)
    encoded = tagged.encode_with_dropout(SPELLINGS, 0.5, np.arange(len(SPELLINGS), dtype=np.uint64))
    assert not set(np.concatenate(encoded)) & set(tagged.tags.values())
    assert tagged.decode(encoded) == SPELLINGS
