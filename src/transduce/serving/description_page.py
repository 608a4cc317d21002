"""The page at /docs: the description of the interface as plain HTML, without scripts and without foreign requests."""

import html
import json
import re
from typing import Any

__all__ = ["description_page"]

REFERENCE = "#/components/schemas/"

STYLE = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "pre{overflow:auto;padding:.75rem;border:1px solid #8888;border-radius:.25rem}h2{margin-top:2.5rem}"
    "table{border-collapse:collapse}td,th{text-align:left;padding:.2rem 1rem .2rem 0;vertical-align:top}"
)


def description_page(description: dict[str, Any]) -> str:
    """Returns the page of an OpenAPI description: its operations, and the records that their fields name."""
    schemas = description.get("components", {}).get("schemas", {})
    operations = [
        (f"{method.upper()} {path}", operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]
    shown = [_resolved(schema, schemas) for _, operation in operations for schema in _schemas_of(operation) if schema]
    parts = [_section(title, operation, schemas) for title, operation in operations]
    parts += [_record(name, schemas[name]) for name in _named_in(shown, schemas)]
    title = html.escape(f"{description['info']['title']} {description['info']['version']}")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n'
        f'<body><h1>{title}</h1><p>The same as JSON: <a href="openapi.json">openapi.json</a>.</p>\n'
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _section(title: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    """Returns what there is to know of one operation."""
    description = html.escape(operation.get("description", ""))
    body, answer = _schemas_of(operation)
    statuses = "".join(
        f"<tr><th>{html.escape(status)}</th><td>{html.escape(answer['description'])}</td></tr>"
        for status, answer in operation["responses"].items()
    )
    return (
        f"<h2>{html.escape(title)}</h2><p>{description}</p>"
        + ("" if body is None else f"<h3>Request</h3>{_fields(_resolved(body, schemas))}")
        + ("" if answer is None else f"<h3>Answer</h3>{_fields(_resolved(answer, schemas))}")
        + f"<h3>Status</h3><table>{statuses}</table>"
    )


def _record(name: str, schema: dict[str, Any]) -> str:
    """Returns what there is to know of a record that is a field of others."""
    description = html.escape(schema.get("description", ""))
    return f'<h2 id="{html.escape(name)}">{html.escape(name)}</h2><p>{description}</p>{_fields(schema)}'


def _schemas_of(operation: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Returns the schemas of the request and of the answer in JSON; None where there is none."""
    bodies = operation.get("requestBody", {}).get("content", {})
    answers = operation["responses"].get("200", {}).get("content", {})
    # A request in several formats has the same fields in each.
    body = next((content.get("schema") for content in bodies.values()), None)
    return body, answers.get("application/json", {}).get("schema")


def _named_in(shown: list[dict[str, Any]], schemas: dict[str, Any]) -> list[str]:
    """Returns the names of the records that `shown` schemas refer to, and those that these refer to, in their order."""
    names, waiting = list[str](), list(shown)
    for schema in waiting:  # which grows by the records that a schema names
        for name in re.findall(rf'"{REFERENCE}([^"]+)"', json.dumps(schema)):
            if name not in names:
                names.append(name)
                waiting.append(schemas[name])
    return names


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema that a reference names, and any other schema as it is."""
    if schema.get("type") == "array":
        return _resolved(schema["items"], schemas)
    resolved: dict[str, Any] = schemas.get(schema.get("$ref", "").removeprefix(REFERENCE), schema)
    return resolved


def _fields(schema: dict[str, Any]) -> str:
    """Returns a table of the fields of a record; the schema itself where it is none."""
    if "properties" not in schema:
        return f"<pre>{html.escape(json.dumps(schema, indent=1))}</pre>" if schema else ""
    rows = "".join(
        f"<tr><th><code>{html.escape(name)}</code></th><td>{_kind(field)}</td>"
        f"<td>{html.escape(field.get('description', ''))}</td></tr>"
        for name, field in schema["properties"].items()
    )
    return f"<table>{rows}</table>"


def _kind(field: dict[str, Any]) -> str:
    """Returns the type of a field in words, as HTML; the name of a record is a link to it."""
    if "anyOf" in field:
        return " or ".join(_kind(part) for part in field["anyOf"])
    if "enum" in field:
        return html.escape(" or ".join(map(str, field["enum"])))
    if "$ref" in field:
        name = html.escape(field["$ref"].removeprefix(REFERENCE))
        return f'<a href="#{name}">{name}</a>'
    kind = html.escape(str(field.get("type", "any")))
    return f"list of {_kind(field['items'])}" if kind == "array" and "items" in field else kind
