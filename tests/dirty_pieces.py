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
