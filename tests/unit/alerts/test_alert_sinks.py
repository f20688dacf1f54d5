"""Notices arrive where they are to: real receivers, and what they are sent."""

from __future__ import annotations

import email
import email.policy
import json
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import trustme
from pydantic import SecretStr, TypeAdapter

from streaming.alerts import sinks
from streaming.alerts.alert import Alert, AlertKey, AlertState, Notice, NoticeKind, headline
from streaming.alerts.delivery import (
    DeliveryError,
    SinkAwayError,
    TransientDeliveryError,
    post,
)
from streaming.alerts.sinks import Sink
from streaming.local.broker.configuration import free_port
from tests.support.brokers.receivers import HttpReceiver, Mailbox, mail_server
from tests.support.eventually import Eventually

SECRET = "s3cr3t"  # noqa: S105 - one that must not be shown
START = datetime(2026, 11, 22, 3, tzinfo=timezone.utc)
HOSTILE = 'g"<!channel>\n\x1b[31m&'
ENCODED_WORD = "=?utf-8?q?a=0d=0aBcc:_x=40y=0d=0a=0d=0aALL_IS_WELL?="

FIRING = Notice(
    alert=Alert(
        key=AlertKey("stopped", HOSTILE, "orders", 3),
        severity="critical",
        state=AlertState.FIRING,
        since=START,
        fired_at=START + timedelta(minutes=1),
        value=17.0,
        fired_value=11.0,
        reason="STOP: no commit for 61 s",
        group_status="STOP",
    ),
    cluster_id="cluster",
    note="see the runbook",
    kind=NoticeKind.NEW,
)
RESOLVED = replace(
    FIRING,
    alert=replace(
        FIRING.alert,
        key=AlertKey("stopped", "other"),
        state=AlertState.RESOLVED,
        resolved_at=START + timedelta(minutes=2),
        reason="the condition no longer holds",
    ),
)


def sink(**settings: Any) -> Sink:
    return TypeAdapter(Sink).validate_python(settings)


def mail_sink(mailbox: Mailbox, **settings: Any) -> Sink:
    mail = {"host": "127.0.0.1", "port": mailbox.port, "from": "a@example.org"}
    return sink(type="email", **mail, **{"to": "b@example.org"} | settings)


def send(to: Sink, *notices: Notice) -> None:
    for some in to.batches(notices):
        to.send(some)


def test_a_webhook_has_everything(receiver: HttpReceiver) -> None:
    hook = sink(type="webhook", url=f"{receiver.url}/x", headers={"Authorization": "Bearer k"})
    send(hook, FIRING, RESOLVED)
    (posted,) = receiver.posted
    assert posted.path == "/x"
    assert posted.headers["Authorization"] == "Bearer k"
    assert posted.headers["Content-Type"] == "application/json"
    assert posted.body["version"] == 1
    firing, resolved = posted.body["alerts"]
    assert firing == {
        "status": "firing",
        "alert_id": FIRING.alert_id,
        "rule": "stopped",
        "severity": "critical",
        "cluster_id": "cluster",
        "group_id": HOSTILE,
        "topic": "orders",
        "partition": 3,
        "value": 17.0,
        "fired_value": 11.0,
        "reason": "STOP: no commit for 61 s",
        "note": "see the runbook",
        "since": "2026-11-22T03:00:00.000Z",
        "fired_at": "2026-11-22T03:01:00.000Z",
        "resolved_at": None,
        "is_repeat": False,
        "is_update": False,
        "group_status": "STOP",
        "previous_status": None,
    }
    assert (resolved["status"], resolved["resolved_at"]) == ("resolved", "2026-11-22T03:02:00.000Z")
    assert resolved["alert_id"] != firing["alert_id"]


def test_a_notice_is_known_by_its_id() -> None:
    same = replace(
        FIRING, alert=replace(FIRING.alert, state=AlertState.RESOLVED), kind=NoticeKind.REPEAT
    )
    assert same.alert_id == FIRING.alert_id
    assert replace(FIRING, cluster_id="other").alert_id != FIRING.alert_id


def test_an_update_says_what_the_status_was(receiver: HttpReceiver) -> None:
    statuses: dict[str, Any] = {"group_status": "HANGING_TRANSACTION", "previous_status": "STOP"}
    update = replace(FIRING, alert=replace(FIRING.alert, **statuses), kind=NoticeKind.UPDATE)
    assert update.sentence.endswith("STOP: no commit for 61 s; was STOP (see the runbook)")
    send(sink(type="webhook", url=receiver.url), update)
    (notice,) = receiver.alerts
    assert (notice["status"], notice["is_update"], notice["is_repeat"]) == ("firing", True, False)
    assert {name: notice[name] for name in statuses} == statuses
    send(sink(type="pagerduty", routing_key="k", url=receiver.url), update)
    event = receiver.posted[-1].body
    # A trigger with the same key updates the incident.
    assert (event["event_action"], event["dedup_key"]) == ("trigger", FIRING.alert_id)


def test_a_hundred_go_together_at_most(receiver: HttpReceiver) -> None:
    send(sink(type="webhook", url=receiver.url), *[FIRING] * 150)
    assert [len(posted.body["alerts"]) for posted in receiver.posted] == [100, 50]


def test_slack_has_a_line_each_and_nobody_writes_mentions_into_it(receiver: HttpReceiver) -> None:
    send(sink(type="slack", url=receiver.url), FIRING, RESOLVED)
    (posted,) = receiver.posted
    lines = posted.body["text"].split("\n")
    assert lines == [
        'FIRING [critical] stopped: group g"&lt;!channel&gt;\\n\\x1b[31m&amp;, topic orders, '
        "partition 3: STOP: no commit for 61 s (see the runbook)",
        "RESOLVED [critical] stopped: group other: the condition no longer holds (see the runbook)",
    ]
    send(sink(type="slack", url=receiver.url), *[FIRING] * 25)
    lines = receiver.posted[-1].body["text"].split("\n")
    assert (len(lines), lines[-1]) == (21, "and 5 more")


def test_pagerduty_has_an_event_each(receiver: HttpReceiver) -> None:
    send(sink(type="pagerduty", routing_key=SECRET, url=receiver.url), FIRING, RESOLVED)
    trigger, resolve = (posted.body for posted in receiver.posted)
    assert (trigger["routing_key"], trigger["event_action"]) == (SECRET, "trigger")
    payload = trigger["payload"]
    fields = ("severity", "source", "class", "timestamp")
    moment = "2026-11-22T03:01:00.000Z"
    assert [payload[name] for name in fields] == ["critical", "cluster", "stopped", moment]
    assert payload["summary"].startswith("FIRING [critical] stopped: group ")
    assert payload["custom_details"]["group_id"] == HOSTILE
    assert trigger["dedup_key"] == FIRING.alert_id
    assert resolve == {
        "routing_key": SECRET,
        "dedup_key": RESOLVED.alert_id,
        "client": "coordinator-state",
        "event_action": "resolve",
    }


def test_alertmanager_has_labels(receiver: HttpReceiver) -> None:
    send(sink(type="alertmanager", url=f"{receiver.url}/am/"), FIRING, RESOLVED)
    (posted,) = receiver.posted
    assert posted.path == "/am/api/v2/alerts"
    firing, resolved = posted.body
    assert firing["labels"] == {
        **{"alertname": "stopped", "severity": "critical", "cluster": "cluster"},
        **{"group": HOSTILE, "topic": "orders", "partition": "3"},
    }
    assert firing["annotations"]["summary"] == "STOP: no commit for 61 s"
    ends_at = datetime.fromisoformat(firing["endsAt"].replace("Z", "+00:00"))
    assert ends_at > datetime.now(timezone.utc)
    assert resolved["endsAt"] == "2026-11-22T03:02:00.000Z"
    assert "topic" not in resolved["labels"]


@pytest.mark.skipif(
    shutil.which("prometheus-alertmanager") is None,
    reason="Alertmanager is not installed (Debian's package prometheus-alertmanager, which .ci/run "
    "installs); test_alertmanager_has_labels holds what is sent to it field by field",
)
def test_alertmanager_itself_takes_it(tmp_path: Path, eventually: Eventually) -> None:
    config = tmp_path / "alertmanager.yml"
    config.write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
    url = f"http://127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [
            *("prometheus-alertmanager", f"--config.file={config}", "--cluster.listen-address="),
            *(f"--storage.path={tmp_path}", f"--web.listen-address={url.removeprefix('http://')}"),
        ],
        stderr=subprocess.DEVNULL,
    )

    def active() -> list[dict[str, Any]] | None:
        try:
            with urllib.request.urlopen(f"{url}/api/v2/alerts", timeout=5) as answer:  # noqa: S310
                alerts: list[dict[str, Any]] = json.load(answer)
                return alerts
        except OSError:
            return None

    try:
        eventually(lambda: active() == [])
        recent = replace(FIRING.alert, fired_at=datetime.now(timezone.utc))
        manager = sink(type="alertmanager", url=url)
        send(manager, replace(FIRING, alert=recent))
        eventually(lambda: [alert["labels"]["group"] for alert in active() or ()] == [HOSTILE])
        over = replace(recent, state=AlertState.RESOLVED, resolved_at=datetime.now(timezone.utc))
        send(manager, replace(FIRING, alert=over))
        eventually(lambda: active() == [])
    finally:
        process.terminate()
        process.wait(30)


def test_a_mail_has_a_subject_that_is_one_line() -> None:
    encoded = replace(FIRING, alert=replace(FIRING.alert, key=AlertKey("r", ENCODED_WORD)))
    recipients = ["b@example.org", "c@example.org"]
    with mail_server() as mailbox:
        to = mail_sink(mailbox, security="none", to=recipients)
        for notices in ([FIRING], [FIRING, RESOLVED], [encoded]):
            send(to, *notices)
        assert [mail.rcpt_tos for mail in mailbox.mails] == [recipients] * 3
        first, second, third = (
            email.message_from_bytes(mail.content, policy=email.policy.default)
            for mail in mailbox.mails
        )
    assert first["Subject"].startswith('FIRING [critical] stopped: group g"<!channel>\\n')
    assert first["From"] == "a@example.org"
    assert "STOP: no commit for 61 s (see the runbook)" in first.get_content().replace("\n", " ")
    assert second["Subject"] == "1 firing, 1 resolved alerts" == headline([FIRING, RESOLVED])
    assert third["Bcc"] is None
    assert "ALL_IS_WELL" in third["Subject"]


def test_mail_that_is_to_be_encrypted_is_not_sent_in_the_open() -> None:
    with mail_server() as mailbox:
        with pytest.raises(DeliveryError, match=r"^127\.0\.0\.1: SMTPNotSupportedError$"):
            send(mail_sink(mailbox), FIRING)
        assert mailbox.mails == []


@pytest.mark.parametrize("security", ["starttls", "tls"])
@pytest.mark.parametrize("is_trusted", [True, False])
def test_mail_goes_to_a_server_that_is_trusted(
    security: str, is_trusted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    trusted = tmp_path / "trusted.pem"
    (authority if is_trusted else trustme.CA()).cert_pem.write_to_path(str(trusted))
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    with mail_server(authority, is_tls=security == "tls") as mailbox:
        refusal = pytest.raises(DeliveryError, match=r"^127\.0\.0\.1: SSLCertVerificationError$")
        with nullcontext() if is_trusted else refusal:
            send(mail_sink(mailbox, security=security), FIRING)
        assert len(mailbox.mails) == is_trusted


def test_a_credential_for_others_goes_to_nobody(
    receiver: HttpReceiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"default login me password {SECRET}\n")
    monkeypatch.setenv("NETRC", str(netrc))
    send(sink(type="webhook", url=receiver.url, headers={"Authorization": "Bearer k"}), FIRING)
    assert receiver.posted[0].headers["Authorization"] == "Bearer k"


def test_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    send(sink(type="stdout"), RESOLVED, FIRING)
    send(sink(type="stdout", output="json"), FIRING)
    first, second, third = capsys.readouterr().out.splitlines()
    at, _, sentence = first.partition(" ")
    sent_ago = datetime.now(timezone.utc) - datetime.fromisoformat(at.replace("Z", "+00:00"))
    assert timedelta(0) <= sent_ago < timedelta(minutes=1)
    assert sentence.startswith("RESOLVED [critical] stopped: group other")
    assert "\\x1b" in second
    assert json.loads(third)["group_id"] == HOSTILE


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        *(([200], None), ([500], "answered 500"), ([429], "429")),
        *(([400], "answered 400"), ([302], "302"), ([304], "304")),
    ],
)
def test_a_failure_is_reported_without_secrets(
    receiver: HttpReceiver, answers: list[int], fault: str | None
) -> None:
    receiver.answers = list(answers)
    with nullcontext() if fault is None else pytest.raises(DeliveryError, match=fault) as error:
        send(sink(type="webhook", url=f"{receiver.url}/{SECRET}"), FIRING)
    assert error is None or SECRET not in str(error.value)
    assert len(receiver.posted) == (fault is None)


@pytest.mark.parametrize("kind", ["webhook", "email"])
def test_nobody_is_there(kind: str) -> None:
    port = free_port()
    url = f"http://user:{SECRET}@127.0.0.1:{port}/{SECRET}"
    mail = mail_sink(Mailbox(port), security="none")
    with pytest.raises(SinkAwayError, match=r"^127\.0\.0\.1: Conn") as error:
        send(mail if kind == "email" else sink(type=kind, url=url), FIRING)
    assert SECRET not in str(error.value)


def test_a_host_that_does_not_answer_may_have_taken_the_notice() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = SecretStr(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(TransientDeliveryError, match="ReadTimeout") as error:
            post(url, {}, timeout_s=(5, 0.2))
    assert not isinstance(error.value, SinkAwayError)


def test_those_that_pagerduty_took_are_not_lost(receiver: HttpReceiver) -> None:
    pager = sink(type="pagerduty", routing_key="k", url=receiver.url)
    receiver.answers = [200, 400]
    taken: list[Notice] = []
    with pytest.raises(DeliveryError):
        for some in pager.batches([FIRING, RESOLVED]):
            pager.send(some)
            taken += some
    assert taken == [FIRING]


@contextmanager
def answering_without_end(begin: bytes) -> Iterator[int]:
    """The port of a server that sends the begin of an answer, and then a byte now and then."""
    ended = threading.Event()

    def answer(listening: socket.socket) -> None:
        client, _ = listening.accept()
        with client, suppress(OSError):
            client.sendall(begin)
            while not ended.wait(0.1):
                client.sendall(b"a")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer, args=[listening])
        thread.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            ended.set()
            thread.join()


def test_a_mail_server_that_does_not_end_its_answer_has_a_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sinks, "_MAIL_S", 0.5)
    with answering_without_end(b"220 ") as port:
        mail = mail_sink(Mailbox(port), security="none")
        with pytest.raises(DeliveryError, match=r"127\.0\.0\.1: no whole answer within 0\.5 s"):
            send(mail, FIRING)


SENDS = """
import sys
from functools import partial
from pydantic import SecretStr
from streaming.alerts.delivery import DeliveryError, post
once = partial(post, timeout_s=(0.5, 0.5))
for send in (once, once, post):
    try:
        send(SecretStr(sys.argv[1]), {})
    except DeliveryError as error:
        print(error)
"""


def test_an_answer_that_does_not_end_has_a_deadline() -> None:
    """A byte now and then keeps each read short; the process ends although the host goes on."""
    with answering_without_end(b"HTTP/1.1 200 OK\r\nX: ") as port:
        command = [sys.executable, "-c", SENDS, f"http://127.0.0.1:{port}/secret"]
        sent = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert sent.stdout.splitlines() == [
        "127.0.0.1: no whole answer within 1 s",
        *["127.0.0.1: the answer to an earlier attempt has not ended"] * 2,
    ]
