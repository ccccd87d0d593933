"""Replay a table's log, list its problems by rule id, and print both.

The state is that of the last version before the first damage. Written from spec/ alone.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import re
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from logdump import derived
from logdump.changes import row_changes
from logdump.checkpoint_base import standing
from logdump.cursors import cursors_after
from logdump.evolution import (
    check_feature,
    check_kept,
    current,
    fields_in_order,
    partitionings,
)
from logdump.folder import Folder
from logdump.identity import identity_in
from logdump.rows import check_lineage, check_moves, take_rows
from logdump.rules import (
    FEATURES,
    TIMELESS,
    TOTALS,
    check_fields,
    check_imports,
    check_partition,
    files_of,
    parse,
    side_columns,
)
from logdump.schemas import check_metadata
from logdump.shapes import LAST_MICRO, Json, Refusal, require
from logdump.tags import tags_in
from logdump.text import EPOCH, document_lines, printable

# --- replay (LOG, RPL, TIM) ----------------------------------------------------------------------


DEFINITIONS = ("tag.", "identity.")
"""Properties that are shown as what they define."""


class NothingThereError(LookupError):
    """Raised if there is no table, or no such version of it."""


class Replay:
    """The state of a table, advanced one entry at a time."""

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
        self.next_id, self.metadata_version, self.unknown = 1, 0, 1
        self.described: list[int] = []
        self.stands_on = -1

    def apply(self, entry: Json, version: int) -> list[Json]:
        """Apply the next entry with sound fields; return the files that it adds."""
        if self.entry.get("ends"):
            self._begin_again(entry)
        self._check_order(entry)
        protocol = entry.get("protocol", self.protocol)
        unknown = [name for name in protocol["reader"] if name not in FEATURES]
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
        for row in scope:
            check_partition(row, [fields[str(i)]["type"] for i in keys])
        files, removed = dict(self.files), {}
        for identity in entry.get("remove", ()):
            require(identity in files, "RPL-2", f"removes file {identity}, which is not live")
            removed[identity] = files.pop(identity)
        if self.metadata:
            check_kept(metadata, self.metadata, files)
        described = [*self.described, *([version] if "metadata" in entry else ())]
        added = self._added(entry["add"], fields, metadata) if "add" in entry else []
        check_feature(metadata, entry.get("add", {}), protocol)
        check_imports(metadata, self.metadata, added, protocol)
        sides = [protocol["reader"], protocol["writer"]] if "hidden" in metadata["schema"] else []
        known = all("hiddenPartitions" in side for side in sides)
        require(known, "VER-4", "has hidden fields, and no entry up to it has hiddenPartitions")
        paths = {file["path"] for file in files.values()}
        for identity, file in enumerate(added, self.next_id):
            require(file["path"] not in paths, "ADD-1", f"adds the path {file['path']!r} again")
            paths.add(file["path"])
            self._check_written(file, version, described)
            file |= {"id": identity, "added": version}
            files[identity] = file
        take_rows(entry, files, removed, self.load)
        removed = {**self.removed, **removed}
        check_lineage(entry, added, files, removed, self.unknown)
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
        """Start from a checkpoint whose entry exists (CKP-1)."""
        root = state["root"]
        self.version, self.entry = state["version"], entry
        self.stands_on = self.version
        self.protocol, self.metadata = root["protocol"], root["metadata"]
        self.fields, self.files = check_metadata(root["metadata"], None), state["files"]
        self.applications = {name: one["version"] for name, one in root["applications"].items()}
        self.cursors = {(one["source"], one["name"]): one for one in root.get("cursors", ())}
        self.next_id = self.unknown = root["totals"]["next_id"]
        self.metadata_version = root["totals"]["metadata_version"]
        self.described = [root["described"]]

    def _begin_again(self, entry: Json) -> None:
        """Reset the state after a drop; another table must follow (ENT-14)."""
        require(entry["table"] != self.entry["table"], "ENT-14", "goes on with a dropped table")
        complete = {"protocol", "metadata"} <= entry.keys() and "ends" not in entry
        makes = complete and entry["operation"]["class"] == "PROTOCOL"
        require(makes, "ENT-14", "follows a table that was dropped, and makes none")
        self.metadata, self.fields, self.applications, self.protocol = {}, {}, {}, {}
        self.cursors = {}

    def _check_written(self, file: Json, version: int, described: list[int]) -> None:
        """Check the metadata version under which a file was written (ADD-9)."""
        if file["written"] is None:
            file["written"] = described[-1]
        written = file["written"]
        require(written <= version, "ADD-9", f"adds a file written under version {written}")
        # What was before a checkpoint is in no entry that was read.
        if written not in described and written > self.stands_on:
            self.remarks.append(("ADD-9", f"adds a file of version {written}: no metadata there"))

    def _oldest(self, entry: Json, version: int) -> int:
        """Return the earliest kept version after an entry (ENT-13)."""
        before: int = self.entry.get("totals", {}).get("oldest", 0)
        if "ends" in entry:
            more = {"metadata", "protocol", "add", "delete", "lineage", "horizon"} & entry.keys()
            only = entry["operation"]["class"] == "PROTOCOL" and not more
            left = entry["totals"]["files"]
            require(only and not left, "ENT-14", "drops the table, and does something else too")
        if "ends" in entry or self.entry.get("ends"):
            require("horizon" not in entry, "ENT-13", "has a horizon, and begins a table")
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
        nothing = entry["basis"]["scope"] == {"partitions": []}
        still = entry["operation"]["class"] == "MINOR_COMPACT" and nothing and not more
        require(still, "ENT-13", "has a horizon, and does something else too")
        return oldest

    def _check_order(self, entry: Json) -> None:
        last = self.entry or entry
        time_version = entry["time_version"]
        carried = last["time_version"] if self.entry else entry["timestamp"]
        anew = self.entry.get("ends", False)
        require(anew or entry["table"] == last["table"], "LOG-3", "is of another table")
        rises = not self.entry or entry["timestamp"] >= min(last["timestamp"] + 1, LAST_MICRO)
        require(rises, "TIM-1", "has a timestamp that does not rise")
        timeless = entry["operation"]["class"] in TIMELESS
        does = {"protocol", "metadata", "add", "remove", "delete"} & entry.keys()
        sound = not timeless and time_version == entry["timestamp"]
        sound = sound or (time_version == carried and bool(timeless or not does))
        require(sound, "TIM-2", f"has the time version {time_version}")
        app = entry.get("application", {"id": None, "version": 0})
        newest = self.applications.get(app["id"], app["version"])
        require(app["version"] >= newest, "RPL-5", f"takes application {app['id']!r} back")

    def _added(self, add: Json, fields: dict[str, Json], metadata: Json) -> list[Json]:
        numbered, now = partitionings(metadata), current(metadata)
        if "side" not in add:
            return files_of(add, fields, numbered, now, self.remarks)
        side = add["side"]
        try:
            raw = self.load(side["path"])
        except OSError:
            raise Refusal("ADD-6", f"names {side['path']}, which cannot be read") from None
        same = len(raw) == side["size"] and hashlib.sha256(raw).hexdigest() == side["sha256"]
        require(same, "ADD-6", "has an overflow metadata file of another size or SHA-256")
        columns = side_columns(raw, side["files"])
        return files_of(columns, fields, numbered, now, self.remarks)

    def state(self) -> Json:
        """Return the state for the document of `read`."""
        schema = self.metadata["schema"]
        named = [*schema["fields"], *schema.get("hidden", ())]
        names = {field["id"]: field["name"] for field in named}
        by = [names[i] for i in self.metadata["partition_by"]]
        order = fields_in_order(self.metadata)
        # A column may have got another name since the file was added.
        files = [
            {**file, "partition": {names[i]: file["partition"].get(str(i)) for i in order}}
            for _, file in sorted(self.files.items())
        ]
        properties = self.metadata["properties"]
        return {
            "version": self.version,
            **{key: self.entry[key] for key in ("timestamp", "time_version", "table", "totals")},
            "oldest": self.entry["totals"].get("oldest", 0),
            "schema": self.metadata["schema"],
            "partition_by": by,
            "properties": {k: v for k, v in properties.items() if not k.startswith(DEFINITIONS)},
            "tags": tags_in(properties),
            "identity": identity_in(self.metadata, self.applications),
            "constraints": self.metadata.get("constraints", {}),
            "comment": self.metadata.get("comment"),
            "protocol": self.protocol,
            "files": files,
            "applications": self.applications,
            "cursors": [self.cursors[key] for key in sorted(self.cursors)],
        }


# --- the table as a whole ------------------------------------------------------------------------


def parse_as_of(text: str | int | datetime) -> tuple[int | None, int | None]:
    """Return a version, or a time in microseconds; text without a zone is UTC. Else ValueError."""
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
    """Read a whole table: `{"uri", "entries", "state", "findings"}`.

    `state` is null if no sound entries lead to it. An element of `entries` is `{"version", "size",
    "added", "entry"}`. `entry` is the stored JSON, null if there is none. `added` are its files as
    in the state, empty after the first damage. `as_of`, a version or a time, selects the state.
    With `files`, the object of every live data file is read too. With `changes`, elements of
    `entries` also have `changes`, the entry's row changes (INC-5). Raises NothingThereError without
    a table or such a version, and ValueError for an `as_of` that is neither.

    The option `import_roots`, texts or one text with commas, has folders outside the table that
    may be read (IMP-3).
    """
    storage_options = dict(storage_options or {})
    allowed = storage_options.pop("import_roots", [])
    given = allowed.split(",") if isinstance(allowed, str) else allowed
    allowed = [root.strip().rstrip("/") for root in given if root.strip()]
    picked = (None, None) if as_of is None else parse_as_of(as_of)
    folder = Folder(uri, storage_options)
    raw = folder.entries()
    require_there(raw, f"no table at {uri}")
    oldest = oldest_of(raw[max(raw)])
    gaps = [n for n in raw if n and n - 1 not in raw]
    roots, expired = folder.names("checkpoints"), 0 in raw and gaps and min(gaps) <= oldest
    base = standing(raw, folder.get, roots, oldest) if expired else None
    reading = Reading(folder, raw, base, picked, changes=changes)
    findings: list[Json] = []
    for version, data in raw.items():
        if version in gaps and (gap := gap_before(version, raw, oldest, base)):
            findings.append(gap)
        findings += reading.take(version, data)
    chosen = reading.chosen
    if chosen is not None and chosen.entry.get("ends") and chosen.version == max(raw):
        # No table any more.
        chosen = None
    findings += reading.derived_problems()
    if as_of is not None and chosen is not None and chosen.version < oldest:
        chosen = None
    require_there(chosen or as_of is None or findings, f"nothing at {as_of} in {uri}")
    state = chosen and chosen.state()
    places = Places(folder, storage_options, allowed, chosen.metadata if chosen else {})
    for file in state["files"] if files and state else ():
        findings += [found(file["added"], *problem) for problem in places.problems(file)]
    return {"uri": uri, "entries": reading.entries, "state": state, "findings": findings}


class Places:
    """The folders of data files: the table's, and allowed ones of imported files (IMP-3)."""

    def __init__(self, own: Folder, options: Json, allowed: list[str], metadata: Json) -> None:
        self.options = options
        self.allowed = allowed
        self.roots = {int(n): each["root"] for n, each in metadata.get("imports", {}).items()}
        self.folders = {"": own}

    def problems(self, file: Json) -> list[tuple[str, str]]:
        """Return the problems of the object of a live data file, with their rules."""
        number = file.get("import")
        root = "" if number is None else self.roots.get(number, "")
        above = any(root == one or root.startswith(f"{one}/") for one in self.allowed)
        if root and (not above or ".." in root.split("/")):
            return [("IMP-3", f"added {file['path']!r} in {root!r}, which no option allows")]
        if root not in self.folders:
            self.folders[root] = Folder(root, self.options)
        return [("ADD-5", message) for message in self.folders[root].problems(file)]


class Reading:
    """Reader of the entries of a log, one after the other."""

    def __init__(
        self,
        folder: Folder,
        raw: dict[int, bytes],
        base: Json | None,
        picked: tuple[int | None, int | None],
        *,
        changes: bool,
    ) -> None:
        self.folder, self.raw, self.base, self.changes = folder, raw, base, changes
        self.wanted, self.until = picked
        self.entries: list[Json] = []
        self.chosen: Replay | None = None
        self.replay = Replay(folder.get)
        self.roots = derived.versions_of(folder.names("checkpoints"))
        self.states: dict[int, Json] = {}

    def take(self, version: int, data: bytes) -> list[Json]:
        """Read the next entry; return its problems."""
        if version in self.folder.barred:
            self.entries.append({"version": version, "size": 0, "added": [], "entry": None})
            return [found(version, *self.folder.barred[version])]
        entry, refusals = parse(data)
        item: Json = {"version": version, "size": len(data), "added": [], "entry": entry}
        if self.changes:
            item["changes"] = []
        self.entries.append(item)
        try:
            if entry is not None and not refusals:
                self._replay(version, entry, item)
        except Refusal as refusal:
            refusals.append(refusal.args)
        wrong = [*refusals, *self.replay.remarks]
        self.replay.remarks.clear()
        return [found(version, rule, message) for rule, message in wrong]

    def _replay(self, version: int, entry: Json, item: Json) -> None:
        check_fields(entry, version)
        before, replay = self.raw.get(version - 1), self.replay
        chained = before is None or entry["previous"] == hashlib.sha256(before).hexdigest()
        require(chained, "LOG-1", "does not name the SHA-256 of the entry before it")
        if self.base is not None and version == self.base["version"]:
            replay.stand_on(self.base, entry)
        elif replay.version == version - 1:
            live = replay.files
            item["added"] = replay.apply(entry, version)
            if self.changes:
                item["changes"] = row_changes(entry, item["added"], live, replay.load)
        else:
            return
        if version in self.roots.values():
            more = {"metadata": replay.metadata, "described": replay.described[-1]}
            self.states[version] = {**replay.state(), **more}
        in_time = self.until is None or entry["time_version"] <= self.until
        if in_time and self.wanted in (None, version):
            self.chosen = copy.copy(replay)

    def derived_problems(self) -> list[Json]:
        """Return the problems of compacted log segments and checkpoints."""
        get, names = self.folder.get, self.folder.names
        blocks = derived.block_problems(names("history"), get, self.raw)
        wrong = [found(version, rule, message) for version, rule, message in blocks]
        for name, version in sorted(self.roots.items()):
            state = self.states.get(version)
            problems = derived.problems(name, version, get, self.raw, state)
            wrong += [found(version, rule, message) for rule, message in problems]
        return wrong


def found(version: int, rule: str, message: str) -> Json:
    """Return a finding."""
    return {"version": version, "rule": rule, "message": message}


def gap_before(version: int, raw: dict[int, bytes], oldest: int, base: Json | None) -> Json | None:
    """Return the finding for a missing previous entry; None: it may be missing."""
    missing = max((n for n in raw if n < version), default=-1) + 1
    if missing >= oldest or not missing:
        return found(missing, "LOG-2", f"is missing, and version {version} exists")
    if base is None:
        return found(missing, "LOG-8", f"was given up; versions from {oldest} on are kept")
    return None


def oldest_of(data: bytes) -> int:
    """Return the earliest kept version from the newest entry (LOG-8); 0: all are kept."""
    entry, refusals = parse(data)
    totals = entry.get("totals") if entry and not refusals else None
    oldest = totals.get("oldest") if isinstance(totals, dict) else None
    return oldest if type(oldest) is int else 0


def require_there(condition: object, message: str) -> None:
    """Raise NothingThereError unless the condition holds."""
    if not condition:
        raise NothingThereError(message)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
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
        print(printable(f"logdump: {error}"), file=sys.stderr)
        return 3
    except Exception as error:
        # Whatever a store or its client library throws: one line, no traceback.
        print(printable(f"logdump: {type(error).__name__}: {error}"), file=sys.stderr)
        return 2
    if given.json:
        print(printable(json.dumps(document)))
    else:
        text = "\n".join(map(printable, document_lines(document)))
        print(text.encode(sys.stdout.encoding, "backslashreplace").decode(sys.stdout.encoding))
    return 1 if document["findings"] else 0
