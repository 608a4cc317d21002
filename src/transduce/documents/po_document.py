"""Reads and writes the PO files of gettext. Translates the messages that have no translation or a fuzzy one."""

import re
from collections.abc import Sequence
from typing import Any

from transduce.documents.document import Content, Document, DocumentLanguages, Unit, has_letters, import_library, plain
from transduce.documents.inline_tags import PairedContent, string_content

_WIDTH = 78  # characters at which lines are wrapped, unless the file has longer lines
_PLURAL_FORMS = re.compile(r"nplurals\s*=\s*(\d+)")
_NUMBERS_OF_FORMS = {str(number) for number in range(1, 10)}  # no language has more than six


class PoDocument(Document):
    """A PO catalogue of messages. Existing translations that are not fuzzy are kept unless `replace` is true.

    In a message with plural forms, form 0 gets the translation of the singular, and all other forms get the translation
    of the plural; if the language has only one form, that form gets the translation of the plural. If the language has
    more than two forms, or if the file does not state the number of forms, the message is marked as fuzzy, because a
    person must check the forms.
    """

    def __init__(self, text: str, languages: DocumentLanguages, *, replace: bool = False) -> None:
        super().__init__()
        polib = import_library("polib", "PO")
        if not re.search(r"(?m)^msgid\s", text):
            raise ValueError("not PO: no line begins with `msgid`; choose another --format")
        try:
            width = _WIDTH if max(len(line.rstrip("\r")) for line in text.split("\n")) <= _WIDTH else 0
            # The library would take a text of a single line for a file name.
            catalogue = _Catalogue(text if "\n" in text else text + "\n")
            self._file = polib.pofile(catalogue, wrapwidth=width, encoding="utf-8")
        except OSError as error:
            raise ValueError(f"damaged PO: {error}; `msgfmt --check` names the place") from None
        self._original, self._language = text, languages.target
        if languages.target is not None:
            languages.target_of(None, self._file.metadata.get("Language"))  # raises ValueError for another language
        self._slots: list[PairedContent[str]] = []
        self._entries: list[tuple[Any, list[int]]] = []  # an entry, and the unit numbers of its singular and plural
        translated = 0
        for entry in self._file:
            if entry.obsolete or not entry.msgid:
                continue
            if entry.translated() and not replace:
                translated += 1
                continue
            messages = [entry.msgid, *([entry.msgid_plural] if entry.msgid_plural else [])]
            contents = [string_content(message) for message in messages]
            if not all(has_letters(plain(paired.content)) for paired in contents):
                continue
            self._entries.append((entry, [len(self.units) + number for number in range(len(contents))]))
            self.units += [Unit(paired.content) for paired in contents]
            self._slots += contents
        if translated:
            self.notes.append(f"{translated:,} messages are translated and stay (--retranslate replaces them)")
        plurals = sum(len(numbers) > 1 for _, numbers in self._entries)
        if plurals and self._forms() not in (1, 2):
            self.notes.append(f"{plurals:,} messages with plural forms are marked as fuzzy: check their forms")

    def write(self, translations: Sequence[Content]) -> bytes:
        """Returns the catalogue with the translations. Adds the target language if the header does not name it."""
        texts = [
            "".join(paired.with_payloads(content)) for paired, content in zip(self._slots, translations, strict=True)
        ]
        for entry, numbers in self._entries:
            entry.flags = [flag for flag in entry.flags if flag != "fuzzy"]
            entry.previous_msgid = entry.previous_msgid_plural = entry.previous_msgctxt = None
            if len(numbers) == 1:
                entry.msgstr = texts[numbers[0]]
                continue
            singular, plural = (texts[number] for number in numbers)
            forms = self._forms() or max(2, len(entry.msgstr_plural))
            entry.msgstr_plural = {form: singular if form == 0 and forms > 1 else plural for form in range(forms)}
            if self._forms() not in (1, 2):
                entry.flags.append("fuzzy")
        if self._language and not self._file.metadata.get("Language"):
            self._file.metadata["Language"] = self._language.replace("-", "_")
        text = str(self._file)
        if not self._original.startswith("#"):
            text = text.removeprefix("#\n")  # the comment that the library adds
        return (text.rstrip("\n") + "\n").encode()

    def _forms(self) -> int | None:
        """Returns the number of plural forms that the header declares, or None if it is missing or not from 1 to 9."""
        match = _PLURAL_FORMS.search(self._file.metadata.get("Plural-Forms", ""))
        return int(match[1]) if match and match[1] in _NUMBERS_OF_FORMS else None


class _Catalogue(str):
    """A string whose `splitlines` splits only at `\\n`, instead of at every line boundary that Unicode defines.

    The library calls this method to split a catalogue into lines.
    """

    def splitlines(self, keepends: bool = False) -> list[str]:
        """Returns the lines without their line breaks."""
        return self.split("\n")
