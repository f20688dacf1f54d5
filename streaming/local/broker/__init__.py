"""An embedded Kafka broker, for the demo, the tests and the benchmarks."""
