"""Keys of text, equal for lines that differ only in case, punctuation, digits and white space."""

import re

from transduce.runtime.combining_marks import MARKS

__all__ = ["text_key"]

ASCII_IGNORED = bytes(code for code in range(128) if not chr(code).isalpha())
IGNORED, DIGITS = re.compile(rf"[^\w{MARKS}]+"), re.compile(r"[\d_]+")  # a pattern of both is slower than two


def text_key(text: str) -> bytes:
    """Returns the letters of `text` without case; the text itself, without spaces around it, where it has none."""
    folded = text.casefold()
    if folded.isascii():
        key = folded.encode().translate(None, ASCII_IGNORED)
    else:
        key = DIGITS.sub("", IGNORED.sub("", folded)).encode("utf-8", "surrogatepass")
    return key or text.strip().encode("utf-8", "surrogatepass")
