# The materializer. Everything it needs is fetched while the image is built: it starts without network
# but for Kafka's. The digest is that of the tag for every platform, as
# `docker buildx imagetools inspect python:3.11.16-slim-bookworm` prints it.
FROM python:3.11.16-slim-bookworm@sha256:528257d48c1da0dcecc2e725d1ae34498d60c965f1241e39cd6a85a8859bdf84

RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/coordinator-state

# The packages first: they change seldom, and Spark among them is large.
COPY requirements/streaming.lock requirements/
RUN pip install --no-cache-dir --require-hashes -r requirements/streaming.lock

COPY pyproject.toml README.md LICENSE NOTICE ./
COPY coordinator_state coordinator_state
COPY streaming streaming
COPY pyspark_coordinator_state pyspark_coordinator_state
RUN pip install --no-cache-dir --no-deps .

# The jars of Delta and S3A; `run` finds them here and asks no repository.
ENV COORDINATOR_STATE_CACHE=/opt/coordinator-state/cache
RUN python -c "from streaming.jvm.jars import delta_jars, s3_jars; delta_jars(); s3_jars()"
# For faster starts (docs/speed.md), side by side: the archive of the classes of Spark's JVM, and the
# loops that Numba compiles, for processors of this machine's model. Others compile them anew.
ENV NUMBA_CACHE_DIR=/opt/coordinator-state/cache/numba
RUN python -m streaming.run.loop_compilation & loops=$! \
 && python -m streaming.run.class_training \
 && wait $loops

# A volume takes over the owner of the folder it is first mounted on.
RUN useradd --create-home --uid 1000 --user-group coordinator \
 && install --directory --owner=coordinator --group=coordinator /data /data/tables /data/checkpoints \
 && chown --recursive coordinator:coordinator "$NUMBA_CACHE_DIR"
USER 1000:1000
WORKDIR /data
VOLUME ["/data/tables", "/data/checkpoints"]

ENTRYPOINT ["coordinator-state"]
CMD ["--help"]
