"""The migration pages have the rows that the code obeys."""

from __future__ import annotations

import pytest
from docs import peer_tables


@pytest.mark.parametrize("name", sorted(peer_tables.TABLES))
def test_a_page_has_the_rows_of_today(name: str) -> None:
    """To write them: python tools/docs/peer_tables.py"""
    text = (peer_tables.PAGES / name).read_text(encoding="utf-8")
    assert "<!-- names -->" in text
    assert peer_tables.page(name) == text
