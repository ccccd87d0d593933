"""The search for the jars for S3. The repository here is a folder."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.backends.native import s3a
from tablefmt.spark.backends.native.s3a import Jar, cache_folder, jars_for, s3_jars
from tablefmt.spark.entry.spark_session import driver_megabytes

BODIES = {"one": b"first", "two": b"second"}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven repository of two jars, which are all that is wanted."""
    wanted = [
        Jar("org.example.x", name, "1.0", hashlib.sha256(body).hexdigest())
        for name, body in BODIES.items()
    ]
    root = tmp_path / "repository"
    for jar, body in zip(wanted, BODIES.values(), strict=True):
        (root / jar.path).parent.mkdir(parents=True)
        (root / jar.path).write_bytes(body)
    monkeypatch.setattr(s3a, "jars_for", lambda hadoop: wanted)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TABLEFMT_MAVEN", root.as_uri())
    return root


def test_jars_are_brought_once(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = s3_jars()
    assert [path.read_bytes() for path in first] == list(BODIES.values())
    assert sorted(path.name for path in cache_folder().iterdir()) == ["one-1.0.jar", "two-1.0.jar"]
    monkeypatch.setenv("TABLEFMT_MAVEN", "file:///nowhere")
    assert s3_jars() == first
    first[0].write_bytes(b"damaged")
    with pytest.raises(UnsupportedFeatureError, match=r"Missing: one-1\.0\.jar$"):
        s3_jars()


def test_another_content_is_refused(repository: Path) -> None:
    (repository / "org/example/x/two/1.0/two-1.0.jar").write_bytes(b"other")
    with pytest.raises(UnsupportedFeatureError, match="wrong SHA-256") as caught:
        s3_jars()
    assert caught.value.features == ["spark:s3-jars"]
    assert not (cache_folder() / "two-1.0.jar").exists()


@pytest.mark.parametrize("was_there", [False, True])
def test_only_the_user_puts_jars_there(repository: Path, *, was_there: bool) -> None:
    """SEC-3: this holds for any umask, and if the folder was open to others before."""
    before = os.umask(0)
    try:
        if was_there:
            cache_folder().mkdir(parents=True, mode=0o777)
        s3_jars()
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(f.stat().st_mode) for f in (cache_folder(), cache_folder().parent)]
    assert modes == [0o700, 0o700]
    assert not any(stat.S_IMODE(f.stat().st_mode) & 0o077 for f in cache_folder().iterdir())


def test_no_network_says_what_to_do(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABLEFMT_MAVEN", "http://127.0.0.1:9")
    with pytest.raises(UnsupportedFeatureError, match="set TABLEFMT_MAVEN") as caught:
        s3_jars()
    assert "s3='/that/folder'" in str(caught.value)


def test_a_folder_has_to_have_all_of_them(repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "one-1.0.jar").write_bytes(b"a build of one's own")
    with pytest.raises(UnsupportedFeatureError, match=r"lacks 1 of 2 jars for S3: two-1\.0\.jar"):
        s3_jars(folder)
    (folder / "two-1.0.jar").write_bytes(b"")
    assert s3_jars(str(folder)) == [folder / "one-1.0.jar", folder / "two-1.0.jar"]


@pytest.mark.parametrize("hadoop", ["3.4.2", "3.5.0"])
def test_a_set_has_the_hadoop_of_the_spark_it_is_for(hadoop: str) -> None:
    found = jars_for(hadoop)
    versions = {jar.artifact: jar.version for jar in found}
    assert len(versions) == len(found)
    assert versions["hadoop-aws"] == hadoop
    sdk = {jar.version for jar in found if jar.group == "software.amazon.awssdk"}
    assert sdk == {versions["s3"]}
    assert all(len(jar.sha256) == 64 for jar in found)


def test_an_unknown_hadoop_is_refused_by_its_number() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"Hadoop 9\.9\.9.*3\.4\.2, 3\.5\.0"):
        jars_for("9.9.9")


def test_a_driver_gets_a_quarter_of_the_machine_within_bounds() -> None:
    gib = 1 << 30
    assert [driver_megabytes(n * gib) for n in (1, 16, 256)] == [1024, 4096, 8192]
