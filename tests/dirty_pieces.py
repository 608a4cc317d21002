"""What text may have in it that nobody thinks of: controls, line ends of other programs, marks, our own symbols."""

PIECES = [
    "a",
    "b c",
    "ü",
    "\0",
    "\t",
    "\r",
    "\r\n",
    "\n",
    "\u0085",
    "\u2028",
    "\ufeff",
    "\u202e",
    "e\u0301",
    " ",
    "⟨s⟩‿▁",
    "👩‍👧",
]


def has_old_line_ends(content: bytes) -> bool:
    """Whether text stands on both sides of more carriage returns than there are line feeds, as in files of old Macs."""
    parts = content.replace(b"\n", b"\r").split(b"\r")
    ends = [mark for mark in content if mark in b"\r\n"]
    lone = sum(
        mark == 13 and bool(before and after) for before, mark, after in zip(parts, ends, parts[1:], strict=False)
    )
    return lone > content.count(b"\n")
