"""S3A takes the variables that delta-rs reads, too."""

from __future__ import annotations

import pytest

from streaming.run.s3 import s3_settings


@pytest.mark.parametrize(
    ("environment", "settings"),
    [
        ({}, {}),
        ({"AWS_DEFAULT_REGION": "eu-west-1"}, {"endpoint.region": "eu-west-1"}),
        (
            {"AWS_REGION": "eu-central-1", "AWS_DEFAULT_REGION": "eu-west-1"},
            {"endpoint.region": "eu-central-1"},
        ),
        (
            {"AWS_ENDPOINT_URL": "http://minio:9000"},
            {"endpoint": "http://minio:9000", "path.style.access": "true"},
        ),
        (
            {"AWS_ENDPOINT_URL": "http://other", "AWS_ENDPOINT_URL_S3": "http://minio:9000"},
            {"endpoint": "http://minio:9000", "path.style.access": "true"},
        ),
    ],
)
def test_settings_by_variables(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], settings: dict[str, str]
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    prefix = "spark.hadoop.fs.s3a."
    given = {k.removeprefix(prefix): v for k, v in s3_settings().items() if k.startswith(prefix)}
    assert given.pop("aws.credentials.provider").endswith(".DefaultCredentialsProvider")
    assert given == settings
