"""Parses sentences to trees with a model, or with an ensemble of models (section 6.3 of the paper)."""

import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from transduce.parsing.tree_repair import flat_tree, repair_tree
from transduce.parsing.tree_symbols import tree_of
from transduce.parsing.trees import Tree, format_tree, unescape_word
from transduce.runtime.extras import install_command
from transduce.runtime.progress import track
from transduce.text.tree_linearisation import MIN_EXTRA_LENGTH, InOrder, TopDown
from transduce.translation.engine import TranslationPrecision
from transduce.translation.results import Translation
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import BATCH_TOKENS, Translator

_log = logging.getLogger("transduce")


class Parse(NamedTuple):
    """A parse of a sentence. `str()` and `print` give the tree in brackets.

    If the symbols that the model generated do not form a tree, they are repaired, and `fault` gives the reason;
    otherwise `fault` is None. `score` ranks the hypotheses of a sentence: in beam search, it is the log-probability
    divided by the length penalty.
    """

    tree: Tree
    log_probability: float  # natural logarithm, including EOS
    score: float
    fault: str | None
    tokens: int  # the number of symbols that the model generated, including EOS

    def __str__(self) -> str:
        return format_tree(self.tree)


def check_parses(linearisation: TopDown | InOrder | None) -> TopDown | InOrder:
    """Returns the linearisation of a parser; raises ValueError if it is None, as in a translation model."""
    if linearisation is None:
        raise ValueError("this model translates and does not parse: use `transduce translate`, or train on trees")
    return linearisation


class Parser:
    """Parses sentences with a model, or with an ensemble of models that share the vocabularies of words and symbols."""

    def __init__(self, translator: Translator) -> None:
        """Creates a parser from a translator; raises ValueError if its model is a translation model, not a parser."""
        self.translator, self.linearisation = translator, check_parses(translator.linearisation)

    @classmethod
    def load(
        cls,
        *directories: Path | str,
        device: str = "cpu",
        precision: TranslationPrecision = "float32",
        tag: str | None = None,
    ) -> "Parser":
        """Loads a model from a directory, or an ensemble from several directories.

        The arguments and the errors raised are those of `Translator.load`.
        """
        return cls(Translator.load(*directories, device=device, precision=precision, tag=tag))

    def parse(
        self,
        sentences: Sequence[Sequence[str]],
        method: SearchMethod | None = None,
        *,
        batch_tokens: int = BATCH_TOKENS,
        lines_before: int = 0,
    ) -> list[list[Parse]]:
        """Parses sentences, which are lists of words. Returns the parses of each sentence, with the best one first.

        An empty sentence has no parses. A sentence that cannot be parsed gets a flat tree with a log-probability of −∞,
        and a warning is logged. The warning contains the number of the sentence, which is its position in `sentences`,
        counted from 1, plus `lines_before`. Raises TypeError if a sentence is not a list of words, and ValueError if a
        word is empty or contains white space, or if the search has an option that is only for translations.
        """
        method = method or SearchMethod(self.translator.decoding)
        if method.decoding.no_repeat_ngram is not None:
            raise ValueError("`no_repeat_ngram` is for translations: leave it out")
        lines = []
        for number, words in enumerate(sentences, start=lines_before + 1):
            if isinstance(words, str) or not all(isinstance(word, str) for word in words):
                raise TypeError(f"sentence {number} is not a list of words: split it into words, each a str")
            for word in words:
                if not word or word.split() != [word]:
                    raise ValueError(
                        f"sentence {number} has the word {word!r}: a word is not empty and has no white space"
                    )
            lines.append(" ".join(map(unescape_word, words)))
        faults = self.translator.line_faults(lines)
        # The largest number of words for which the smallest possible tree does not exceed the limit on tokens.
        limit = self.translator.max_line_tokens + 1 - MIN_EXTRA_LENGTH
        for index, words in enumerate(sentences):
            if len(words) > limit:
                faults[index] = f"has {len(words):,} words, and the model parses at most {limit:,}; split the sentence"
        parseable = ["" if index in faults else line for index, line in enumerate(lines)]
        results: list[list[Parse]] = [[] for _ in sentences]
        each = self.translator.translate_each(parseable, method, batch_tokens=batch_tokens, lines_before=lines_before)
        with track("parsing", sum(map(bool, parseable))) as progress:
            for index, best in each:
                if isinstance(best, str):
                    faults[index] = best
                else:
                    results[index] = [self._parse(translation, sentences[index]) for translation in best]
                progress.advance()
        for index, fault in sorted(faults.items()):
            _log.warning("warning: line %s %s; it has a flat tree", lines_before + index + 1, fault)
            results[index] = [Parse(flat_tree(sentences[index]), -math.inf, -math.inf, fault, 0)]
        return results

    def _parse(self, translation: Translation, words: Sequence[str]) -> Parse:
        """Builds a tree from the output of the model, which is repaired first if it is not a tree."""
        symbols = translation.text.split()
        try:
            tree, fault = tree_of(symbols, words, self.linearisation), None
        except ValueError as error:
            tree, fault = repair_tree(symbols, words, self.linearisation), str(error)
        return Parse(tree, translation.log_probability, translation.score, fault, len(translation.tokens) + 1)


def split_treebank_words() -> Callable[[str], list[str]]:
    """Returns a function that splits a sentence into words with NLTK; raises ValueError if NLTK is not installed.

    The function first replaces typographic apostrophes with straight ones, because NLTK splits words only at these.
    """
    try:
        from nltk.tokenize import NLTKWordTokenizer
    except ImportError:
        raise ValueError(
            f"splitting sentences into words needs NLTK: {install_command('parsing')}; or give words between "
            "spaces, and add --tokenised"
        ) from None
    tokenizer = NLTKWordTokenizer()
    return lambda sentence: list(tokenizer.tokenize(sentence.replace("’", "'")))
