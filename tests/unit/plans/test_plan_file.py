"""Plan files: their text, and that no other file is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator_state.replay.offsets import OffsetKey
from streaming.errors import ConfigurationError
from streaming.plans.plan_file import plan_text, read_plan, write_plan

OFFSETS = {OffsetKey("a", "orders", 1): 5, OffsetKey("a", "orders", 0): 7}


@pytest.mark.parametrize("group", ["a", 'q"uo,te', " space ", "\x1b[31m\r", "größe", "#", "'"])
def test_a_file_is_read_as_it_was_written(tmp_path: Path, group: str) -> None:
    file = str(tmp_path / "plan.csv")
    offsets = {OffsetKey(group, "orders", 0): 7, OffsetKey("b", "orders", 0): 8}
    write_plan(file, plan_text(offsets, with_groups=True))
    assert read_plan(file) == offsets


def test_a_file_of_one_group_names_none(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    write_plan(str(file), plan_text(OFFSETS, with_groups=False))
    assert file.read_bytes() == b"orders,0,7\norders,1,5\n"
    assert read_plan(str(file), "a") == OFFSETS
    with pytest.raises(ConfigurationError, match=r"line 1 names no group: pass --group"):
        read_plan(str(file))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("orders,0\n", r"line 1 is not \[GROUP,\]TOPIC,PARTITION,OFFSET"),
        ("a,orders,0,1\n\na,orders,x,1\n", "line 3 is not"),
        ('a,"orders,0,1\n', "line 1 is not"),
        ("a,b,orders,0,1\n", "line 1 is not"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        read_plan(str(file))


def test_a_group_that_the_file_names_itself(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("a,orders,0,1\n")
    with pytest.raises(ConfigurationError, match="names its group: remove --group"):
        read_plan(str(file), "a")
    with pytest.raises(ConfigurationError, match="cannot read the plan file"):
        read_plan(str(tmp_path / "none.csv"))


def test_another_file_is_never_lost(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    write_plan(str(file), "old\n")
    write_plan(str(file), "old\n")
    with pytest.raises(ConfigurationError, match="exists with different content"):
        write_plan(str(file), "new\n")
    assert file.read_text() == "old\n"
    write_plan(str(file), "new\n", overwrite=True)
    assert file.read_text() == "new\n"
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(ConfigurationError, match="cannot write the plan file"):
        write_plan(str(tmp_path / "none" / "plan.csv"), "new\n")
