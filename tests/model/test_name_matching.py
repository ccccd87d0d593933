"""Names with case ignored are the same under every version of Python (SCH-2)."""

from __future__ import annotations

import hashlib
import sys

import pytest
from logdump import schemas

from tablefmt.model.name_matching import folded

UNICODE_13 = "268ad05ed64965cccaae697c8f9d521e5fbf615e638d98033de0703a90f32160"
"""SHA-256 of the 1,490 lines `code point;folding` of Unicode 13.0.

Perl's `fc` made them of code points with the property Present_In=13.0.
"""

FOLDS = pytest.mark.parametrize("fold", [folded, schemas.folded])


@pytest.mark.slow
@FOLDS
def test_every_code_point_folds_as_in_unicode_13(fold: type[str]) -> None:
    """SCH-2: the Unicode version of the running Python makes no difference."""
    points = (c for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000)
    lines = [f"{c:x};{fold(chr(c))}" for c in points if fold(chr(c)) != chr(c)]
    assert len(lines) == 1490
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == UNICODE_13


@FOLDS
def test_a_name_folds_letter_by_letter(fold: type[str]) -> None:
    """SCH-2: a letter younger than Unicode 13.0 stays, and those beside it fold."""
    assert fold("STRAßE \u2c2f\U0001057a İ") == "strasse \u2c2f\U0001057a i\u0307"
