"""Which source tags a request gives, and what is refused."""

import pytest

from transduce.corpus.corpus_kinds import EmbeddedTrees, Tsv
from transduce.evaluation.score_test_set import request_for_corpus
from transduce.model.translation_model import Vocabulary
from transduce.model_directory.config import Config, TrainedDirection, Weights
from transduce.recipe.presets import PRESETS
from transduce.settings import validated
from transduce.text.subword_training import Bpe
from transduce.text.subwords import Subwords
from transduce.translation.source_request import SourceRequest, choose_tags

PLAIN = Subwords.learn([], Bpe(size=259))
DIRECTIONS = [("en", "de"), ("de", "en"), ("en", "fr"), ("cs", "fr")]


def config(directions=(), tags=(), source=None, target=None):
    values = {
        "model": PRESETS["tiny"]["model"],
        "vocabulary": Vocabulary(source=259, target=259).as_dictionary(),
        "source_language": source,
        "target_language": target,
        "directions": [TrainedDirection(source=a, target=b, pairs=9).as_dictionary() for a, b in directions],
        "tags": list(tags),
        "weights": Weights(kind="last", steps=(1,)).as_dictionary(),
    }
    return validated(Config, values, place="config")


SEVERAL = config(DIRECTIONS)
VOCABULARY = PLAIN.with_tags(["to:de", "to:en", "to:fr"])


@pytest.mark.parametrize(
    ("request_", "tag", "note"),
    [
        (SourceRequest("fr"), "to:fr", None),
        (SourceRequest("de", "en"), "to:de", None),
        (SourceRequest(source_language="cs"), "to:fr", None),  # the only language into which Czech was trained
        (SourceRequest(source_language="de"), "to:en", None),
        (SourceRequest("fr", "de"), "to:fr", "de-fr is zero-shot: the model was trained on cs-fr, de-en, en-de, en-fr"),
        (SourceRequest("en", "fr"), "to:en", "fr-en is zero-shot: the model was trained on cs-fr, de-en, en-de, en-fr"),
    ],
)
def test_a_request_gives_the_tag_of_the_target_language(request_, tag, note):
    chosen = choose_tags(SEVERAL, VOCABULARY, request_)
    assert chosen == ((VOCABULARY.tags[tag],), tag.removeprefix("to:"), note)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (SourceRequest(), "several target languages: name one with --to, or `to` in Python: de, en, fr"),
        (SourceRequest(source_language="en"), "name one with --to, or `to` in Python: de, en, fr"),
        (SourceRequest("cs"), "target language cs: the model does not write this language; it writes de, en, fr"),
        (SourceRequest("de", "nl"), "source language nl: the model was not trained on it; .*: cs, de, en, fr"),
        (SourceRequest("de", tag="news"), "tag news: .* it has no tags: leave it out"),
    ],
)  # fmt: skip
def test_what_a_model_of_several_directions_was_not_trained_on_is_refused(request_, message):
    with pytest.raises(ValueError, match=message):
        choose_tags(SEVERAL, VOCABULARY, request_)


def test_several_directions_into_one_language_need_no_request():
    tagged = PLAIN.with_tags(["to:en"])
    assert choose_tags(config([("de", "en"), ("fr", "en")]), tagged, SourceRequest()) == ((259,), "en", None)


def test_a_model_of_one_direction_accepts_its_own_and_refuses_others():
    single = config(source="en", target="de")
    for asked in (SourceRequest(), SourceRequest("de"), SourceRequest("de", "en"), SourceRequest(None, "en")):
        assert choose_tags(single, PLAIN, asked) == ((), None, None)
    with pytest.raises(ValueError, match="target language en: the model has one direction and translates into de"):
        choose_tags(single, PLAIN, SourceRequest("en"))
    with pytest.raises(ValueError, match="source language fr: the model has one direction and translates from en"):
        choose_tags(single, PLAIN, SourceRequest("de", "fr"))
    with pytest.raises(ValueError, match="target language de: the model does not record its languages"):
        choose_tags(config(), PLAIN, SourceRequest("de"))


def test_a_tag_is_needed_only_where_every_text_had_one_of_several():
    tagged = PLAIN.with_tags(["tag:wsj", "tag:craft"])
    wsj, craft = tagged.tags.values()
    both, some, one = (config(tags=tags) for tags in (["wsj", "craft"], [None, "craft"], ["craft"]))
    assert choose_tags(both, tagged, SourceRequest(tag="craft")).ids == (craft,)
    assert choose_tags(both, tagged, SourceRequest(tag="wsj")).ids == (wsj,)
    assert choose_tags(some, tagged, SourceRequest()).ids == ()
    assert choose_tags(one, tagged, SourceRequest()).ids == (craft,)
    with pytest.raises(
        ValueError, match="every text of the training had a tag: name one with --tag, or `tag` in Python: craft, wsj"
    ):
        choose_tags(both, tagged, SourceRequest())
    with pytest.raises(ValueError, match=r"tag news: .*its tags: craft, wsj"):
        choose_tags(both, tagged, SourceRequest(tag="news"))


def test_the_language_stands_before_the_tag():
    tagged = PLAIN.with_tags(["to:de", "to:en", "tag:synthetic"])
    model = config([("en", "de"), ("de", "en")], [None, "synthetic"])
    assert choose_tags(model, tagged, SourceRequest("en", tag="synthetic")).ids == (260, 261)


def test_a_corpus_requests_its_direction_and_its_tag():
    corpus = Tsv(tsv="t", source_language="en", target_language="de", direction="backward", tag="x")
    assert request_for_corpus(SEVERAL, corpus) == SourceRequest("en", "de", "x")
    assert request_for_corpus(config(source="en", target="de"), corpus) == SourceRequest(tag="x")
    assert request_for_corpus(config(), EmbeddedTrees(embedded_trees="test", tag="wsj")) == SourceRequest(tag="wsj")
