"""Print the findings of logdump as text for people."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

from logdump.shapes import Json

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def printable(text: str) -> str:
    """Return one line of text, with JSON escapes for characters that do not print (SEC-1)."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else escape(c) for c in text)


def escape(character: str) -> str:
    """Return a character as a JSON escape, as two halves above U+FFFF."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def compact(value: Any) -> str:
    """Return one line of JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def instant(micros: Any) -> str:
    """Return an entry's time for people; the number itself if it is no calendar time."""
    try:
        moment = EPOCH + timedelta(microseconds=micros)
        return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
    except (OverflowError, TypeError):
        return str(micros)


def entry_lines(item: Json) -> list[str]:
    """Return the lines of an entry for people, damaged or not."""
    entry = item["entry"]
    if entry is None:
        return [f"version {item['version']}: unreadable, {item['size']} bytes"]
    operation, add = entry.get("operation"), entry.get("add") or {}
    operation = operation if isinstance(operation, dict) else {}
    removed, deletes = entry.get("remove") or [], entry.get("delete") or {}
    lines = [
        f"version {item['version']}  {instant(entry.get('timestamp'))}"
        f"  (time version {instant(entry.get('time_version'))})",
        f"  {operation.get('name')!r} [{operation.get('class')}]"
        f"  transaction {entry.get('transaction')}",
    ]
    if add or removed:
        rows = sum(file["rows"] for file in item["added"])
        lines.append(f"  adds {len(item['added'])} files, {rows} rows; removes {compact(removed)}")
    for file in item["added"]:
        lines.append(f"    + {file_line(file)}")
    for change in item.get("changes", ()):
        lines.append(f"    {change['type']} #{change['file']} {compact(change['rows'])}")
    if isinstance(deletes, dict) and isinstance(deletes.get("rows"), list):
        lines.append(f"  takes rows {compact(deletes['rows'])} out of {compact(deletes['file'])}")
    elif deletes:
        lines.append(f"  takes rows out of files, {compact(deletes)}")
    named = ("totals", "application", "derived_from", "cursors", "user_metadata", "x_refused")
    for name in (*named, "protocol", "metadata"):
        if name in entry:
            lines.append(f"  {name} {compact(entry[name])}")
    return lines


def file_line(file: Json) -> str:
    """Return the line of a data file for people."""
    partition = f"  {compact(file['partition'])}" if file["partition"] else ""
    name = f"#{file['id']} {compact(file['path'])}"
    gone = f", {file['deleted']} of them gone" if file["deleted"] else ""
    return f"{name}  {file['rows']} rows{gone}  {file['size']} bytes{partition}"


def state_lines(state: Json) -> list[str]:
    """Return the lines of the state for people."""
    lines = [f"state at version {state['version']} of table {state['table']}"]
    lines.append(
        f"  time {instant(state['timestamp'])}, time version {instant(state['time_version'])}"
    )
    for field in state["schema"]["fields"]:
        null = "" if field["nullable"] else " not null"
        lines.append(
            f"  column {compact(field['name'])} {compact(field.get('text', field['type']))}{null}"
        )
    named = (
        "partition_by",
        "properties",
        "tags",
        "identity",
        "protocol",
        "totals",
        "applications",
        "cursors",
    )
    for name in named:
        lines.append(f"  {name} {compact(state[name])}")
    return lines + [f"    {file_line(file)}" for file in state["files"]]


def document_lines(document: Json) -> list[str]:
    """Return the lines of the document for people."""
    lines = [line for item in document["entries"] for line in entry_lines(item)]
    lines += state_lines(document["state"]) if document["state"] else ["no sound state"]
    for finding in document["findings"]:
        lines.append("problem: version {version} {message} ({rule})".format_map(finding))
    return lines
