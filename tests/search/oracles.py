"""Slow searches in plain Python, written from the paper and from the beam search of its released code."""

from typing import NamedTuple

from toys import BANNED, END, History, Table


class SearchResult(NamedTuple):
    """A translation without its end symbol."""

    tokens: list[int]
    log_probability: float
    score: float


def penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def exhaustive(table: Table, bound: int, alpha: float) -> list[SearchResult]:
    """Returns every translation that ends within `bound` tokens, the end symbol counted, best first."""
    alive: dict[History, float] = {(): 0.0}
    finished = []
    for length in range(1, bound + 1):
        rows = dict(zip(alive, table(list(alive)), strict=True))
        for history, total in alive.items():
            log_probability = total + rows[history][END]
            finished.append(SearchResult(list(history), log_probability, log_probability / penalty(length, alpha)))
        alive = {
            (*history, token): total + rows[history][token]
            for history, total in alive.items()
            for token in range(len(rows[history]))
            if token not in (*BANNED, END)
        }
    return sorted(finished, key=lambda result: -result.score)


def released_beam_search(table: Table, bound: int, beam: int, alpha: float) -> list[SearchResult]:
    """Searches with sets of live and finished hypotheses; drops none before the whole search stops.

    That is the released code's search, but for one rule: it stops when all places are filled. The released code may
    stop with fewer, so that both have the same best hypothesis, and this one the whole n-best list.
    """
    alive: list[tuple[float, History]] = [(0.0, ())]
    finished: list[SearchResult] = []
    for length in range(1, bound + 1):
        rows = table([history for _, history in alive])
        grown = [
            (total + log_probability, (*history, token))
            for (total, history), row in zip(alive, rows, strict=True)
            for token, log_probability in enumerate(row)
            if token not in BANNED and log_probability > float("-inf")
        ]
        best = sorted(grown, reverse=True)[: 2 * beam]
        alive = [(total, history) for total, history in best if history[-1] != END][:beam]
        ended = [
            SearchResult(list(history[:-1]), total, total / penalty(length, alpha))
            for total, history in best
            if history[-1] == END
        ]
        finished = sorted(finished + ended, key=lambda result: -result.score)[:beam]
        if not alive:
            break
        if len(finished) == beam and finished[-1].score > alive[0][0] / penalty(bound, alpha):
            break
    return finished or [SearchResult(list(history), total, total / penalty(bound, alpha)) for total, history in alive]


def greedy(table: Table, bound: int) -> SearchResult:
    """Takes the most probable token at every step."""
    history: History = ()
    total = 0.0
    for _ in range(bound):
        (row,) = table([history])
        token = max((token for token in range(len(row)) if token not in BANNED), key=lambda token: row[token])
        total += row[token]
        if token == END:
            break
        history = (*history, token)
    return SearchResult(list(history), total, total)
