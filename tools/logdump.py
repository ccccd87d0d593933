#!/usr/bin/env python3
"""Print the log and the state of a tablefmt table: a second reader, written from spec/ alone.

It shares no code with the package, reads what can be read of a damaged table, and lists what is
wrong by rule id. The state is that of the last version before the first damage.
Exit code: 0 sound, 1 findings, 2 usage or no answer from the store, 3 nothing there.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import io
import json
import os
import re
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import fsspec
import logcheckpoints
import pyarrow.parquet as pq
from logchanges import row_changes
from logcheckpoint import standing
from logcursors import cursors_after
from logrows import check_lineage, check_moves, take_rows
from logrules import TIMELESS, TOTALS, check_fields, files_of, parse, side_columns
from logschemas import check_metadata
from logshapes import Json, Refusal, require

ENTRY_NAME, MAX_VERSION = re.compile(r"\d{20}\.json\Z", re.ASCII), 2**63 - 1
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


# --- replay (LOG, RPL, TIM) ----------------------------------------------------------------------


class NothingThereError(LookupError):
    """There is no table, or no such version of it."""


class Replay:
    """The state of a table, brought forward one entry at a time."""

    def __init__(self, load: Callable[[str], bytes]) -> None:
        self.load = load
        self.remarks: list[tuple[str, str]] = []
        self.version = -1
        self.entry: Json = {}
        self.protocol: Json = {}
        self.metadata: Json = {}
        self.fields: dict[str, Json] = {}
        self.files: dict[int, Json] = {}
        self.removed: dict[int, Json] = {}
        self.applications: dict[str, int] = {}
        self.cursors: dict[tuple[str, str], Json] = {}
        self.next_id, self.metadata_version = 1, 0
        self.described: list[int] = []
        self.stands_on = -1

    def apply(self, entry: Json, version: int) -> list[Json]:
        """Take the next entry, its fields being sound; give the files it adds."""
        if self.entry.get("ends"):
            self._begin_again(entry)
        self._check_order(entry)
        protocol = entry.get("protocol", self.protocol)
        unknown = [name for name in protocol["reader"] if name != "logExpiry"]
        require(not unknown, "ENT-7", f"needs features that this reader lacks: {unknown}")
        added = [n for n in protocol["writer"] if n not in self.protocol.get("writer", ())]
        classed = not added or entry["operation"]["class"] == "PROTOCOL"
        require(classed, "VER-4", f"adds {added}, and is not of the class PROTOCOL")
        cursors = cursors_after(self.cursors, entry, version)
        metadata, fields = entry.get("metadata", self.metadata), self.fields
        if "metadata" in entry:
            whole = entry["basis"]["scope"] is None
            restores = whole and entry["operation"]["class"] == "OVERWRITE"
            fields = check_metadata(metadata, self.metadata or None, restores)
        keys = metadata["partition_by"]
        scope = (entry["basis"]["scope"] or {}).get("partitions", [])
        require({len(row) for row in scope} <= {len(keys)}, "ENT-5", "has a scope of another width")
        single = not any(isinstance(value, list | dict) for row in scope for value in row)
        require(single, "ENT-5", "has a scope of values that are lists or objects")
        files, removed = dict(self.files), {}
        for identity in entry.get("remove", ()):
            require(identity in files, "RPL-2", f"removes file {identity}, which is not live")
            removed[identity] = files.pop(identity)
        other = set(keys) != set(self.metadata.get("partition_by", keys))
        require(not (other and files), "ENT-8", "partitions by other columns, and keeps files")
        described = [*self.described, *([version] if "metadata" in entry else ())]
        added = self._added(entry["add"], fields, keys) if "add" in entry else []
        paths = {file["path"] for file in files.values()}
        for identity, file in enumerate(added, self.next_id):
            require(file["path"] not in paths, "ADD-1", f"adds the path {file['path']!r} again")
            paths.add(file["path"])
            self._check_written(file, version, described)
            named = {fields[str(i)]["name"]: file["partition"][str(i)] for i in keys}
            file |= {"id": identity, "added": version, "partition": named}
            files[identity] = file
        take_rows(entry, files, removed, self.load)
        removed = {**self.removed, **removed}
        check_lineage(entry, added, files, removed)
        changed = "protocol" in entry or "metadata" in entry
        next_id = self.next_id + len(added)
        metadata_version = version if changed else self.metadata_version
        rows = sum(file["rows"] for file in files.values())
        size = sum(file["size"] for file in files.values())
        sums = dict(zip(TOTALS, (len(files), rows, size, next_id, metadata_version), strict=True))
        sums["deleted"] = sum(file["deleted"] for file in files.values())
        sums["oldest"] = self._oldest(entry, version)
        for name, value in sums.items():
            said = entry["totals"].get(name, 0)
            rule = "ENT-13" if name == "oldest" else "RPL-3"
            require(said == value, rule, f"has totals.{name} {said}; replay gives {value}")
        check_moves(entry, self.entry.get("totals", sums), sums)
        if "application" in entry:
            app = entry["application"]
            self.applications = {**self.applications, app["id"]: app["version"]}
        self.cursors = cursors
        self.version, self.entry, self.protocol = version, entry, protocol
        self.metadata, self.fields, self.files, self.removed = metadata, fields, files, removed
        self.next_id, self.metadata_version = next_id, metadata_version
        self.described = described
        return added

    def stand_on(self, state: Json, entry: Json) -> None:
        """Go on from a checkpoint, whose entry is there (CKP-1)."""
        root = state["root"]
        self.version, self.entry = state["version"], entry
        self.stands_on = self.version
        self.protocol, self.metadata = root["protocol"], root["metadata"]
        self.fields, self.files = check_metadata(root["metadata"], None), state["files"]
        self.applications = {name: one["version"] for name, one in root["applications"].items()}
        self.cursors = {(one["source"], one["name"]): one for one in root.get("cursors", ())}
        self.next_id = root["totals"]["next_id"]
        self.metadata_version = root["totals"]["metadata_version"]
        self.described = [root["described"]]

    def _begin_again(self, entry: Json) -> None:
        """Forget the table that was dropped; another one has to follow (ENT-14)."""
        require(entry["table"] != self.entry["table"], "ENT-14", "goes on with a dropped table")
        complete = {"protocol", "metadata"} <= entry.keys() and "ends" not in entry
        makes = complete and entry["operation"]["class"] == "PROTOCOL"
        require(makes, "ENT-14", "follows a table that was dropped, and makes none")
        self.metadata, self.fields, self.applications, self.protocol = {}, {}, {}, {}
        self.cursors = {}

    def _check_written(self, file: Json, version: int, described: list[int]) -> None:
        """The version of the metadata that a file was written under (ADD-9)."""
        if file["written"] is None:
            file["written"] = described[-1]
        written = file["written"]
        require(written <= version, "ADD-9", f"adds a file written under version {written}")
        # What was before a checkpoint is in no entry that was read.
        if written not in described and written > self.stands_on:
            self.remarks.append(("ADD-9", f"adds a file of version {written}: no metadata there"))

    def _oldest(self, entry: Json, version: int) -> int:
        """The earliest version that is kept after an entry (ENT-13)."""
        before: int = self.entry.get("totals", {}).get("oldest", 0)
        if "ends" in entry:
            more = {"metadata", "protocol", "add", "delete", "lineage", "horizon"} & entry.keys()
            only = entry["operation"]["class"] == "PROTOCOL" and not more
            left = entry["totals"]["files"]
            require(only and not left, "ENT-14", "drops the table, and does something else too")
        if "ends" in entry or self.entry.get("ends"):
            return version
        if "horizon" not in entry:
            return before
        oldest: int = entry["horizon"]["version"]
        log = entry["horizon"].get("log")
        rises = (before if log else before + 1) <= oldest <= version
        known = not log or "logExpiry" in self.protocol["reader"]
        require(known, "VER-4", "lets entries go, and no earlier one has logExpiry")
        require(not log or log["version"] <= oldest, "ENT-13", "lets entries go that are kept")
        require(rises, "ENT-13", "has a horizon that does not rise, or is above its version")
        more = {"metadata", "protocol", "add", "remove", "delete", "lineage"} & entry.keys()
        still = entry["operation"]["class"] == "MINOR_COMPACT" and not more
        require(still, "ENT-13", "has a horizon, and does something else too")
        return oldest

    def _check_order(self, entry: Json) -> None:
        last = self.entry or entry
        time_version = entry["time_version"]
        carried = last["time_version"] if self.entry else entry["timestamp"]
        anew = self.entry.get("ends", False)
        require(anew or entry["table"] == last["table"], "LOG-3", "is of another table")
        rises = not self.entry or entry["timestamp"] > last["timestamp"]
        require(rises, "TIM-1", "has a timestamp that does not rise")
        timeless = entry["operation"]["class"] in TIMELESS
        sound = time_version == carried or (not timeless and time_version == entry["timestamp"])
        require(sound, "TIM-2", f"has the time version {time_version}")
        app = entry.get("application", {"id": None, "version": 0})
        newest = self.applications.get(app["id"], app["version"])
        require(app["version"] >= newest, "RPL-5", f"takes application {app['id']!r} back")

    def _added(self, add: Json, fields: dict[str, Json], partition_by: list[int]) -> list[Json]:
        if "side" not in add:
            return files_of(add, fields, partition_by, self.remarks)
        side = add["side"]
        try:
            raw = self.load(side["path"])
        except OSError:
            raise Refusal("ADD-6", f"names {side['path']}, which cannot be read") from None
        same = len(raw) == side["size"] and hashlib.sha256(raw).hexdigest() == side["sha256"]
        require(same, "ADD-6", "has a side file of another size or SHA-256")
        files = files_of(side_columns(raw), fields, partition_by, self.remarks)
        require(len(files) == side["files"], "ADD-6", f"has {len(files)} files in its side file")
        return files

    def state(self) -> Json:
        """The state as the document of `read` has it."""
        names = {field["id"]: field["name"] for field in self.metadata["schema"]["fields"]}
        by = [names[i] for i in self.metadata["partition_by"]]
        # A column may have got another name since the file was added.
        files = [
            {**file, "partition": dict(zip(by, file["partition"].values(), strict=True))}
            for _, file in sorted(self.files.items())
        ]
        return {
            "version": self.version,
            **{key: self.entry[key] for key in ("timestamp", "time_version", "table", "totals")},
            "oldest": self.entry["totals"].get("oldest", 0),
            "schema": self.metadata["schema"],
            "partition_by": by,
            "properties": self.metadata["properties"],
            "constraints": self.metadata.get("constraints", {}),
            "comment": self.metadata.get("comment"),
            "protocol": self.protocol,
            "files": files,
            "applications": self.applications,
            "cursors": [self.cursors[key] for key in sorted(self.cursors)],
        }


# --- the table in its store ----------------------------------------------------------------------


class Folder:
    """The objects of a table, got by name."""

    def __init__(self, uri: str, options: Json | None) -> None:
        uri = re.sub(r"^s3[an]://", "s3://", uri)
        if "://" in uri:
            self.store, root = fsspec.core.url_to_fs(uri, **(options or {}))
        else:
            self.store, root = fsspec.filesystem("file", **(options or {})), os.path.abspath(uri)
        self.root = root.rstrip("/")

    def get(self, name: str) -> bytes:
        """The bytes of an object."""
        data: bytes = self.store.cat_file(f"{self.root}/{name}")
        return data

    def names(self, folder: str) -> list[str]:
        """The names in a folder below `_log/`."""
        try:
            paths = self.store.ls(f"{self.root}/_log/{folder}", False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [path.rsplit("/", 1)[-1] for path in paths]

    def entries(self) -> dict[int, bytes]:
        """The bytes of every entry by version: those listed, and those a get finds (LOG-4)."""
        self.store.invalidate_cache()
        try:
            names = [path.rsplit("/", 1)[-1] for path in self.store.ls(f"{self.root}/_log", False)]
        except (FileNotFoundError, NotADirectoryError):
            names = []
        listed = {int(name[:20]) for name in names if ENTRY_NAME.match(name)}
        queue = sorted({0, *(n + step for n in listed for step in (-1, 0, 1))})
        found: dict[int, bytes] = {}
        for version in queue:
            try:
                if 0 <= version <= MAX_VERSION:
                    found[version] = self.get(f"_log/{version:020d}.json")
                    if version == queue[-1]:
                        queue.append(version + 1)
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                continue
        return found

    def problems(self, file: Json) -> list[str]:
        """What is wrong with the object of a live data file."""
        path = file["path"]
        try:
            raw = self.get(path)
            rows = pq.read_metadata(io.BytesIO(raw)).num_rows
        except FileNotFoundError:
            return [f"added {path!r}, which is missing"]
        except (OSError, ValueError) as error:
            return [f"added {path!r}, which is not Parquet: {error}"]
        same = (len(raw), rows) == (file["size"], file["rows"])
        return [] if same else [f"added {path!r}, which has {len(raw)} bytes and {rows} rows"]


def parse_as_of(text: str | int | datetime) -> tuple[int | None, int | None]:
    """A version, or a time in microseconds; text without a zone is UTC. ValueError otherwise."""
    if isinstance(text, int):
        return text, None
    if isinstance(text, str):
        if re.fullmatch(r"\d{1,19}", text, re.ASCII):
            return int(text), None
        text = datetime.fromisoformat(re.sub(r"[zZ]\Z", "+00:00", text.strip()))
    moment = text if text.tzinfo else text.replace(tzinfo=timezone.utc)
    return None, (moment - EPOCH) // timedelta(microseconds=1)


def read(
    uri: str,
    storage_options: Json | None = None,
    as_of: int | str | datetime | None = None,
    *,
    files: bool = False,
    changes: bool = False,
) -> Json:
    """Read a table whole: `{"uri", "entries", "state", "findings"}`.

    `state` is null if nothing sound leads to it. An element of `entries` is `{"version", "size",
    "added", "entry"}`: `entry` is the JSON as it stands, null where there is none; `added` are its
    files as in the state, empty after the first damage. `as_of`, a version or a time, picks the
    state. With `files`, the object of every live data file is read too; with `changes`, elements of
    `entries` have `changes` too, what the entry did to rows (INC-5). Raises NothingThereError
    without a table or such a version, ValueError for an `as_of` that is neither.
    """
    wanted, until = (None, None) if as_of is None else parse_as_of(as_of)
    folder = Folder(uri, storage_options)
    raw = folder.entries()
    require_there(raw, f"no table at {uri}")
    findings: list[Json] = []
    entries, replay, chosen = [], Replay(folder.get), None
    roots, states = logcheckpoints.versions_of(folder.names("checkpoints")), dict[int, Json]()
    oldest = oldest_of(raw[max(raw)])
    gaps = [n for n in raw if n and n - 1 not in raw]
    base = standing(raw, folder.get) if gaps and min(gaps) <= oldest else None

    for version, data in raw.items():
        if version and version - 1 not in raw:
            missing = max((n for n in raw if n < version), default=-1) + 1
            rule, message = "LOG-2", f"is missing, and version {version} exists"
            if missing < oldest:
                rule, message = "LOG-8", f"was given up; versions from {oldest} on are kept"
            if missing >= oldest or base is None:
                findings.append({"version": missing, "rule": rule, "message": message})
        entry, refusals, remarks = parse(data)
        added: list[Json] = []
        told: list[Json] = []
        live = replay.files
        try:
            if entry is not None and not refusals:
                check_fields(entry, version)
                before = raw.get(version - 1)
                chained = before is None or entry["previous"] == hashlib.sha256(before).hexdigest()
                require(chained, "LOG-1", "does not name the SHA-256 of the entry before it")
                if base is not None and version == base["version"]:
                    replay.stand_on(base, entry)
                    if until is None or entry["time_version"] <= until:
                        chosen = copy.copy(replay) if wanted in (None, version) else chosen
                elif replay.version == version - 1:
                    added = replay.apply(entry, version)
                    told = row_changes(entry, added, live, replay.load) if changes else []
                    if version in roots.values():
                        more = {"metadata": replay.metadata, "described": replay.described[-1]}
                        states[version] = {**replay.state(), **more}
                    in_time = until is None or replay.entry["time_version"] <= until
                    if in_time and version in (wanted, version if wanted is None else -1):
                        chosen = copy.copy(replay)
        except Refusal as refusal:
            refusals.append(refusal.args)
        findings += [
            {"version": version, "rule": rule, "message": message}
            for rule, message in refusals + remarks + replay.remarks
        ]
        replay.remarks.clear()
        entries.append({"version": version, "size": len(data), "added": added, "entry": entry})
        if changes:
            entries[-1]["changes"] = told
    if chosen is not None and chosen.entry.get("ends") and chosen.version == max(raw):
        # No table any more.
        chosen = None
    blocks = logcheckpoints.block_problems(folder.names("history"), folder.get, raw)
    findings += [{"version": v, "rule": rule, "message": m} for v, rule, m in blocks]
    for name, version in sorted(roots.items()):
        wrong = logcheckpoints.problems(name, version, folder.get, raw, states.get(version))
        findings += [{"version": version, "rule": rule, "message": m} for rule, m in wrong]
    if as_of is not None and chosen is not None and chosen.version < oldest:
        chosen = None
    require_there(chosen or as_of is None or findings, f"nothing at {as_of} in {uri}")
    state = chosen and chosen.state()
    for file in state["files"] if files and state else ():
        where: Json = {"version": file["added"], "rule": "ADD-5"}
        findings += [where | {"message": m} for m in folder.problems(file)]
    return {"uri": uri, "entries": entries, "state": state, "findings": findings}


def oldest_of(data: bytes) -> int:
    """The earliest version that is kept, as the newest entry says (LOG-8); 0 for all."""
    entry, refusals, _ = parse(data)
    totals = entry.get("totals") if entry and not refusals else None
    oldest = totals.get("oldest") if isinstance(totals, dict) else None
    return oldest if type(oldest) is int else 0


def require_there(condition: object, message: str) -> None:
    """Raise NothingThereError unless the condition holds."""
    if not condition:
        raise NothingThereError(message)


# --- printing ------------------------------------------------------------------------------------


def compact(value: Any) -> str:
    """One line of JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def instant(micros: Any) -> str:
    """A time of an entry for people; the number itself where no calendar has it."""
    try:
        moment = EPOCH + timedelta(microseconds=micros)
        return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
    except (OverflowError, TypeError):
        return str(micros)


def entry_lines(item: Json) -> list[str]:
    """An entry for people, damaged or not."""
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
    named = ("totals", "application", "derived_from", "cursors", "user_metadata")
    for name in (*named, "protocol", "metadata"):
        if name in entry:
            lines.append(f"  {name} {compact(entry[name])}")
    return lines


def file_line(file: Json) -> str:
    """A data file for people."""
    partition = f"  {compact(file['partition'])}" if file["partition"] else ""
    name = f"#{file['id']} {compact(file['path'])}"
    gone = f", {file['deleted']} of them gone" if file["deleted"] else ""
    return f"{name}  {file['rows']} rows{gone}  {file['size']} bytes{partition}"


def state_lines(state: Json) -> list[str]:
    """The state for people."""
    lines = [f"state at version {state['version']} of table {state['table']}"]
    lines.append(
        f"  time {instant(state['timestamp'])}, time version {instant(state['time_version'])}"
    )
    for field in state["schema"]["fields"]:
        null = "" if field["nullable"] else " not null"
        lines.append(
            f"  column {compact(field['name'])} {compact(field.get('text', field['type']))}{null}"
        )
    named = ("partition_by", "properties", "protocol", "totals", "applications", "cursors")
    for name in named:
        lines.append(f"  {name} {compact(state[name])}")
    return lines + [f"    {file_line(file)}" for file in state["files"]]


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; give the exit code."""
    parser = argparse.ArgumentParser(prog="logdump", description="Log and state of a table.")
    parser.add_argument("uri")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--storage-option", action="append", default=[], metavar="K=V")
    parser.add_argument("--as-of", metavar="VERSION|TIME", help="the state then")
    parser.add_argument("--files", action="store_true", help="read every live data file too")
    parser.add_argument("--changes", action="store_true", help="which rows came and went too")
    given = parser.parse_args(arguments)
    try:
        options = dict(option.split("=", 1) for option in given.storage_option)
        document = read(given.uri, options, given.as_of, files=given.files, changes=given.changes)
    except NothingThereError as error:
        print(f"logdump: {error}", file=sys.stderr)
        return 3
    except Exception as error:
        # Whatever a store or its client library throws: one line, no traceback.
        print(f"logdump: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(json.dumps(document))
    else:
        lines = [line for item in document["entries"] for line in entry_lines(item)]
        lines += state_lines(document["state"]) if document["state"] else ["no sound state"]
        for finding in document["findings"]:
            lines.append("problem: version {version} {message} ({rule})".format_map(finding))
        text = "\n".join(lines)
        print(text.encode(sys.stdout.encoding, "backslashreplace").decode(sys.stdout.encoding))
    return 1 if document["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
