"""The engine `spark`: plans micro-batches on Spark's executors and writes them with Delta Lake.

`planning` runs in Python workers of the executors; the other modules run on the driver. Nothing
that grows with keys, groups, members or records comes to the driver.
"""
