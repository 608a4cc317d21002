"""Each regular expression of the package takes a time that grows with the length of the text, whatever the text is.

Lines and documents of strangers have any length, and a search holds Python's lock: a pattern that scans a run of white
space again for each of its characters stops a server for minutes. The calls are found in the source, so that a new one
is tested as well, or makes a test fail until `examples` has an example of its pattern.
"""

import ast
import functools
import importlib
import inspect
import itertools
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from transduce.corpus.pair_checks import MARKUP
from transduce.documents import markdown_document, srt_document
from transduce.documents.inline_tags import _TAG, string_content
from transduce.inspection.languages import LETTERS
from transduce.parsing.brackets import _ARGUMENTS
from transduce.text.glossary import Glossary, _whole_words

PACKAGE = Path(__file__).parents[1] / "src" / "transduce"
METHODS = ("search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn")
PLACE_OF_FLAGS = {"compile": 1, "split": 3, "sub": 4, "subn": 4}  # among the arguments; 2 for other functions of `re`
LENGTH, SECONDS = 100_000, 0.1
MOST_CHARACTERS = 10  # of a pattern, of which texts are made


class PatternUse(NamedTuple):
    """A pattern, the method that is called on it, and the most characters that the call gives it."""

    pattern: re.Pattern[Any]
    method: str
    length: int = LENGTH


def examples() -> dict[tuple[str, str], list[PatternUse]]:
    """Returns uses of the patterns that only the running program knows, or that are handed to another function.

    A key is the module and the call, or the module and the pattern where no call of its methods is found.
    """
    glossary = Glossary({"a": ("b",), "two words": ("(zwei)",), "中": ("c",), "Ab": ("-",)})
    terms, inline = [PatternUse(glossary._terms, "search")], "transduce.documents.markdown_document"
    words = PatternUse(re.compile(_whole_words("a b")), "finditer")
    inline_patterns = (
        markdown_document._LINE_END,
        markdown_document._HARD_BREAK,
        markdown_document._CODE,
        markdown_document._LINK_END,
        markdown_document._IMAGE_LABEL,
    )
    tags = [
        PatternUse(re.compile(f"{_TAG.pattern}|{codes}"), "finditer")
        for codes in (*inspect.getfullargspec(string_content).defaults, srt_document._CODES)
    ]
    return {
        ("transduce.corpus.pair_checks", MARKUP.pattern): [PatternUse(MARKUP, "match")],
        ("transduce.inspection.languages", "re.compile(f'[{letters}]')"): [
            PatternUse(one, "findall") for one in LETTERS
        ],
        ("transduce.inspection.languages", "pattern.findall(line)"): [],
        ("transduce.parsing.brackets", "re.fullmatch(form, ' '.join(arguments))"): [
            PatternUse(re.compile(form), "fullmatch") for form, _ in _ARGUMENTS.values()
        ],
        (
            "transduce.text.glossary",
            "re.compile('|'.join(map(_occurrences, sorted(targets, key=len, reverse=True))))",
        ): [],
        ("transduce.text.glossary", "self._terms.search(line, position)"): terms,
        ("transduce.text.glossary", "re.compile(_whole_words(capitalise(target)))"): [],
        ("transduce.text.glossary", "re.compile(_whole_words(capitalise(target))).match(output, first.start())"): [
            words._replace(method="match")
        ],
        ("transduce.text.glossary", "re.finditer(_whole_words(target), output)"): [words],
        **{(inline, pattern.pattern): [PatternUse(pattern, "match")] for pattern in inline_patterns},
        (inline, "pattern.match(self.text, self.position)"): [],
        ("transduce.documents.inline_tags", _TAG.pattern): [],
        ("transduce.documents.inline_tags", "re.finditer(f'{_TAG.pattern}|{codes}', text)"): tags,
    }


class PatternCalls:
    """What a module does with regular expressions."""

    def __init__(self, path: Path) -> None:
        self.name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        self.uses: list[PatternUse] = []
        self.compiled: list[re.Pattern[Any]] = []
        self.unknown: list[str] = []  # calls whose pattern has local names
        text = path.read_text("utf-8")
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
        named = [(call, call.func) for call in calls if isinstance(call.func, ast.Attribute)]
        named = [(call, function) for call, function in named if function.attr in (*METHODS, "compile")]
        if not named or not re.search(r"\bre\b|\bregex\b|Pattern", text):
            return
        self._names = vars(importlib.import_module(self.name))
        for call, function in named:
            self._add(call, function)

    def _add(self, call: ast.Call, function: ast.Attribute) -> None:
        """Adds a call, if it is one of the module `re` or of a pattern."""
        method, receiver = function.attr, self._value(function.value, of_receiver=True)
        place = 1 if method in ("sub", "subn") else 0  # of the text among the arguments of a pattern's method
        if receiver is re:
            flags = [word.value for word in call.keywords if word.arg == "flags"]
            flags += call.args[PLACE_OF_FLAGS.get(method, 2) :]
            pattern = self._value(call.args[0])
            if not isinstance(pattern, str | bytes):
                self.unknown.append(ast.unparse(call))
                return
            receiver, place = re.compile(pattern, self._value(flags[0]) if flags else 0), place + 1
        if not isinstance(receiver, re.Pattern):
            self.unknown += [ast.unparse(call)] if receiver is None and method not in ("split", "compile") else []
        elif method == "compile":
            self.compiled.append(receiver)
        else:
            self.uses.append(PatternUse(receiver, method, self._bound(call.args[place])))

    def _bound(self, text: ast.expr) -> int:
        """Returns the most characters of an argument: 4096 of `text[:4096]`."""
        if isinstance(text, ast.Subscript) and isinstance(text.slice, ast.Slice) and text.slice.upper:
            bound = self._value(text.slice.upper) if text.slice.lower is None else None
            return min(LENGTH, bound) if isinstance(bound, int) and bound > 0 else LENGTH
        return LENGTH

    def _value(self, expression: ast.expr, *, of_receiver: bool = False) -> Any:
        """Returns the value of an expression; None where it has local names, or would run more than a pattern needs."""
        if of_receiver and not isinstance(expression, ast.Name | ast.Attribute):
            is_cached = isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name)
            if not is_cached or not hasattr(self._names.get(expression.func.id), "cache_info"):
                return None if not isinstance(expression, ast.Constant) else expression.value
        try:
            return eval(compile(ast.Expression(expression), self.name, "eval"), dict(self._names))
        except (NameError, AttributeError):
            return None


@functools.cache
def calls() -> list[PatternCalls]:
    return [PatternCalls(path) for path in sorted(PACKAGE.rglob("*.py"))]


def unresolved() -> set[tuple[str, str]]:
    """Returns the calls whose patterns only the running program knows, and the patterns that no call is found of."""
    used = {(use.pattern.pattern, use.pattern.flags) for module in calls() for use in module.uses}
    found = {(module.name, call) for module in calls() for call in module.unknown}
    return found | {
        (module.name, pattern.pattern)
        for module in calls()
        for pattern in module.compiled
        if (pattern.pattern, pattern.flags) not in used
    }


def uses() -> list[PatternUse]:
    found = {use for module in calls() for use in module.uses}
    return sorted(
        found | {use for listed in examples().values() for use in listed},
        key=lambda use: (str(use.pattern.pattern), use.method, use.length),
    )


parser: Any = re._parser  # type: ignore[attr-defined]
IN_CATEGORY = {"SPACE": " \n", "DIGIT": "1", "WORD": "a1", "NOT_SPACE": "a", "NOT_DIGIT": "a ", "NOT_WORD": ". "}


def characters_of(item: tuple[Any, Any]) -> str:
    """Returns characters that one item of a parsed pattern matches; nothing for an item that is not a character."""
    operation, argument = str(item[0]), item[1]
    if operation == "LITERAL":
        return chr(argument)
    if operation == "RANGE":
        return chr(argument[0])
    if operation == "CATEGORY":
        return IN_CATEGORY[str(argument).removeprefix("CATEGORY_")]
    if operation == "ANY":
        return "a"
    if operation == "NOT_LITERAL":
        return "a" if argument != ord("a") else "b"
    if operation != "IN":
        return ""
    members = "".join(map(characters_of, argument))
    if str(argument[0][0]) != "NEGATE":
        return members
    pattern = re.compile("[^" + "".join(map(_in_class, argument[1:])) + "]")
    return "".join(character for character in "a 1.\n\0é" if pattern.match(character))[:1]


def _in_class(item: tuple[Any, Any]) -> str:
    """Returns an item of a class of characters as a pattern has it."""
    operation, argument = str(item[0]), item[1]
    if operation == "CATEGORY":
        name = str(argument).removeprefix("CATEGORY_")
        letter = name.removeprefix("NOT_")[0].lower()
        return "\\" + (letter.upper() if name.startswith("NOT_") else letter)
    return "-".join(rf"\U{code:08x}" for code in (argument if operation == "RANGE" else [argument]))


def flat_items(parsed: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the items of a parsed pattern and of what is nested in it."""
    for operation, argument in parsed:
        yield operation, argument
        for part in argument if isinstance(argument, tuple | list) else [argument]:
            if isinstance(part, parser.SubPattern):
                yield from flat_items(part)
            elif isinstance(part, list) and all(isinstance(branch, parser.SubPattern) for branch in part):
                for branch in part:
                    yield from flat_items(branch)


def beginnings(parsed: Any) -> list[str]:
    """Returns the beginnings of texts that a pattern matches, such as `<!--` and `<!-` of `<!--[^>]*-->`."""
    begun, texts = [""], []
    for operation, argument in parsed:
        name = str(operation)
        if name == "BRANCH":
            following = [text for branch in argument[1] for text in beginnings(branch)]
        elif name == "SUBPATTERN":
            following = beginnings(argument[-1])
        elif name == "ATOMIC_GROUP":
            following = beginnings(argument)
        elif "REPEAT" in name:
            least = max(1, int(argument[0]))
            following = [text * least for text in beginnings(argument[2])]
        else:
            following = list(characters_of((operation, argument))[:2])
        grown = [first + text for first in begun for text in following][:12]
        texts += grown
        begun = grown[-2:] or begun
    return list(dict.fromkeys(texts))


def texts(use: PatternUse) -> Iterator[Callable[[int], str]]:
    """Yields functions that return a text of a length: a beginning, repetitions, and an end that may match or not."""
    parsed = parser.parse(use.pattern.pattern, use.pattern.flags)
    characters = list(dict.fromkeys("".join(map(characters_of, flat_items(parsed)))))[:MOST_CHARACTERS]
    begun = beginnings(parsed)
    pairs = map("".join, itertools.permutations(characters, 2))
    for unit in dict.fromkeys([*characters, *pairs, *begun]):
        yield functools.partial(repeated, "", unit, "")
        yield functools.partial(repeated, "", unit, "\0")
    for beginning, unit, end in itertools.product(begun, characters, "\0a"):
        yield functools.partial(repeated, beginning, unit, end)


def repeated(beginning: str, unit: str, end: str, length: int) -> str:
    return (beginning + unit * (length // len(unit) + 1))[: length - len(end)] + end


def seconds(use: PatternUse, text: str) -> float:
    """Returns the processor time of a call."""
    subject = text.encode("latin-1", "replace") if isinstance(use.pattern.pattern, bytes) else text
    method = getattr(use.pattern, use.method)
    arguments = [subject[:0], subject] if use.method in ("sub", "subn") else [subject]
    begun = time.process_time()
    result = method(*arguments)
    if use.method == "finditer":
        deque(result, maxlen=0)
    return time.process_time() - begun


def slowest(use: PatternUse) -> tuple[float, str]:
    """Returns the longest time that a text takes, and what that text is; the first one that exceeds `SECONDS`.

    A text is tried in full where a tenth of it takes a hundredth of `SECONDS`, as it does if the time grows with the
    square of the length, and 20 times as long as a hundredth of it.
    """
    worst = (0.0, "")
    for text in texts(use):
        before = 0.0
        for length in (25, use.length // 100, use.length // 10, use.length):
            taken = seconds(use, text(length))
            if taken > SECONDS or length < use.length // 10:
                taken = min([taken, seconds(use, text(length))])
            worst = max(worst, (taken, f"{text(60)!r} of {length:,} characters"))
            if taken > SECONDS:
                return worst
            if length == use.length // 10 and (taken < SECONDS / 100 or taken < 20 * before):
                break
            before = taken
    return worst


def test_each_pattern_is_known_or_has_an_example() -> None:
    assert len(uses()) > 90
    assert unresolved() == set(examples())


@pytest.mark.parametrize("use", uses(), ids=lambda use: f"{use.method} {use.pattern.pattern!s:.60}")
def test_a_pattern_takes_a_time_that_grows_with_the_length(use: PatternUse) -> None:
    taken, text = slowest(use)
    assert taken <= SECONDS, text
