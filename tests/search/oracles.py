"""Slow searches in plain Python, straight from the words of the paper and of its released code's beam search."""

from typing import NamedTuple

from toys import BANNED, END, History, Table


class Found(NamedTuple):
    """A translation without its end symbol."""

    tokens: list[int]
    log_probability: float
    score: float


def penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def exhaustive(table: Table, bound: int, alpha: float) -> list[Found]:
    """Every translation that ends within `bound` words, the end symbol counted, best first."""
    alive: dict[History, float] = {(): 0.0}
    found = []
    for length in range(1, bound + 1):
        rows = dict(zip(alive, table(list(alive)), strict=True))
        for history, total in alive.items():
            log_probability = total + rows[history][END]
            found.append(Found(list(history), log_probability, log_probability / penalty(length, alpha)))
        alive = {
            (*history, token): total + rows[history][token]
            for history, total in alive.items()
            for token in range(len(rows[history]))
            if token not in (*BANNED, END)
        }
    return sorted(found, key=lambda each: -each.score)


def released_beam_search(table: Table, bound: int, beam: int, alpha: float) -> list[Found]:
    """Alive and finished sets; nothing is dropped before the search stops as a whole."""
    alive: list[tuple[float, History]] = [(0.0, ())]
    finished: list[Found] = []
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
            Found(list(history[:-1]), total, total / penalty(length, alpha))
            for total, history in best
            if history[-1] == END
        ]
        finished = sorted(finished + ended, key=lambda each: -each.score)[:beam]
        if not alive:
            break
        if len(finished) == beam and finished[-1].score > alive[0][0] / penalty(bound, alpha):
            break
    return finished or [Found(list(history), total, total / penalty(bound, alpha)) for total, history in alive]


def greedy(table: Table, bound: int) -> Found:
    """The most probable word, again and again."""
    history: History = ()
    total = 0.0
    for _ in range(bound):
        (row,) = table([history])
        token = max((token for token in range(len(row)) if token not in BANNED), key=lambda token: row[token])
        total += row[token]
        if token == END:
            break
        history = (*history, token)
    return Found(list(history), total, total)
