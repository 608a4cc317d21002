"""Migrations from the formats of earlier versions to the current ones: pure functions on dictionaries."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

__all__ = ["CONFIG_VERSION", "RenamedKey", "migrate_config", "migrate_recipe", "migrate_state"]

CONFIG_VERSION: Literal[2] = 2
"""Version of `config.json`. Version 2 has the keys of `RENAMED_KEYS` under their new names."""


class RenamedKey(NamedTuple):
    """A key of a recipe that was renamed after version 0.1.0; `kind` limits it to one kind of its section."""

    section: tuple[str, ...]
    old: str
    new: str
    kind: str | None = None

    @property
    def sentence(self) -> str:
        """Returns a sentence that names both keys."""
        section = ".".join(self.section)
        return f"`{section}.{self.old}` is now `{section}.{self.new}`"


RENAMED_KEYS = (
    RenamedKey(("training",), "pieces", "micro_batches"),
    RenamedKey(("model", "positions"), "longest", "max_positions", kind="learned"),
    RenamedKey(("model",), "longest", "max_positions", kind="convolutional"),
)

RENAMED_STATE_KEYS = {"words": "tokens", "journal": "log_bytes", "judge": "scored_by"}
"""Keys of a checkpoint's `state.json`, old and new."""


def migrate_recipe(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Returns a copy of a recipe with its keys renamed, and a sentence for each renamed key."""
    migrated, sentences = dict(values), []
    for renamed in RENAMED_KEYS:
        changed = _rename(migrated, renamed.section, renamed)
        if changed is not None:
            migrated = changed
            sentences.append(renamed.sentence)
    return migrated, sentences


def migrate_config(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content of a `config.json` of version 1 as version 2, and any other content unchanged."""
    if values.get("version") != 1:
        return dict(values)
    return {**migrate_recipe(values)[0], "version": CONFIG_VERSION}


def migrate_state(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content of a checkpoint's `state.json` with its keys renamed."""
    return {RENAMED_STATE_KEYS.get(key, key): value for key, value in values.items()}


def _rename(values: Mapping[str, Any], section: Sequence[str], renamed: RenamedKey) -> dict[str, Any] | None:
    """Returns `values` with the key renamed; None where the old key is missing or the new key exists already."""
    if section:
        inner = values.get(section[0])
        changed = _rename(inner, section[1:], renamed) if isinstance(inner, Mapping) else None
        return None if changed is None else {**values, section[0]: changed}
    is_other_kind = renamed.kind is not None and values.get("kind", renamed.kind) != renamed.kind
    if renamed.old not in values or renamed.new in values or is_other_kind:
        return None
    return {(renamed.new if key == renamed.old else key): value for key, value in values.items()}
