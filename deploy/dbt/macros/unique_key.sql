{# Keys with more than one row. #}
{% test unique_key(model, columns) %}
SELECT {{ columns | join(', ') }}, count(*) AS found
FROM {{ model }}
GROUP BY {{ columns | join(', ') }}
HAVING count(*) > 1
{% endtest %}
