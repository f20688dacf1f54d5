"""Where Spark looks for data sources by itself: packages named `pyspark_…` with a `DefaultSource`.

So that `USING coordinator_state` works in every session whose Python has this package, those of a
Thrift server among them, which no one can register anything in.
"""

from streaming.views.spark_views import CoordinatorStateViews as DefaultSource

__all__ = ["DefaultSource"]
