"""Golden cases of tags (TAG)."""

from __future__ import annotations

from collections.abc import Iterator

from golden.maker import LONG, START, Json, Maker, schema_of, three

FEATURE: Json = {"reader": [], "writer": ["tags"]}


def tagged() -> Iterator[Maker]:
    """Yield tables with tags, and with properties that look like tags."""
    maker = three("tags")
    one = {"tag.2026-Q3": '{"version":1}'}
    maker.commit("PROTOCOL", "SET TAG", metadata=_with(one), protocol=FEATURE)
    two = {**one, "tag.audit": f'{{"version":2,"until":{START}}}', "user.tag": "x"}
    maker.commit("METADATA", "SET TAG", metadata=_with(two))
    maker.append({"x": 5})
    tags = {"2026-Q3": {"version": 1}, "audit": {"version": 2, "until": START}}
    yield maker.good("Two tags, the second one with a time (TAG-1, TAG-3).", tags=tags)

    maker = three("tags-other-forms")
    texts = (
        "",
        "[]",
        '{"version":-1}',
        '{"version":1.5}',
        '{"version":1,"x":1}',
        '{"version":"1"}',
    )
    wrong = {f"tag.{at}": text for at, text in enumerate(texts)}
    maker.commit("PROTOCOL", "SET TAG", metadata=_with(wrong), protocol=FEATURE)
    yield maker.good("Properties that are no tags are ignored (TAG-1).", tags={})


def _with(properties: Json) -> Json:
    return {**schema_of(LONG), "properties": properties}
