"""The page at /docs: the description of the interface as plain HTML, without scripts and without foreign requests."""

import html
import json
from typing import Any

__all__ = ["description_page"]

STYLE = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "pre{overflow:auto;padding:.75rem;border:1px solid #8888;border-radius:.25rem}h2{margin-top:2.5rem}"
    "table{border-collapse:collapse}td,th{text-align:left;padding:.2rem 1rem .2rem 0;vertical-align:top}"
)


def description_page(description: dict[str, Any]) -> str:
    """Returns the page of an OpenAPI description."""
    schemas = description.get("components", {}).get("schemas", {})
    parts = [
        _section(method, path, operation, schemas)
        for path, operations in description["paths"].items()
        for method, operation in operations.items()
    ]
    title = html.escape(f"{description['info']['title']} {description['info']['version']}")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n'
        f'<body><h1>{title}</h1><p>The same as JSON: <a href="openapi.json">openapi.json</a>.</p>\n'
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _section(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    """Returns what there is to know of one operation."""
    description = html.escape(operation.get("description", ""))
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    answers = "".join(
        f"<tr><th>{html.escape(status)}</th><td>{html.escape(answer['description'])}</td></tr>"
        for status, answer in operation["responses"].items()
    )
    answer = operation["responses"].get("200", {}).get("content", {}).get("application/json", {}).get("schema")
    return (
        f"<h2>{method.upper()} {html.escape(path)}</h2><p>{description}</p>"
        + ("" if body is None else f"<h3>Request</h3>{_fields(_resolved(body, schemas), schemas)}")
        + ("" if answer is None else f"<h3>Answer</h3>{_fields(_resolved(answer, schemas), schemas)}")
        + f"<h3>Status</h3><table>{answers}</table>"
    )


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema that a reference names, and any other schema as it is."""
    if schema.get("type") == "array":
        return _resolved(schema["items"], schemas)
    name = schema.get("$ref", "").removeprefix("#/components/schemas/")
    resolved: dict[str, Any] = schemas.get(name, schema)
    return resolved


def _fields(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    """Returns a table of the fields of a record; the schema itself where it is none."""
    if "properties" not in schema:
        return f"<pre>{html.escape(json.dumps(schema, indent=1))}</pre>" if schema else ""
    rows = "".join(
        f"<tr><th><code>{html.escape(name)}</code></th><td>{html.escape(_kind(field))}</td>"
        f"<td>{html.escape(field.get('description', ''))}</td></tr>"
        for name, field in schema["properties"].items()
    )
    return f"<table>{rows}</table>"


def _kind(field: dict[str, Any]) -> str:
    """Returns the type of a field in words."""
    if "anyOf" in field:
        return " or ".join(_kind(part) for part in field["anyOf"])
    if "enum" in field:
        return " or ".join(map(str, field["enum"]))
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    kind = str(field.get("type", "any"))
    return f"list of {_kind(field['items'])}" if kind == "array" and "items" in field else kind
