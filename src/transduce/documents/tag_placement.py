"""Places the tags and codes of a source sentence in its translation. Pairs stay balanced, whatever the alignment.

The following example shows the steps. Because a model translates text best without tags and placeholders, `segments`
has removed them from the sentence

    Now <b>press <i>Enter</i></b> {n} times.

The arguments of `place_markers` are then:

    source      Now press Enter times.
    markers     at 4 <b>, at 10 <i>, at 15 </i>, at 15 </b>, at 16 {n} with a space on both sides
    target      Jetzt Enter drücken mal.
    alignment   Now–Jetzt, Enter–Enter, press–drücken, times–mal

1. `link_pieces` splits both texts into pieces: words, and each punctuation character around them, because a tag can
   come between a word and its full stop. The link of a target piece is the number of its source piece:

       source pieces    0 Now      1 press    2 Enter      3 times    4 .
       target pieces    0 Jetzt    1 Enter    2 drücken    3 mal      4 .
       links              0          2          1            3          4

2. `_nest` builds a tree of the markers: <b> with its child <i>, and {n} as a sibling of <b>.

3. `_Placement` chooses target pieces for each node, parents before children:

   - <b> encloses source pieces 1 and 2. A run of target pieces scores +1 for each piece that is linked to source piece
     1 or 2, and −1 for each other piece. The best run is target pieces 1 and 2, "Enter drücken", with a score of 2.
   - <i> encloses source piece 2. It may only take pieces from the run of its parent, so that pairs stay nested. It
     takes target piece 1.
   - {n} comes before source piece 3, so it is placed before the target piece that is linked to it, at boundary 3.

4. `_emit` and `_with_spaces` write the pieces and markers in order: Jetzt <b><i>Enter</i> drücken</b> {n} mal.

The words inside a pair may be separated in the translation. For the target "Drücken Sie jetzt Enter mal.", the links
are 1 1 0 2 3 4. The run "Drücken Sie" scores 2. The longer run "Drücken Sie jetzt Enter" scores 2 − 1 + 1 = 2, which is
no improvement, so <b> takes the first run. No piece of this run is linked to "Enter", so <i> takes the free piece
nearest to its relative position, "Sie". The result is <b>Drücken <i>Sie</i></b> jetzt Enter {n} mal. The emphasis is on
the wrong word, but the markup is valid, and every tag occurs exactly once, as documents require. For a format that
allows a pair to be repeated, a better placement would be possible.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from transduce.documents.document import ClosingTag, OpeningTag
from transduce.documents.segments import NO_SPACE_BEFORE, Marker
from transduce.documents.sentence_splitter import SPACELESS, SPACELESS_CHARACTER
from transduce.runtime.combining_marks import combining_marks

_WORD = re.compile(r"[^ \t\n]+")  # must be the definition of a word in `translation.alignment`
_MARKS = combining_marks()
_CHARACTER_OR_WORD = re.compile(f"[{SPACELESS}][{_MARKS}]*|[^{SPACELESS}]+")
_PART = re.compile(rf"^(?P<prefix>[^\w{_MARKS}]*)(?P<core>(?:.*[\w{_MARKS}])?)(?P<suffix>[^\w{_MARKS}]*)$", re.DOTALL)


class TextPiece(NamedTuple):
    """A part of a word: its core, or one punctuation character before or after the core.

    `start` and `end` are offsets in the text, and `word` is the index of the word.
    """

    start: int
    end: int
    word: int
    part: str  # "prefix", "core" or "suffix"


def split_pieces(text: str) -> list[TextPiece]:
    """Splits the words of a text into pieces. In scripts without spaces, each character counts as a word."""
    words = [
        (match.start() + inner.start(), match.start() + inner.end())
        for match in _WORD.finditer(text)
        for inner in _CHARACTER_OR_WORD.finditer(match.group())
    ]
    pieces = []
    for number, (start, end) in enumerate(words):
        parts = _PART.match(text[start:end])
        assert parts is not None
        for name in ("prefix", "core", "suffix"):
            first, last = start + parts.start(name), start + parts.end(name)
            step = max(1, last - first) if name == "core" else 1
            pieces += [TextPiece(index, index + step, number, name) for index in range(first, last, step)]
    return pieces


def link_pieces(
    source: str, target: str, alignment: Sequence[tuple[int, int]] | None
) -> tuple[list[TextPiece], list[TextPiece], list[int]]:
    """Returns the pieces of both texts and, for each target piece, the index of the source piece it is linked to.

    The index is −1 for a target piece without a link. `alignment` contains the pairs (source word, target word) that
    `aligned_words` returns. If it is None, or if either text contains a script without spaces, words are linked by
    their relative position.
    """
    pieces, target_pieces = split_pieces(source), split_pieces(target)
    words = pieces[-1].word + 1 if pieces else 0
    target_words = target_pieces[-1].word + 1 if target_pieces else 0
    if alignment is None or SPACELESS_CHARACTER.search(source) or SPACELESS_CHARACTER.search(target):
        linked = {word: min(words - 1, (2 * word + 1) * words // (2 * target_words)) for word in range(target_words)}
    else:
        linked = {target_word: min(word, words - 1) for word, target_word in alignment}
    places = {(piece.word, piece.part): number for number, piece in enumerate(pieces)}
    punctuation = defaultdict[tuple[str, str], list[int]](list)  # the words that have a punctuation character
    numbers: dict[tuple[tuple[str, str], int], int] = {}
    for number, piece in enumerate(pieces):
        if piece.part != "core":
            key = (piece.part, source[piece.start : piece.end])
            punctuation[key].append(piece.word)
            numbers.setdefault((key, piece.word), number)
    links = []
    for piece in target_pieces:
        word, key = linked.get(piece.word), (piece.part, target[piece.start : piece.end])
        if word is None:
            links.append(-1)
        elif key in punctuation:  # link to the same character, for example a comma, at the nearest word that has it
            words_with_it, after = punctuation[key], bisect_left(punctuation[key], word)
            nearest = min(words_with_it[max(0, after - 1) : after + 1], key=lambda other: abs(other - word))
            links.append(numbers[key, nearest])
        else:  # link to the same part of the linked word, or to another part of that word
            parts = (piece.part, "core", "suffix", "prefix")
            links.append(next((places[word, part] for part in parts if (word, part) in places), -1))
    if pieces and target_pieces and pieces[-1].part == target_pieces[-1].part == "suffix":
        links[-1] = len(pieces) - 1
    return pieces, target_pieces, links


@dataclass
class TagNode:
    """A node in the tree of markers: a pair with the nodes inside it, or a code.

    Once the node is placed, it encloses the target pieces from `start` up to, but not including, `end`.
    """

    marker: Marker
    closing: Marker | None = None
    children: list["TagNode"] = field(default_factory=list)
    start: int = 0
    end: int = 0

    @property
    def source_end(self) -> int:
        """The offset in the source at which the node ends."""
        return self.marker.offset if self.closing is None else self.closing.offset


def place_markers(
    source: str, markers: Sequence[Marker], target: str, alignment: Sequence[tuple[int, int]] | None
) -> list[str | Marker]:
    """Returns the translation with all markers inserted and with the spaces around codes.

    `markers` have offsets in `source`, and their pairs are nested. A pair encloses the run of target words that best
    matches its source words. A code is placed next to the translation of the word beside it. The Bergamot project also
    places tags by alignment, but it repeats tags instead of choosing a single run.
    """
    pieces, target_pieces, links = link_pieces(source, target, alignment)
    nodes = _nest(markers)
    _Placement(source, pieces, links).place(nodes, 0, len(target_pieces))
    return _with_spaces(list(_emit(nodes, 0, len(target_pieces))), target, target_pieces, source)


def _nest(markers: Sequence[Marker]) -> list[TagNode]:
    """Builds the trees of markers, in which a pair is the parent of the nodes inside it, and returns their roots."""
    top: list[TagNode] = []
    path: list[TagNode] = []
    for marker in markers:
        if isinstance(marker.item, ClosingTag):
            path.pop().closing = marker
            continue
        node = TagNode(marker)
        (path[-1].children if path else top).append(node)
        if isinstance(marker.item, OpeningTag):
            path.append(node)
    assert not path, "an opening tag without its closing tag"
    return top


class _Placement:
    """Chooses target pieces for nodes.

    `links` contains the index of the source piece that each target piece is linked to, or −1 if there is none.
    """

    def __init__(self, source: str, pieces: Sequence[TextPiece], links: Sequence[int]) -> None:
        self.source, self.pieces, self.links = source, pieces, links
        self._starts, self._ends = [piece.start for piece in pieces], [piece.end for piece in pieces]
        self._places = defaultdict[int, list[int]](list)  # the target pieces of each source piece, in order
        for index, number in enumerate(links):
            self._places[number].append(index)

    def place(self, nodes: Sequence[TagNode], low: int, high: int) -> None:
        """Places sibling nodes and their children among the target pieces from `low` to `high` − 1.

        No two siblings overlap.
        """
        pairs = [node for node in nodes if node.closing is not None]
        taken = set[int]()
        for node in pairs:
            node.start, node.end = self._run(node, taken, low, high)
            taken.update(range(node.start, node.end))
            self.place(node.children, node.start, node.end)
        filled = sorted((pair.start, pair.end) for pair in pairs if pair.start < pair.end)
        for node in nodes:
            if node.closing is None:
                index = self._beside(node.marker, taken, low, high)
                before = bisect_left(filled, (index,)) - 1  # the last pair that begins before the index
                if before >= 0 and index < filled[before][1]:
                    start, end = filled[before]
                    index = start if index - start <= end - index else end
                node.start = node.end = index

    def _run(self, node: TagNode, taken: Set[int], low: int, high: int) -> tuple[int, int]:
        """Returns the run of free target pieces with the best score for a pair.

        Each piece in the run scores +1 if it is linked to a source piece inside the pair, and −1 otherwise. If no free
        piece is linked to the pair, returns the free piece nearest to the relative position of the pair, or an empty
        run if there is none.
        """
        first = bisect_right(self._ends, node.marker.offset)  # first to last − 1: the source pieces inside the node
        last = bisect_left(self._starts, node.source_end)
        if first >= last:
            first = last = self._piece_at(node.marker.offset)
        best, run = (0.0, low, low), (0.0, low)
        linked = [index for number in range(first, last) for index in self._linked(number, low, high)]
        # Kadane's algorithm: a run continues while its score is above 0; otherwise the next piece begins a new run. The
        # best run begins and ends with a linked piece.
        for index in range(min(linked), max(linked) + 1) if linked else ():
            if index in taken:
                run = (0.0, index + 1)
                continue
            score, start = run if run[0] > 0 else (0.0, index)
            score += 1.0 if first <= self.links[index] < last else -1.0
            run = (score, start)
            if score > best[0]:
                best = (score, start, index + 1)
        if best[0] > 0:
            return best[1:]
        # Take the free piece nearest to the relative position of the source pieces, or an empty run if there is none.
        middle = (first + last) / 2 / max(1, len(self.pieces)) * len(self.links)
        places = _from_the_middle(middle - 0.5, low, high) if first < last else iter(())
        nearest = next((index for index in places if index not in taken), None)
        if nearest is None:
            return (self._free_boundary(first, taken, low, high),) * 2
        return nearest, nearest + 1

    def _piece_at(self, place: int) -> int:
        """Returns the index of the first source piece that begins at or after an offset."""
        return bisect_left(self._starts, place)

    def _linked(self, number: int, low: int, high: int) -> list[int]:
        """Returns the first and the last target piece, from `low` to `high` − 1, that are linked to a source piece.

        Returns an empty list if there is none.
        """
        places = self._places.get(number, [])
        begin, end = bisect_left(places, low), bisect_left(places, high)
        return [places[begin], places[end - 1]] if begin < end else []

    def _free_boundary(self, piece: int, taken: Set[int], low: int, high: int) -> int:
        """Returns the boundary between target pieces that is nearest to the relative position of a source piece.

        Boundaries inside the run of a sibling are excluded.
        """
        relative = round(piece / max(1, len(self.pieces)) * len(self.links))
        return next(
            index
            for index in _from_the_middle(relative, low, high + 1)
            if index in (low, high) or not {index - 1, index} <= taken
        )

    def _beside(self, marker: Marker, taken: Set[int], low: int, high: int) -> int:
        """Returns the boundary between target pieces at which a code is placed.

        A code is placed before the translation of the source piece that follows it or, if that piece has none, after
        the translation of the source piece before it. If the code has no space before it and no word directly after it,
        these two are tried in the reverse order.
        """
        following = self._piece_at(marker.offset)
        before = self._linked(following, low, high)
        after = self._linked(following - 1, low, high) if following else []
        if following == len(self.pieces) and not after:
            return high
        choices = [before[0] if before else None, after[-1] + 1 if after else None]
        if not marker.before and not self.source[marker.offset : marker.offset + 1].isalnum():
            choices.reverse()
        chosen = next((index for index in choices if index is not None), None)
        return self._free_boundary(following, taken, low, high) if chosen is None else chosen


def _from_the_middle(middle: float, low: int, high: int) -> Iterator[int]:
    """Yields the integers from `low` to `high` − 1, the nearest to `middle` first.

    Of two integers at the same distance, the lower one comes first.
    """
    after = min(max(math.ceil(middle), low), high)
    before = after - 1
    while before >= low or after < high:
        if after >= high or (before >= low and middle - before <= after - middle):
            yield before
            before -= 1
        else:
            yield after
            after += 1


def _emit(nodes: Sequence[TagNode], low: int, high: int) -> Iterator[int | Marker]:
    """Yields the indices of the target pieces from `low` to `high` − 1 and the markers, in the order of the output."""
    index = low
    for node in sorted(nodes, key=lambda node: (node.start, node.end)):
        yield from range(index, node.start)
        yield node.marker
        if node.closing is not None:
            yield from _emit(node.children, node.start, node.end)
            yield node.closing
        index = node.end
    yield from range(index, high)


def _with_spaces(
    items: Sequence[int | Marker], target: str, pieces: Sequence[TextPiece], source: str
) -> list[str | Marker]:
    """Replaces the index of each target piece with its text, and adds the white space between pieces and codes."""
    output: list[str | Marker] = []
    waiting: list[Marker] = []
    end = 0  # of the last piece
    for item in items:
        if isinstance(item, Marker):
            waiting.append(item)
            continue
        piece = pieces[item]
        gap, text = target[end : piece.start], target[piece.start : piece.end]
        output += _at_boundary(waiting, gap, item == 0, text, source)
        output.append(text)
        waiting, end = [], piece.end
    return output + _at_boundary(waiting, " ", not pieces, "", source)


def _at_boundary(
    markers: Sequence[Marker], gap: str, is_first: bool, following: str, source: str
) -> list[str | Marker]:
    """Returns the markers between two target pieces, with the white space `gap` of the translation among them.

    The gap comes after closing tags and before opening tags. A code keeps the spaces that it has in the source, except
    that no space is added before punctuation in `following` that takes none. In these examples, _ stands for the gap:

        dog</b>_<i>cat       markers </b> and <i> between "dog" and "cat"
        sees_{n}_dogs        marker {n}, which had a space on both sides: one gap becomes two
        sees_{n}.            the same marker before "."
        ({n}_dogs            marker {n} of the source "({n} dogs", which had no space on its left and gets none
    """
    output: list[str | Marker] = []
    has_space = is_first
    last_code = max((number for number, marker in enumerate(markers) if marker.is_code), default=-1)
    for number, marker in enumerate(markers):
        left_glued = (
            marker.is_code and not marker.before and source[max(0, marker.offset - 1) : marker.offset].strip() != ""
        )
        wants = gap or marker.before if marker.is_code and not left_glued else ""
        wants = gap if isinstance(marker.item, OpeningTag) and number > last_code else wants
        if wants and not has_space:
            output.append(wants)
        has_space = has_space or bool(wants)
        output.append(marker)
        has_space = has_space and not marker.is_code
    if not following:
        return output
    space = gap
    if last_code >= 0 and following and not is_first:
        code = markers[last_code]
        next_character = source[code.offset : code.offset + 1].strip()
        right_glued = not code.after and next_character != "" and next_character not in NO_SPACE_BEFORE
        space = "" if right_glued else gap or code.after
        space = "" if not gap and following.startswith(NO_SPACE_BEFORE) else space
    elif last_code >= 0 and following:
        space = markers[last_code].after
    if space and not has_space:
        output.append(space)
    return output
