{# Rows with a null in a column that is never null. #}
{% test no_nulls(model, columns) %}
SELECT *
FROM {{ model }}
WHERE {% for column in columns %}{{ column }} IS NULL{{ " OR " if not loop.last }}{% endfor %}
{% endtest %}
