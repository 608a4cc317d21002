"""The script of a line, and the lines in another script than the rest of their side."""

import re

import numpy as np
from numpy.typing import NDArray

__all__ = ["SCRIPTS", "lines_in_other_scripts", "script_of"]

RANGES = {
    "Latin": "A-Za-zªºÀ-ÖØ-öø-ɏḀ-ỿ",
    "Greek": "Ͱ-Ͽἀ-῿",
    "Cyrillic": "Ѐ-ԯ",
    "Armenian": "\u0531-\u058f",
    "Hebrew": "\u05d0-\u05ea",
    "Arabic": "\u0620-\u065f\u066e-\u06d3\u06fa-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefc",
    "Indic": "\u0900-\u0df3",
    "Thai and Lao": "\u0e01-\u0edf",
    "Georgian": "\u10a0-\u10ff",
    "Ethiopic": "\u1200-\u137f",
    "Hangul": "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3",
    "Han and Kana": "\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f",
}
"""Letters of each script; scripts that one text mixes, such as Han and Kana, are one."""

SCRIPTS = ("none", *RANGES, "another")
LETTERS = [re.compile(f"[{letters}]") for letters in RANGES.values()]
BEYOND_LATIN = re.compile(r"[^\W\d_A-Za-zªºÀ-ÖØ-öø-ɏḀ-ỿʰ-ˀ]")

USUAL_SHARE = 0.05
"""Share of the lines of a side from which on a script is usual."""

LEAST_LETTERS = 8
"""Letters of a line that shows its script: a shorter one may be a name."""


def script_of(line: str) -> int:
    """Returns the index in `SCRIPTS` of the script of most letters of a line; 0 with fewer than `LEAST_LETTERS`."""
    if line.isascii() or not BEYOND_LATIN.search(line):
        has_letters = len(line) >= LEAST_LETTERS and sum(map(str.isalpha, line)) >= LEAST_LETTERS
        return SCRIPTS.index("Latin") if has_letters else 0
    letters = sum(map(str.isalpha, line))
    if letters < LEAST_LETTERS:
        return 0
    counts = [len(pattern.findall(line)) for pattern in LETTERS]
    return counts.index(max(counts)) + 1 if max(counts) * 2 > letters else len(SCRIPTS) - 1


def lines_in_other_scripts(scripts: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Judges each line of a side by its script: whether fewer than `USUAL_SHARE` of the lines have this script."""
    counts = np.bincount(scripts, minlength=len(SCRIPTS))
    is_rare = counts < USUAL_SHARE * counts[1:].sum()
    is_rare[0] = False
    rare: NDArray[np.bool_] = is_rare[scripts]
    return rare
