"""The test server itself, before anything is concluded from it."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from botocore.exceptions import ClientError

from tests.s3server import S3Server

CREATORS = 16
KEYS = 8


@pytest.fixture
def fast_thread_switching():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def _status_of_create(client, bucket: str, key: str, body: bytes) -> int:
    try:
        answer = client.put_object(Bucket=bucket, Key=key, Body=body, IfNoneMatch="*")
    except ClientError as error:
        answer = error.response
    return answer["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.slow
def test_one_create_of_a_key_wins_and_its_body_stays(s3_server: S3Server, fast_thread_switching):
    """STO-3 and STO-4 need this behaviour of a server. The test uses plain boto3."""
    client, bucket = s3_server.client(), s3_server.new_bucket()
    start = Barrier(CREATORS)

    def race(number: int) -> list[int]:
        statuses = []
        for key in range(KEYS):
            start.wait(timeout=60)
            statuses.append(_status_of_create(client, bucket, f"k{key}", b"%d" % number))
        return statuses

    with ThreadPoolExecutor(CREATORS) as pool:
        statuses = list(pool.map(race, range(CREATORS)))

    for key in range(KEYS):
        answers = [one[key] for one in statuses]
        assert sorted(answers) == [200] + [412] * (CREATORS - 1)
        kept = client.get_object(Bucket=bucket, Key=f"k{key}")["Body"].read()
        assert kept == b"%d" % answers.index(200)


def test_an_empty_create_is_conditional_too(s3_server: S3Server):
    client, bucket = s3_server.client(), s3_server.new_bucket()

    answers = [_status_of_create(client, bucket, "k", body) for body in (b"", b"x", b"")]

    assert answers == [200, 412, 412]
    assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == b""
