{# offsets.retention.minutes of the brokers; by default that of Kafka, seven days. #}
{% macro offsets_retention() -%}
INTERVAL {{ var("coordinator_state_offsets_retention_minutes", 10080) }} MINUTES
{%- endmacro %}
