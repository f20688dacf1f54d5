"""Short labels of members."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.insight.member_labels import labels_of, member_labels

_IDS = st.text(st.sampled_from("ab-1"), min_size=1, max_size=8)
_MEMBERS = st.dictionaries(_IDS, st.none() | st.text(st.sampled_from("ab-1"), max_size=3))


def test_a_label_has_the_client_id_and_the_end_of_the_member_id() -> None:
    (label,) = member_labels({"search-9b8e61f4-9a58-4ac4-a8e8-7d1d2cf251f4": "search"}).values()
    assert label == "search-51f4"


def test_equal_ends_get_longer_and_others_stay_short() -> None:
    members = {"c-1aaaa": "c", "c-2aaaa": "c", "c-3bbbb": "c"}
    assert list(member_labels(members).values()) == ["c-1aaaa", "c-2aaaa", "c-bbbb"]


def test_a_member_without_a_client_id_has_the_end_of_its_id() -> None:
    assert member_labels({"4vTbnCfyQG2v0fOJvE8C0A": ""}) == {"4vTbnCfyQG2v0fOJvE8C0A": "8C0A"}


def test_a_label_names_one_member_of_its_group_only() -> None:
    rows = [
        {"group_id": group, "member_id": member, "client_id": "c"}
        for group, member in (("g", "c-1aaaa"), ("h", "c-2aaaa"), ("g", "c-1aaaa"), ("g", None))
    ]
    assert labels_of(rows) == {("g", "c-1aaaa"): "c-aaaa", ("h", "c-2aaaa"): "c-aaaa"}


@given(_MEMBERS)
def test_labels_of_a_group_are_distinct(members: dict[str, str | None]) -> None:
    labels = member_labels(members)
    assert labels.keys() == members.keys()
    assert len(set(labels.values())) == len(members)
    backwards = dict(reversed(list(members.items())))
    assert member_labels(backwards) == labels
