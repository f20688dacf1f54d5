"""The Delta tables: their columns, the folder they are in, writing with Spark, reading without."""
