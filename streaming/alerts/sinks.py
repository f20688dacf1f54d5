"""The types of sinks: their settings and the requests that they send.

Settings of a sink may be secrets; they are never part of an error.
"""

from __future__ import annotations

import smtplib
import ssl
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from email.message import EmailMessage
from typing import Annotated, Any, ClassVar, Final, Literal
from urllib.parse import urlsplit

import click
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    model_validator,
)

from streaming.alerts.alert import Notice, headline, sentences
from streaming.alerts.delivery import (
    ANSWER_S,
    SERVER_ERROR,
    DeliveryError,
    SinkAwayError,
    TransientDeliveryError,
    post,
    within,
)
from streaming.tables.clock import utc_now
from streaming.views.text import dated, json_line, printable

_SUBJECT_LENGTH: Final = 200
_MAIL_S: Final = 30
"""For all answers of a mail server, each of which may take `ANSWER_S`."""
_GOODBYE_S: Final = 1
_PAGERDUTY_URL: Final = "https://events.pagerduty.com/v2/enqueue"
_PAGERDUTY_SUMMARY: Final = 1024
_ALERTMANAGER_RESOLVES_AFTER: Final = timedelta(minutes=4)
"""When Alertmanager resolves an alert that is not repeated."""


def _checked_url(url: SecretStr) -> SecretStr:
    try:
        parts = urlsplit(url.get_secret_value())
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        # The error quotes the URL, which may be a secret.
        is_good = False
    if not is_good:
        raise ValueError("a URL must begin with http:// or https:// and a host")
    return url


def as_list(value: Any) -> Any:
    """A list of one text; any other value as it is."""
    return [value] if isinstance(value, str) else value


Url = Annotated[SecretStr, AfterValidator(_checked_url)]


class _Sink(BaseModel, ABC):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
    most_at_once: ClassVar[int] = 100
    kept_alive_every: ClassVar[timedelta | None] = None
    """How often a firing alert is repeated to a sink that would resolve it otherwise."""

    @abstractmethod
    def send(self, notices: Sequence[Notice]) -> None:
        """Send one batch of notices.

        Raises:
            TransientDeliveryError: the attempt failed; a later one may succeed.
            DeliveryError: the sink refused the batch.
        """

    def batches(self, notices: Sequence[Notice]) -> Iterable[Sequence[Notice]]:
        """The notices of a round, split into batches."""
        for first in range(0, len(notices), self.most_at_once):
            yield notices[first : first + self.most_at_once]

    @property
    def is_kept_alive(self) -> bool:
        """Whether the sink resolves an alert that is not repeated."""
        return self.kept_alive_every is not None

    def repeat_of(self, repeat: timedelta | None) -> timedelta | None:
        """The time between two notices of a firing alert; `repeat` is that of its rule."""
        return repeat if self.kept_alive_every is None else self.kept_alive_every


class StdoutSink(_Sink):
    """One line for each notice on stdout: text or JSON."""

    type: Literal["stdout"]
    output: Literal["text", "json"] = "text"

    def send(self, notices: Sequence[Notice]) -> None:
        for notice in notices:
            is_text = self.output == "text"
            text = dated(printable(notice.sentence)) if is_text else json_line(notice.fields())
            click.echo(text)


class _HeaderSink(_Sink):
    url: Url
    headers: dict[str, SecretStr] = Field(default_factory=dict)

    @property
    def plain_headers(self) -> dict[str, str]:
        return {name: value.get_secret_value() for name, value in self.headers.items()}


class WebhookSink(_HeaderSink):
    """One POST of JSON for each batch of notices: `{"version": 1, "alerts": [...]}`."""

    type: Literal["webhook"]

    def send(self, notices: Sequence[Notice]) -> None:
        alerts = [notice.fields() for notice in notices]
        post(self.url, {"version": 1, "alerts": alerts}, self.plain_headers)


class SlackSink(_Sink):
    """One message to a Slack incoming webhook for each batch of notices."""

    type: Literal["slack"]
    url: Url

    def send(self, notices: Sequence[Notice]) -> None:
        # Slack marks links and mentions with these three characters.
        text = "\n".join(map(printable, sentences(notices)))
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        post(self.url, {"text": text})


class PagerDutySink(_Sink):
    """One event of PagerDuty's Events API v2 for each notice: trigger or resolve."""

    most_at_once: ClassVar[int] = 1
    type: Literal["pagerduty"]
    routing_key: SecretStr = Field(min_length=1)
    url: Url = SecretStr(_PAGERDUTY_URL)

    def send(self, notices: Sequence[Notice]) -> None:
        for notice in notices:
            post(self.url, self._event(notice))

    def _event(self, notice: Notice) -> dict[str, Any]:
        alert = notice.alert
        event = {
            "routing_key": self.routing_key.get_secret_value(),
            "dedup_key": notice.alert_id,
            "client": "coordinator-state",
        }
        if alert.state.value == "resolved":
            return event | {"event_action": "resolve"}
        return event | {
            "event_action": "trigger",
            "payload": {
                "summary": printable(notice.sentence)[:_PAGERDUTY_SUMMARY],
                "source": notice.cluster_id,
                "severity": alert.severity,
                "timestamp": alert.fired_at,
                "component": alert.group_id,
                "class": alert.rule,
                "custom_details": notice.fields(),
            },
        }


class AlertmanagerSink(_HeaderSink):
    """Alerts for Alertmanager's API v2, repeated every minute while they fire."""

    # As often as Prometheus.
    kept_alive_every: ClassVar[timedelta | None] = timedelta(minutes=1)
    type: Literal["alertmanager"]

    def send(self, notices: Sequence[Notice]) -> None:
        url = SecretStr(f"{self.url.get_secret_value().rstrip('/')}/api/v2/alerts")
        post(url, [self._alert(notice) for notice in notices], self.plain_headers)

    def _alert(self, notice: Notice) -> dict[str, Any]:
        alert = notice.alert
        labels = {
            "alertname": alert.rule,
            "severity": alert.severity,
            "cluster": notice.cluster_id,
            "group": alert.group_id,
            "topic": alert.topic,
            "partition": None if alert.partition is None else str(alert.partition),
        }
        ends_at = alert.resolved_at or utc_now() + _ALERTMANAGER_RESOLVES_AFTER
        return {
            "labels": {name: value for name, value in labels.items() if value is not None},
            "annotations": {"summary": alert.reason, "note": notice.note},
            "startsAt": alert.fired_at,
            "endsAt": ends_at,
        }


class EmailSink(_Sink):
    """One mail for each batch of notices."""

    type: Literal["email"]
    host: str = Field(min_length=1)
    port: int = Field(default=587, gt=0, lt=1 << 16)
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str | None = None
    password: SecretStr | None = None
    sender: str = Field(alias="from", min_length=1)
    to: Annotated[tuple[str, ...], BeforeValidator(as_list)] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_login(self) -> EmailSink:
        if (self.user is None) != (self.password is None):
            raise ValueError("set both user and password, or neither")
        return self

    def send(self, notices: Sequence[Notice]) -> None:
        mail = EmailMessage()
        mail["From"], mail["To"] = self.sender, ", ".join(self.to)
        # EmailMessage would decode encoded words (`=?`), including line breaks in them.
        subject = printable(headline(notices)).replace("=?", "= ?")
        mail["Subject"] = subject[:_SUBJECT_LENGTH]
        mail.set_content("\n\n".join(map(printable, sentences(notices))) + "\n")
        address = f"smtp://{self.host}:{self.port}"
        within(_MAIL_S, self.host, address, lambda: self._send(mail))

    def _send(self, mail: EmailMessage) -> None:
        try:
            try:
                server = self._connected()
            except OSError as error:
                if isinstance(error, smtplib.SMTPException):
                    raise
                raise SinkAwayError(f"{self.host}: {type(error).__name__}") from None
            try:
                server.send_message(mail)
            finally:
                # The mail is already accepted or refused.
                with suppress(smtplib.SMTPException, OSError):
                    if server.sock is not None:
                        server.sock.settimeout(_GOODBYE_S)
                    server.quit()
        except smtplib.SMTPResponseException as error:
            is_permanent = error.smtp_code >= SERVER_ERROR
            kind = DeliveryError if is_permanent else TransientDeliveryError
            raise kind(f"{self.host} answered {error.smtp_code}") from None
        except (smtplib.SMTPRecipientsRefused, smtplib.SMTPNotSupportedError) as error:
            raise DeliveryError(f"{self.host}: {type(error).__name__}") from None
        except (smtplib.SMTPException, OSError) as error:
            raise TransientDeliveryError(f"{self.host}: {type(error).__name__}") from None

    def _connected(self) -> smtplib.SMTP:
        trusted = ssl.create_default_context()
        server: smtplib.SMTP
        if self.security == "tls":
            server = smtplib.SMTP_SSL(self.host, self.port, timeout=ANSWER_S, context=trusted)
        else:
            server = smtplib.SMTP(self.host, self.port, timeout=ANSWER_S)
        try:
            if self.security == "starttls":
                server.starttls(context=trusted)
            if self.user is not None and self.password is not None:
                server.login(self.user, self.password.get_secret_value())
        except BaseException:
            server.close()
            raise
        return server


Sink = Annotated[
    StdoutSink | WebhookSink | SlackSink | PagerDutySink | AlertmanagerSink | EmailSink,
    Field(discriminator="type"),
]
