"""The settings of a Spark session for S3."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.run import session
from streaming.run.s3 import LOG_STORES, s3_settings


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
def test_s3a_takes_the_variables_that_delta_rs_reads(
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


@pytest.mark.parametrize("variable", ["SPARK_CONF_DIR", "SPARK_HOME"])
@pytest.mark.parametrize(("log_store", "has_own"), [("", True), ("x.HDFSLogStore", False)])
def test_jars_and_log_store_of_the_user_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, log_store: str, has_own: bool
) -> None:
    """Delta refuses `spark.delta.logStore.class` beside the log store of a scheme."""
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "spark-defaults.conf").write_text(
        "# spark.jars=none\nspark.jars   /opt/s3a.jar,/opt/b.jar \nspark.ui.enabled=true\n"
        + (f"spark.delta.logStore.class: {log_store}\n" if log_store else "")
    )
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv(variable, str(folder if variable == "SPARK_CONF_DIR" else tmp_path))
    monkeypatch.setattr(session, "delta_jars", lambda: [Path("/cache/delta.jar")])
    settings = session._settings("yarn", "spark", with_delta=True, with_s3=True)
    assert settings["spark.jars"] == "/opt/s3a.jar,/opt/b.jar,/cache/delta.jar"
    assert (LOG_STORES.items() <= settings.items()) == has_own
