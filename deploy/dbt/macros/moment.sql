{# The moment that ages are measured to, as moment() in `coordinator-state sql`: the start of the run. #}
{% macro moment() -%}
TIMESTAMPTZ '{{ var("coordinator_state_moment", run_started_at.isoformat()) }}'
{%- endmacro %}
