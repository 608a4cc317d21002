"""Text that is cut already: what stands between spaces is a token, in training, translating and the files."""

import json
from collections import Counter

import pytest
import tokenizers

from transduce import Translator
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.store.preparation import prepare
from transduce.recipe.recipe import load
from transduce.run.train import TrainOptions, run_training
from transduce.text.byte_level import END, SYMBOLS
from transduce.text.subword_training import Pretokenised
from transduce.text.symbol_vocabulary import UNKNOWN, UNKNOWN_SYMBOL, SymbolVocabulary
from transduce.text.token_vocabulary import load_subwords

LINES = ["▁the ▁old ▁d og", "▁the ▁old ▁c at", "▁the ▁c at @@x ⟨/s⟩"]


@pytest.fixture
def corpus(tmp_path):
    for name in ("train.en", "train.de"):
        (tmp_path / name).write_text("\n".join(LINES) + "\n", "utf-8")
    files = {"source": str(tmp_path / "train.en"), "target": str(tmp_path / "train.de")}
    return {"train": files, "source_language": "en", "target_language": "de"}


@pytest.mark.parametrize("shared", [True, False])
def test_each_word_between_spaces_is_a_token(tmp_path, corpus, shared):
    made = prepare(DataSpec.model_validate(corpus), Pretokenised(shared=shared), tmp_path / "store", threads=1)
    assert (made.source is made.target) == shared
    for side in load_subwords(tmp_path / "store", shared=shared):
        assert side.decode(side.encode(LINES)) == [*LINES[:2], LINES[2].replace(SYMBOLS[END], UNKNOWN_SYMBOL)]
        assert side.size == UNKNOWN + 1 + len({token for line in LINES for token in line.split()} - {SYMBOLS[END]})
        library = tokenizers.Tokenizer.from_str(side.as_json())
        assert [encoding.ids for encoding in library.encode_batch(LINES[:2])] == side.encode(LINES[:2])


def test_the_most_frequent_tokens_are_kept():
    side = SymbolVocabulary.of_counts(Counter("b a a a c b d".split()), size=UNKNOWN + 3)
    assert side.vocabulary[UNKNOWN:] == [UNKNOWN_SYMBOL, "a", "b"]
    assert side.encode(["a c"]) == [[UNKNOWN + 1, UNKNOWN]]


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"noise": {}}, "`data.noise` changes text before it is cut, and this text is cut already"),
        ({"train": {"embedded_trees": "test"}}, "`subwords.kind: pretokenised` is not for trees"),
        ({"train": {"embedded": "test", "tag": "x"}}, "`subwords.kind: pretokenised` is not for corpora of several"),
    ],
)
def test_what_does_not_go_together_is_named(tmp_path, corpus, changed, fault):
    with pytest.raises(ValueError, match=fault):
        prepare(DataSpec.model_validate(corpus | changed), Pretokenised(), tmp_path / "store", threads=1)


def test_a_run_trains_resumes_translates_and_scores(micro, tmp_path):
    spec = json.dumps({"kind": "pretokenised", "size": 40})
    changes = ["training.steps=3", "training.save_every=1", f"subwords={spec}"]
    run_training(load(micro / "recipe.yaml", changes), tmp_path / "run")
    run_training(load(micro / "recipe.yaml", [*changes, "training.steps=5"]), tmp_path / "run")
    translator = Translator.load(tmp_path / "run")
    words = translator.source.vocabulary[UNKNOWN + 1 : UNKNOWN + 3]
    (translation,) = translator.translate([" ".join(words)])
    assert set(translation.split()) <= set(translator.target.vocabulary)
    assert translator.score(words, words)[0] < 0
    with pytest.raises(ValueError, match="'nobody', no token of this model, which takes text that is cut already"):
        translator.score(words[:1], ["nobody"])
    grown = TrainOptions(start_from=tmp_path / "run", grow_vocabulary=5)
    with pytest.raises(ValueError, match="the source subwords of --from are no BPE over bytes, and cannot grow"):
        run_training(load(micro / "recipe.yaml", changes), tmp_path / "grown", grown)
