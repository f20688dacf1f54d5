"""`coordinator-state dashboard`: the names of clusters."""

from __future__ import annotations

import click
import pytest

from streaming.cli.clusters import clusters_of


@pytest.mark.parametrize(
    ("folders", "names"),
    [
        (["/data/prod"], ["tables"]),
        (["prod=/data/prod", "/data/stage"], ["prod", "tables"]),
        (["/data/prod", "/data/stage"], ["prod", "stage"]),
        (["/a/tables", "/b/tables", "/c"], ["a-tables", "b-tables", "c"]),
        (["/a/x/tables", "/b/x/tables"], ["a-x-tables", "b-x-tables"]),
        (["s3://lake/prod", "s3://lake/my tables"], ["prod", "my-tables"]),
    ],
)
def test_folders_without_a_name_have_distinguishing_ones(
    folders: list[str], names: list[str]
) -> None:
    assert list(clusters_of(folders)) == names


@pytest.mark.parametrize("folders", [["/a", "/a"], ["x=/a", "x=/b"]])
def test_the_same_name_or_folder_twice_is_refused(folders: list[str]) -> None:
    with pytest.raises(click.UsageError, match="two --tables folders have the name"):
        clusters_of(folders)
