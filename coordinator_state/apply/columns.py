"""Columns as the tables store them.

Rows of a micro-batch have times as `<name>_timestamp_ms`, in milliseconds since the epoch. Tables
have timestamps named `<name>_timestamp`, and tables of history also have the `day` of a record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from operator import attrgetter
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.log.log_decoder import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

Int32 = Annotated[int, pa.int32()]
"""An integer that Arrow stores in 32 bits; `int` itself has 64."""

_MOST_KEYS: Final = 2**62

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_MS: Final = pa.timestamp("ms", tz="UTC")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_US: Final = timedelta(microseconds=1)
_TIMESTAMP_MS: Final = "_timestamp_ms"
_ARROW_TYPES: Final[dict[Any, pa.DataType]] = {
    bool: pa.bool_(),
    bytes: pa.binary(),
    date: pa.date32(),
    datetime: TIMESTAMP,
    float: pa.float64(),
    int: pa.int64(),
    str: pa.string(),
}


def schema_of(row: type) -> pa.Schema:
    """The schema of a table, from the class of its rows. A column is nullable if it may be None.

    >>> from dataclasses import make_dataclass
    >>> schema_of(make_dataclass("Row", [("partition", Int32), ("metadata", str | None)]))
    partition: int32 not null
    metadata: string
    """
    return pa.schema(_fields(row))


def nullable(schema: pa.Schema) -> pa.Schema:
    """The schema with all columns nullable."""
    return pa.schema([field.with_nullable(True) for field in schema])


def schema_in_ms(row: type) -> pa.Schema:
    """The schema of a table's rows in a micro-batch: without `day`, and with times in ms."""
    return pa.schema(
        [
            pa.field(f"{field.name}_ms", pa.int64(), field.nullable)
            if field.type == TIMESTAMP
            else field
            for field in _fields(row)
            if field.name != "day"
        ]
    )


def _fields(row: type) -> list[pa.Field]:
    return [_field(*hint) for hint in get_type_hints(row, include_extras=True).items()]


def _field(name: str, hint: Any) -> pa.Field:
    """A column of a type or of `type | None`."""
    members = get_args(hint)
    if NoneType not in members:
        return pa.field(name, _arrow_type(hint), nullable=False)
    (value_type,) = set(members) - {NoneType}
    return pa.field(name, _arrow_type(value_type))


def _arrow_type(hint: Any) -> pa.DataType:
    match get_origin(hint), get_args(hint):
        case origin, (value_type,) if origin is list:
            return pa.list_(_arrow_type(value_type))
        case origin, (key_type, value_type) if origin is dict:
            return pa.map_(_arrow_type(key_type), _arrow_type(value_type))
        case origin, (_, arrow_type) if origin is Annotated:
            return arrow_type
    return pa.struct(_fields(hint)) if is_typeddict(hint) else _ARROW_TYPES[hint]


def table_of(rows: Iterable[Any], schema: pa.Schema, **given: Iterable[Any]) -> pa.Table:
    """A table of objects; a column that is not given has their attributes of its name.

    Lists of structs are lists of objects, too. A column is null if the classes of the objects lack
    the attribute; if a class has it, so do its objects.
    """
    objects = list(rows)
    kinds = {*map(type, objects)}
    columns = [
        _column(given[name] if name in given else _attributes(objects, kinds, name), data_type)
        for name, data_type in zip(schema.names, schema.types, strict=True)
    ]
    return pa.table(columns, schema=schema)


def _attributes(objects: Sequence[Any], kinds: Collection[type], name: str) -> Iterable[Any]:
    """An attribute of each object; None if it lacks the attribute."""
    if all(hasattr(kind, name) for kind in kinds):
        return map(attrgetter(name), objects)
    return (getattr(element, name, None) for element in objects)


def _column(values: Iterable[Any], data_type: pa.DataType) -> pa.Array:
    if not (pa.types.is_list(data_type) and pa.types.is_struct(data_type.value_type)):
        return pa.array(values, data_type)
    lists = list(values)
    entries = [entry for elements in lists for entry in elements or ()]
    fields = [
        data_type.value_type.field(number) for number in range(data_type.value_type.num_fields)
    ]
    attributes = [pa.array(map(attrgetter(field.name), entries), field.type) for field in fields]
    sizes = [len(elements or ()) for elements in lists]
    return pa.ListArray.from_arrays(
        pa.array(np.cumsum([0, *sizes], dtype=np.int32)),
        pa.StructArray.from_arrays(attributes, fields=fields),
        type=data_type,
        mask=pa.array([elements is None for elements in lists], pa.bool_()),
    )


def distinct_keys(keys: pa.Table) -> Integers:
    """One integer for each row of keys, from 0 without gaps; equal rows have the same integer."""
    return _distinct(keys.columns, keys.num_rows)


def _distinct(columns: Iterable[pa.ChunkedArray], count: int) -> Integers:
    """See `distinct_keys`. Arrow's hash tables take half the time of NumPy's sort."""
    ids: Integers = np.zeros(count, dtype=np.int64)
    bound = 1
    for column in columns:
        values, size = _encoded(column)
        if bound > _MOST_KEYS // size:
            # Otherwise the next product could overflow.
            ids, bound = _encoded(pa.chunked_array([ids]))
        ids, bound = ids * size + values, bound * size
    return _encoded(pa.chunked_array([ids]))[0]


def _encoded(column: pa.ChunkedArray) -> tuple[Integers, int]:
    """A number for each value, from 0, and how many numbers there are; null has one, too."""
    if pa.types.is_dictionary(column.type):
        # Each chunk has a dictionary of its own.
        column = column.cast(column.type.value_type)
    # All chunks share the dictionary of the last one, so long texts are not copied.
    chunks = column.dictionary_encode("encode").chunks
    if not chunks:
        return np.zeros(0, np.int64), 1
    numbers = np.concatenate([chunk.indices.to_numpy() for chunk in chunks])
    return numbers.astype(np.int64), max(1, len(chunks[-1].dictionary))


NOWHERE: Final = -1


def positions(keys: pa.Table, among: pa.Table) -> Integers:
    """For each row of keys, the position of the last equal row of `among`, or `NOWHERE`."""
    pairs = zip(keys.columns, among.columns, strict=True)
    columns = (
        pa.chunked_array([*column.chunks, *other.chunks], column.type) for column, other in pairs
    )
    ids = _distinct(columns, keys.num_rows + among.num_rows)
    last: Integers = np.full(len(ids), NOWHERE)
    last[ids[keys.num_rows :]] = np.arange(among.num_rows)
    return last[ids[: keys.num_rows]]


def with_matches(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> pa.Table:
    """Rows with the further columns of the last other row with the same key; null without one.

    The order of the rows stays, and null equals null in a key. `pa.Table.join` takes longer, and
    gives the rows in any order.
    """
    place = positions(rows.select(key), others.select(key))
    index = pa.array(place, mask=place == NOWHERE)
    for name in others.column_names:
        if name not in key:
            rows = rows.append_column(others.schema.field(name), others[name].take(index))
    return rows


def with_columns(rows: pa.Table, columns: Mapping[str, Any]) -> pa.Table:
    """Rows with other values in some columns, or with further columns behind their own."""
    for name, values in columns.items():
        index = rows.schema.get_field_index(name)
        if index < 0:
            rows = rows.append_column(name, values)
        else:
            rows = rows.set_column(index, rows.schema.field(index), values)
    return rows


def columns_of(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the columns of a table; null for columns that the rows lack.

    Times before year 1 or after 9999 become the nearest time that every reader can show.
    """
    return pa.table([_column_of(rows, field) for field in schema], schema=schema)


def _column_of(rows: pa.Table, field: pa.Field) -> Any:
    """One column of a table; all null if the rows lack it."""
    if field.name in rows.column_names:
        return rows[field.name].cast(field.type)
    name_ms = "record_timestamp_ms" if field.name == "day" else f"{field.name}_ms"
    if name_ms.endswith(_TIMESTAMP_MS) and name_ms in rows.column_names:
        return timestamps(rows[name_ms]).cast(field.type)
    return pa.nulls(rows.num_rows, field.type)


def in_ms(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of a table in the columns of a schema, which has times in milliseconds."""
    columns = [
        pc.cast(rows[field.name.removesuffix("_ms")], _MS, safe=False).cast(pa.int64())
        if field.name.endswith(_TIMESTAMP_MS)
        else rows[field.name].cast(field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def stored_names(schema: pa.Schema) -> list[str]:
    """The columns of a table that `in_ms` needs for a schema."""
    return [
        name.removesuffix("_ms") if name.endswith(_TIMESTAMP_MS) else name for name in schema.names
    ]


def timestamps(times_ms: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times in milliseconds as timestamps; the nearest possible one outside years 1 to 9999."""
    clamped = pc.min_element_wise(
        pc.max_element_wise(times_ms, MIN_TIMESTAMP_MS, skip_nulls=False),
        MAX_TIMESTAMP_MS,
        skip_nulls=False,
    )
    return clamped.cast(_MS)


def per_row(
    rows: pa.Table, by_log_partition: Mapping[int, int], default: int = 0
) -> npt.NDArray[np.int64]:
    """The value of each row's log partition."""
    log_partitions = numbers(rows["log_partition"])
    size = 1 + max([*by_log_partition, *np.unique(log_partitions).tolist()], default=0)
    values = np.full(size, default, np.int64)
    for log_partition, value in by_log_partition.items():
        values[log_partition] = value
    row_values: npt.NDArray[np.int64] = values[log_partitions]
    return row_values


def is_below(rows: pa.Table, column: str, bounds: Mapping[int, int]) -> pa.ChunkedArray:
    """Whether each row's record offset in the column is below the bound of its log partition."""
    places = pc.index_in(rows["log_partition"], value_set=pa.array(list(bounds), pa.int32()))
    bound = pc.take(pa.array(list(bounds.values()), pa.int64()), places)
    return pc.fill_null(pc.less(rows[column], bound), False)


def epoch_us(at: datetime) -> int:
    """A time as microseconds since the epoch, as `TIMESTAMP` has it."""
    return (at - _EPOCH) // _US


def time_of(us: int) -> datetime:
    """The time of microseconds since the epoch."""
    return _EPOCH + us * _US


def numbers(column: pa.ChunkedArray) -> Any:
    """The values of a column, as numpy has them."""
    return column.to_numpy()


def floats_of(column: Any) -> npt.NDArray[np.float64]:
    """A column of numbers; null is NaN."""
    # A number beyond 2^53 is rounded.
    floats: npt.NDArray[np.float64] = pc.cast(column, pa.float64(), safe=False).to_numpy()
    return floats


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows as dicts; several times as fast as `to_pylist`."""
    names = table.column_names
    columns = [column.to_pylist() for column in table.columns]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
