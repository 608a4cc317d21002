"""A translator with an outsider's search engine: text, batches, streams, documents, and what only torch models do."""

import ast
import copy
import io
import pickle
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from transduce import Translator
from transduce.documents.sentence_translator import sentence_translator
from transduce.search.beam import Decoding, Hypothesis
from transduce.search.cancellation import SearchStoppedError
from transduce.text.glossary import Glossary
from transduce.translation.glossary_translator import GlossaryTranslator


class ReversingEngine:
    """Writes the prefix and the tokens of a source in reverse, up to the bound."""

    max_line_tokens = 50

    def __init__(self):
        self.batches = []

    def search(self, batch, method, check):
        check()
        self.batches.append(batch)
        rows = zip(batch.sources, batch.prefixes, batch.bounds, strict=True)
        return [[Hypothesis([*prefix, *source[::-1]][:bound], -1.0, -0.5)] for source, prefix, bound in rows]


@pytest.fixture
def translator(fluent):
    loaded = Translator.load(fluent)
    return Translator(ReversingEngine(), loaded.source, loaded.target, Decoding(extra_length=3))


def expected(translator, line):
    return translator.target.decode([translator.source.encode([line])[0][::-1]])[0]


def test_an_engine_of_an_outsider_translates_lines_in_batches(translator):
    lines = ["cat dog", "", "the owl saw a mole", "pig"]
    assert translator.translate(lines, batch_tokens=8) == [expected(translator, line) if line else "" for line in lines]
    indices = [batch.indices for batch in translator.engine.batches]
    assert len(indices) > 1
    assert sorted(index for some in indices for index in some) == [0, 2, 3]
    assert list(translator.stream(iter(lines), lookahead=2)) == translator.translate(lines)
    last = translator.engine.batches[-1]
    assert last.bounds == [len(source) + 1 + 3 for source in last.sources]


def test_documents_are_translated_without_alignments(translator):
    of_documents = sentence_translator(translator)
    assert of_documents.align is None
    assert [each.text for each in of_documents.translate(["cat dog"])] == [expected(translator, "cat dog")]


def test_prefixes_tags_stops_and_copies_reach_the_engine(translator):
    (prefix,) = translator.target.encode(["ibis"])
    assert translator.translate_records("cat", prefix="ibis").tokens[: len(prefix)] == prefix
    translator.with_source_tags([7, 8]).translate("cat")
    assert translator.engine.batches[-1].sources[0][:2] == [7, 8]

    def refuse():
        raise SearchStoppedError("the client has left")

    with pytest.raises(SearchStoppedError, match="the client has left"):
        translator.with_stop_check(refuse).translate("cat")
    assert copy.copy(translator).engine is translator.engine
    assert copy.deepcopy(translator).engine is not translator.engine
    with pytest.raises(TypeError, match=r"was not made by `Translator\.load`"):
        pickle.dumps(translator)
    with pytest.raises(ValueError, match="learned positions for 50"):
        translator.translate("owl " * 60)
    assert repr(translator).startswith("Translator(ReversingEngine, ")


def test_scoring_and_explaining_need_torch_models(translator):
    for work in (
        lambda: translator.score(["cat"], ["tac"]),
        lambda: translator.explain("cat"),
        lambda: translator.models,
        translator.check_explicable,
        lambda: GlossaryTranslator(translator, Glossary({"cat": ("Katze",)})),
    ):
        with pytest.raises(ValueError, match="this engine translates alone"):
            work()


LOADED = """
import sys
from transduce import Translator

Translator.load(sys.argv[1]).translate("cat dog")
print({name: module.__file__ for name, module in sys.modules.items() if name.startswith("transduce.")})
"""
COMMAND = """
import atexit, sys
from transduce.commands import main

atexit.register(lambda: print(*sys.modules))
main()
"""
LINES, COMMAND_MODULES = 6_500, 90  # lower them when less is loaded


def test_translating_lines_loads_neither_corpora_nor_training(fluent):
    """A reader of translation would else have to know them."""
    ended = subprocess.run([sys.executable, "-c", LOADED, fluent], capture_output=True, text=True, timeout=200)
    assert (ended.returncode, ended.stderr) == (0, "")
    loaded = ast.literal_eval(ended.stdout)
    rooms = {"model", "model_directory", "runtime", "search", "settings", "storage", "text", "translation"}
    assert {name.split(".")[1] for name in loaded} == rooms
    assert sum(code_lines(Path(path).read_text("utf-8")) for path in loaded.values()) <= LINES


def test_a_line_by_the_command_runs_few_modules(fluent):
    script = (
        "import atexit, sys; from transduce.commands import main; atexit.register(lambda: print(*sys.modules)); main()"
    )
    command = [sys.executable, "-c", script, "translate", fluent]
    ended = subprocess.run(command, input="cat dog\n", capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr
    names = ended.stdout.split("\n")[1].split()
    assert len([name for name in names if name.split(".")[0] == "transduce"]) <= COMMAND_MODULES


def code_lines(text: str) -> int:
    """The lines of a module without blank lines, comments and docstrings."""
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(lines)
