"""JSON that every reader accepts: NaN and infinities become null."""

import json
import math
from typing import Any


def json_text(value: Any, **options: Any) -> str:
    """Converts `value` to JSON, with null for each number that is not finite; `options` are passed to `json.dumps`."""
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
