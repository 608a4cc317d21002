"""Writes JSON that every parser accepts, with null in place of NaN and infinities."""

import json
import math
from typing import Any


def json_text(value: Any, **options: Any) -> str:
    """Serialises `value` to JSON, with null in place of NaN and infinities.

    `options` are passed on to `json.dumps`.
    """
    return json.dumps(_finite(value), allow_nan=False, **options)


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _finite(each) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
    return value
