"""Reading corpora: every format gives the same rows, and what is wrong with a row is said and moves no other."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

from ditto_fast.corpora.blocks import cut_blocks  # noqa: E402
from ditto_fast.corpora.rows import Row, RowReader  # noqa: E402
from ditto_fast.corpora.sources import FORMATS, find_sources  # noqa: E402
from ditto_fast.errors import DataError, OptionError  # noqa: E402

TEXTS = ["A cat.", "", "naïve café", "two  spaces ", "line\u2028separator", "an emoji 🙂", 'a "quoted" word', "NUL\0"]
IDS = [f"00{i}" for i in range(len(TEXTS))]


def rows_of(path: Path, column: str = "text", id_column: str | None = None, form: str | None = None) -> list[Row]:
    return list(RowReader(find_sources([path], form, [path / "out"]), column, id_column))


def csv_bytes(texts: list[str], ids: list[str]) -> bytes:
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows([["id", "text"], *zip(ids, texts, strict=True)])
    return buffer.getvalue().encode()


def parquet_bytes(texts: object, ids: object) -> bytes:
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table({"id": ids, "text": texts}), buffer, row_group_size=3)
    return buffer.getvalue()


def twice() -> bytes:
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table([["a"], ["b"]], names=["text", "text"]), buffer)
    return buffer.getvalue()


WRITE: dict[str, Callable[[list[str], list[str]], bytes]] = {
    "txt": lambda texts, _: "".join(f"{text}\n" for text in texts).encode(),
    "csv": csv_bytes,
    "tsv": lambda texts, ids: "\n".join(
        ["id\ttext", *(f"{name}\t{text}" for name, text in zip(ids, texts, strict=True))]
    ).encode(),
    "jsonl": lambda texts, ids: "".join(
        json.dumps({"id": name, "text": text}) + "\n" for name, text in zip(ids, texts, strict=True)
    ).encode(),
    "parquet": parquet_bytes,
}
PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": lambda data: gzip.compress(data[:20]) + gzip.compress(data[20:]),  # of two members, as appending makes
    ".zst": lambda data: pyarrow.compress(data, codec="zstd", asbytes=True),
}


def test_every_format_has_a_writer_here():
    assert set(WRITE) == set(FORMATS)


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("form", WRITE)
def test_formats_give_the_same_rows(form: str, packing: str, tmp_path: Path):
    if form == "parquet" and packing:
        pytest.skip("a Parquet file compresses itself")
    path = tmp_path / f"corpus.{form}{packing}"
    path.write_bytes(PACK[packing](WRITE[form](TEXTS, IDS)))
    ids = form != "txt"
    rows = rows_of(path, id_column="id" if ids else None)
    assert [row.text for row in rows] == TEXTS
    assert [row.id for row in rows] == (IDS if ids else [None] * len(TEXTS))
    assert [row.number for row in rows] == list(range(1, len(TEXTS) + 1))
    assert not any(row.problem for row in rows)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\t"), max_size=20)),
    size=st.integers(1, 5),
    form=st.sampled_from(FORMATS),
)
def test_blocks_hold_all_rows_in_order(texts: list[str], size: int, form: str, tmp_path: Path):
    texts = [text.removeprefix("\ufeff") for text in texts]
    path = tmp_path / f"any.{form}"
    path.write_bytes(WRITE[form](texts, [str(i) for i in range(len(texts))]))
    blocks = list(
        cut_blocks(RowReader(find_sources([path], None, [tmp_path / "out"]), "text", None), size, False, "raise")
    )
    assert [text for block in blocks for text in block.texts] == texts
    assert [row for block in blocks for row in block.ids] == list(range(len(texts)))
    assert all(len(block) == size for block in blocks[:-1])
    assert [block.number for block in blocks] == list(range(len(blocks)))


BAD = [
    ("txt", b"fine\n\xff\xfe\nfine\n", "invalid UTF-8 at byte 0"),
    ("csv", b"text\nfine\n\xff\nfine\n", "invalid UTF-8 at character 0"),
    ("csv", b"id,text\n1,fine\n2\n3,fine\n", "1 cells, expected 2"),
    ("csv", b'id,text\n1,fine\n2,"a"b\n3,fine\n', "no CSV"),
    ("tsv", b"id\ttext\n1\tfine\n2\ta\tb\n3\tfine\n", "3 cells, expected 2"),
    ("jsonl", b'{"text": "fine"}\n{"text": null}\n{"text": "fine"}\n', "the text is null"),
    ("jsonl", b'{"text": "fine"}\n{"text": 7}\n{"text": "fine"}\n', "int 7, expected a string"),
    ("jsonl", b'{"text": "fine"}\n{"body": "x"}\n{"text": "fine"}\n', "no column 'text' (it has 'body')"),
    ("jsonl", b'{"text": "fine"}\n\n{"text": "fine"}\n', "an empty line"),
    ("jsonl", b'{"text": "fine"}\n{"text": \n{"text": "fine"}\n', "no JSON"),
    ("jsonl", b'{"text": "fine"}\n["fine"]\n{"text": "fine"}\n', "expected a JSON object"),
    ("jsonl", b'{"text": "fine"}\n{"text": "\\ud800"}\n{"text": "fine"}\n', "lone surrogate"),
    ("jsonl", b'{"text": "fine"}\n{"text": "\xff"}\n{"text": "fine"}\n', "invalid UTF-8"),
]


@pytest.mark.parametrize(("form", "content", "problem"), BAD, ids=[f"{row[0]}: {row[2]}" for row in BAD])
def test_a_bad_row_is_named_and_moves_no_other(form: str, content: bytes, problem: str, tmp_path: Path):
    path = tmp_path / f"bad.{form}"
    path.write_bytes(content)
    rows = rows_of(path)
    assert [row.text for row in rows] == ["fine", None, "fine"]
    assert problem in str(rows[1].problem)
    with pytest.raises(DataError, match=r"bad\.\w+, row 2: .*--on-error null"):
        list(cut_blocks(RowReader(find_sources([path], None, [tmp_path]), "text", None), 10, False, "raise"))


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (pyarrow.array(["fine", None, "fine"]), "the text is null"),
        (pyarrow.array(["fine", None, "fine"]).dictionary_encode(), "the text is null"),
        (pyarrow.array([b"fine", b"\xff", b"fine"]).view(pyarrow.string()), "invalid UTF-8 at byte 0"),
    ],
    ids=["null", "dictionary", "utf8"],
)
def test_a_bad_row_of_parquet(texts: object, problem: str, tmp_path: Path):
    path = tmp_path / "bad.parquet"
    path.write_bytes(parquet_bytes(texts, pyarrow.array([1, 2, 3])))
    rows = rows_of(path, id_column="id")
    assert [(row.id, row.text) for row in rows] == [(1, "fine"), (2, None), (3, "fine")]
    assert rows[1].problem == problem


@pytest.mark.parametrize(
    "values",
    [
        pyarrow.array([1, 2]),
        pyarrow.array([b"a", b"b"]),
        pyarrow.array([b"a", b"b"], pyarrow.binary(1)),
        pyarrow.array([["a"], ["b"]]),
    ],
)
def test_a_parquet_column_that_is_no_text(values: object, tmp_path: Path):
    path = tmp_path / "bad.parquet"
    path.write_bytes(parquet_bytes(values, values))
    assert all("expected " in str(row.problem) for row in rows_of(path))


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet"])
def test_a_file_without_the_column_keeps_its_rows(form: str, tmp_path: Path):
    path = tmp_path / f"corpus.{form}"
    path.write_bytes(WRITE[form](TEXTS, IDS))
    rows = rows_of(path, column="body", id_column="id")
    assert [row.id for row in rows] == IDS
    assert {row.problem for row in rows} == {"no column 'body' (it has 'id', 'text')"}


def test_windows_lines_a_byte_order_mark_and_a_missing_last_newline(tmp_path: Path):
    path = tmp_path / "windows.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\r\ntwo\vhalf")
    assert [row.text for row in rows_of(path)] == ["one", "", "two\vhalf"]
    path = tmp_path / "windows.csv"
    path.write_bytes(b'\xef\xbb\xbftext,id\r\n"a\nb",1\r\nc,2\r\n')
    assert [(row.text, row.id) for row in rows_of(path, id_column="id")] == [("a\nb", "1"), ("c", "2")]


def test_quotes_in_tsv_are_text(tmp_path: Path):
    path = tmp_path / "quotes.tsv"
    path.write_bytes(b'text\n"Hello," he said\nan inch is 1"\n')
    assert [row.text for row in rows_of(path)] == ['"Hello," he said', 'an inch is 1"']


def test_a_carriage_return_is_part_of_a_tsv_cell_and_breaks_an_unquoted_csv_row(tmp_path: Path):
    path = tmp_path / "returns.tsv"
    path.write_bytes(b"id\ttext\n1\tfoo\rbar\n2\tbaz\n")
    assert [(row.id, row.text) for row in rows_of(path, id_column="id")] == [("1", "foo\rbar"), ("2", "baz")]
    path = tmp_path / "returns.csv"
    path.write_bytes(b'id,text\n1,foo\rbar\n2,"foo\rbar"\n')
    assert [row.text for row in rows_of(path)] == [None, "foo\rbar"]


def test_long_rows_of_parquet_are_read_a_few_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ditto_fast.corpora.rows._BYTES_AT_ONCE", 1000)
    path = tmp_path / "long.parquet"
    texts = [f"{i} " * 100 for i in range(20)]
    path.write_bytes(parquet_bytes(texts, list(range(20))))
    seen: list[int] = []
    read = parquet.ParquetFile.iter_batches
    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", lambda self, n, **k: seen.append(n) or read(self, n, **k))
    assert [row.text for row in rows_of(path)] == texts
    assert max(seen) <= 5


def test_a_long_cell_is_whole(tmp_path: Path):
    path = tmp_path / "long.csv"
    path.write_bytes(csv_bytes(["x" * 300_000], ["1"]))
    assert len(str(rows_of(path)[0].text)) == 300_000


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("cut.txt.gz", gzip.compress(b"one\ntwo\n", mtime=0)[:-6], "cut short"),  # no time in the name of a test
        ("cut.txt.zst", pyarrow.compress(b"one\n" * 99, codec="zstd", asbytes=True)[:-6], "cut short"),
        ("none.txt.gz", b"plain text", "cannot be read"),
        ("cut.parquet", parquet_bytes(TEXTS, IDS)[:-20], "cannot be read as Parquet"),
        ("open.csv", b'text\nfine\n"never closed\nlost\n', "line 3 to 4: a quote is not closed"),
        ("end.csv", b'id,text\n1,"one"\n2,"two, and mo', "line 3: a quote is not closed"),
        ("late.csv", b'text\n"closed\nlate" and more\nfine\n', "line 2 to 3: a quote is not closed"),
        ("header.csv", b'"id"x,text\n1,a\n', "its header is no CSV"),
        ("mac.csv", b"text\rone\rtwo\r", "its header is no CSV"),
        ("twice.parquet", twice(), "2 columns 'text'"),
        ("twice.csv", b"text,text\na,b\n", "2 columns 'text'"),
        ("ids.txt", b"a\n", "no column 'id'"),
    ],
)
def test_a_broken_file_is_an_error_that_names_it(name: str, content: bytes, message: str, tmp_path: Path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        rows_of(path, id_column="id" if name == "ids.txt" else None)
    assert name in str(error.value)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"text": "a"}', "no column 'id'"),
        ('{"text": "a", "id": null}', "the id is null"),
        ('{"text": "a", "id": true}', "bool True"),
        ('{"text": "a", "id": 9223372036854775808}', "more than 64 bits"),
        ('{"text": "a", "id": "x"}', "expected int as before"),
    ],
)
def test_a_bad_id_is_a_bad_row(line: str, problem: str, tmp_path: Path):
    path = tmp_path / "ids.jsonl"
    path.write_text(f'{{"text": "first", "id": 1}}\n{line}\n')
    reader = RowReader(find_sources([path], None, [tmp_path]), "text", "id")
    (block,) = cut_blocks(reader, 10, True, "null")
    assert block.ids == [1, None]
    assert block.texts == ["first", None]
    assert problem in str(block.bad[0].problem)


def test_a_shard_of_rows_without_any_id_is_an_error(tmp_path: Path):
    """Its id column would have no type, and the folder no schema."""
    path = tmp_path / "ids.jsonl"
    path.write_text('{"text": "a"}\n' * 3 + '{"text": "b", "id": "x"}\n')
    reader = RowReader(find_sources([path], None), "text", "id")
    with pytest.raises(DataError, match=r"None of the first 3 rows has an id: .*ids\.jsonl, row 1"):
        list(cut_blocks(reader, 3, True, "null"))


def test_folders_and_globs_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    left_out = ("_hidden.txt", ".secret.txt", ".cache/x.txt", "deep/_old/x.txt", "image.png", "out/part-0.parquet")
    for name in ("b.txt", "a.jsonl", "deep/c.csv.gz", *left_out):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    out = tmp_path / "data" / "out"
    assert [source.path for source in find_sources(["data"], None, [out])] == [
        "data/a.jsonl",
        "data/b.txt",
        "data/deep/c.csv.gz",
    ]
    assert [source.path for source in find_sources(["data/*.txt", "data/a.jsonl"], None, [out])] == [
        "data/_hidden.txt",
        "data/b.txt",
        "data/a.jsonl",
    ]
    assert [source.path for source in find_sources(["data/*"], "txt", [out])] == [
        "data/_hidden.txt",
        "data/a.jsonl",
        "data/b.txt",
        "data/deep/c.csv.gz",
        "data/image.png",
    ]
    assert len(find_sources(["data/**/*.gz"], None, [out])) == 1
    assert [source.format for source in find_sources(["data/image.png"], "txt", [out])] == ["txt"]


def names(*inputs: str) -> list[str]:
    return [source.path for source in find_sources(inputs, None)]


def test_links_of_a_folder_are_followed_and_end_where_they_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("data/2023.txt", "disk/2024/a.txt", "disk/2024/deep/b.jsonl"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    Path("data/2024").symlink_to(tmp_path / "disk" / "2024")
    Path("data/2025.txt").symlink_to(tmp_path / "data" / "2023.txt")
    Path("disk/2024/deep/back").symlink_to(tmp_path / "disk" / "2024")
    Path("data/self").symlink_to(tmp_path / "data")
    assert names("data") == ["data/2023.txt", "data/2024/a.txt", "data/2024/deep/b.jsonl", "data/2025.txt"]


@pytest.mark.parametrize("given", ["data", "data/*.txt", "data/**/*.txt", "data/lost.txt"])
@pytest.mark.parametrize("target", ["/annex/objects/XX/SHA256E-s123.txt", "lost.txt"], ids=["nowhere", "itself"])
def test_a_link_to_nothing_is_an_error_that_names_both(given: str, target: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    Path("data/here.txt").touch()
    Path("data/lost.txt").symlink_to(target)
    with pytest.raises(DataError, match=rf"data/lost\.txt: no such file: it is a link to {target}"):
        names(given)


def test_a_link_to_nothing_matters_where_data_may_be_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("data/out").mkdir(parents=True)
    Path("data/here.txt").touch()
    for name in ("image.png", ".lost.txt", "_lost.txt", "out/lost.txt"):
        Path("data", name).symlink_to("/nowhere")
    assert [source.path for source in find_sources(["data"], None, [Path("data/out")])] == ["data/here.txt"]
    Path("data/2024").symlink_to("/disk/that/is/not/mounted")
    with pytest.raises(DataError, match="data/2024: no such file: it is a link to /disk"):
        names("data")


@pytest.mark.parametrize("given", ["data", "data/**/*.txt", "data/*/*.txt"])
def test_a_folder_that_cannot_be_listed_is_an_error(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("data/open/a.txt", "data/locked/b.txt"):
        Path(name).parent.mkdir(parents=True)
        Path(name).touch()
    list_one = Path.iterdir

    def iterdir(folder: Path) -> object:  # of a name, not a mode: root may list every folder
        if folder.name == "locked":
            raise PermissionError(13, "Permission denied")
        return list_one(folder)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    with pytest.raises(DataError, match=r"data/locked cannot be listed \(Permission denied\)"):
        names(given)
    assert names("data/open", "data/open/*.txt") == ["data/open/a.txt"] * 2


@pytest.mark.parametrize(
    ("inputs", "form", "message"),
    [
        (["missing.txt"], None, "no such file"),
        (["*.txt"], None, "nothing matches"),
        (["file.png"], None, "--format"),
        (["empty"], None, "holds no file"),
        ([], None, "No input"),
        (["-", "-"], None, "named twice"),
        (["-"], "parquet", "stdin"),
    ],
)
def test_inputs_that_are_none(inputs: list[str], form: str | None, message: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.png").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=message):
        find_sources(inputs, form, [tmp_path / "out"])


def test_an_unknown_format_lists_the_known():
    with pytest.raises(OptionError, match=r"jsonl.*parquet"):
        find_sources(["-"], "xml", [Path("out")])


def test_long_texts_make_short_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ditto_fast.corpora.blocks.MAX_CHARACTERS", 100)
    path = tmp_path / "long.txt"
    path.write_text(("x" * 60 + "\n") * 5)
    reader = RowReader(find_sources([path], None, [tmp_path]), "text", None)
    assert [len(block) for block in cut_blocks(reader, 10, False, "raise")] == [2, 2, 1]


def test_origins_are_those_of_the_files(tmp_path: Path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("one\ntwo\n")
    paths = [tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "b.txt"]
    (block,) = cut_blocks(RowReader(find_sources(paths, None, [tmp_path / "out"]), "text", None), 10, False, "raise")
    origins = [block.origin(i, "bad") for i in range(6)]
    assert [(Path(row.source).name, row.number) for row in origins] == [
        ("a.txt", 1),
        ("a.txt", 2),
        ("b.txt", 1),
        ("b.txt", 2),
        ("b.txt", 1),
        ("b.txt", 2),
    ]
