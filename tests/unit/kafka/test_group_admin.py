"""The errors that answers of brokers become, by their error code."""

from __future__ import annotations

import pytest
from kafka import errors as kafka_errors

from streaming.errors import ConfigurationError
from streaming.kafka.connections import TransientFailure
from streaming.kafka.group_admin import check


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (kafka_errors.GroupAuthorizationFailedError, ConfigurationError, "needs the ACL Describe"),
        (kafka_errors.UnsupportedVersionError, ConfigurationError, "feature of this group type"),
        (kafka_errors.CoordinatorLoadInProgressError, TransientFailure, "CoordinatorLoad"),
        (kafka_errors.InvalidTopicError, kafka_errors.InvalidTopicError, "cannot ask"),
    ],
)
def test_an_error_code_is_an_error(
    answer: type[kafka_errors.BrokerResponseError], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        check(answer.errno, "ask")


def test_no_error_and_an_unknown_group_are_answers() -> None:
    check(0, "ask")
    check(kafka_errors.GroupIdNotFoundError.errno, "ask")
