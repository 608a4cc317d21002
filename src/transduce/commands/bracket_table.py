"""Formats the scores of parse trees, which `transduce measure` and `transduce evaluate` print."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transduce.parsing.bracket_scores import BracketScore

# The rows of the table: the title, the name in JSON, and the number of decimal places.
ROWS = (
    ("F1", "score", 2),
    ("recall", "recall", 2),
    ("precision", "precision", 2),
    ("F1 with errors", "f1_with_errors", 2),
    ("complete match", "complete_match", 2),
    ("average crossing", "average_crossing", 2),
    ("no crossing", "no_crossing", 2),
    ("two or less crossing", "two_or_less_crossing", 2),
    ("tagging accuracy", "tagging_accuracy", 2),
    ("sentences", "sentences", 0),
    ("valid", "valid", 0),
    ("errors", "errors", 0),
    ("skipped", "skipped", 0),
    ("punctuation put back", "put_back", 0),
    ("F1 without them", "f1_without_put_back", 2),
)


def bracket_table(score: "BracketScore") -> str:
    """Formats the score with its signature, and a table with columns for all sentences and for the short ones.

    Short sentences are those with at most `score.cutoff` words.
    """
    totals = score.as_object()
    short = totals[f"up_to_{score.cutoff}"]
    rows = [f"{'':22}{'all':>8}  {f'up to {score.cutoff} words':>14}"]
    for title, name, digits in ROWS:
        if totals["put_back"] or name not in ("put_back", "f1_without_put_back"):
            rows.append(f"{title:22}{totals[name]:8.{digits}f}  {short[name]:14.{digits}f}")
    return "\n".join((f"brackets  {format_brackets(score)}  {score.signature}", *rows))


def format_brackets(score: "BracketScore") -> str:
    """Formats the F1 score, with its confidence interval if there is one."""
    interval = "" if score.low is None else f"  [{score.low:.2f}, {score.high:.2f}]"
    return f"{score.f1:6.2f}{interval}"
