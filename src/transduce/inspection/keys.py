"""Keys of text, equal for lines that differ only in case, punctuation, digits and white space."""

import functools
import re

from transduce.runtime.combining_marks import combining_marks

__all__ = ["text_key"]

ASCII_IGNORED = bytes(code for code in range(128) if not chr(code).isalpha())
DIGITS = re.compile(r"[\d_]+")


@functools.cache
def _ignored() -> re.Pattern[str]:
    """Returns the pattern of what is neither a letter nor a digit; one that has digits too is slower than two."""
    return re.compile(rf"[^\w{combining_marks()}]+")


def text_key(text: str) -> bytes:
    """Returns the letters of `text` without case; the text itself, without spaces around it, where it has none."""
    folded = text.casefold()
    if folded.isascii():
        key = folded.encode().translate(None, ASCII_IGNORED)
    else:
        key = DIGITS.sub("", _ignored().sub("", folded)).encode("utf-8", "surrogatepass")
    return key or text.strip().encode("utf-8", "surrogatepass")
