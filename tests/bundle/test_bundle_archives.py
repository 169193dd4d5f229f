"""Members of every kind of archive, and archives in archives."""

from __future__ import annotations

import io
import itertools
import tarfile
import zipfile
from pathlib import Path

import pytest
from archive_samples import COMPRESSORS, LINES, read_all, tar_bytes, write, zip_bytes

from postmortem.bundle import Limits, open_unit, plan

FILES = {"node-1/dmesg.txt": LINES, "node-1/empty.log": b"", "train.log": b"step 1\n"}


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_a_compressed_file_keeps_its_name(tmp_path: Path, suffix: str) -> None:
    file = write(tmp_path / f"train.log.{suffix}", COMPRESSORS[suffix](LINES))
    assert read_all(file).data == {f"train.log.{suffix}": LINES}


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_compression_shows_in_the_bytes_and_may_come_in_parts(tmp_path: Path, suffix: str) -> None:
    compress = COMPRESSORS[suffix]
    file = write(tmp_path / "train.log", compress(LINES) + compress(b"") + compress(b"end\n"))
    read = read_all(file)
    assert read.data == {"train.log": LINES + b"end\n"}
    assert read.notes == {"train.log": []}


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("suffix", ["", *COMPRESSORS])
def test_a_tar_given_as_the_bundle_is_called_by_its_inner_paths(tmp_path: Path, suffix: str, form: int) -> None:
    data = tar_bytes(FILES, form)
    file = write(tmp_path / "bundle.bin", COMPRESSORS[suffix](data) if suffix else data)
    read = read_all(file)
    assert read.data == FILES
    assert read.problems == []


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zip_with_each_method(tmp_path: Path, method: int) -> None:
    read = read_all(write(tmp_path / "bundle", zip_bytes(FILES, method)))
    assert read.data == FILES
    assert read.notes == {name: [] for name in FILES}
    assert read.problems == []


def test_an_old_tar_without_magic(tmp_path: Path) -> None:
    block = bytearray(tar_bytes({"a.log": LINES}, tarfile.USTAR_FORMAT))
    block[257:512] = bytes(255)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block[:512])
    assert read_all(write(tmp_path / "x", bytes(block))).data == {"a.log": LINES}


def test_long_names_in_tars(tmp_path: Path) -> None:
    name = "deep/" * 60 + "x.log"
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        assert read_all(write(tmp_path / "x", tar_bytes({name: b"1"}, form))).data == {name: b"1"}


def test_an_archive_in_a_folder_and_archives_within(tmp_path: Path) -> None:
    inner = zip_bytes({"var/log/messages": LINES, "old.log.gz": COMPRESSORS["gz"](b"old\n")})
    middle = COMPRESSORS["xz"](tar_bytes({"host/inner.zip": inner, "a": b"1"}))
    write(tmp_path / "sos.tar.zst", COMPRESSORS["zst"](tar_bytes({"m.tar.xz": middle, "last": b"2"})))
    write(tmp_path / "train.log", b"3")
    read = read_all(tmp_path)
    assert read.data == {
        "sos.tar.zst!/m.tar.xz!/host/inner.zip!/var/log/messages": LINES,
        "sos.tar.zst!/m.tar.xz!/host/inner.zip!/old.log.gz": b"old\n",
        "sos.tar.zst!/m.tar.xz!/a": b"1",
        "sos.tar.zst!/last": b"2",
        "train.log": b"3",
    }
    assert read.problems == []


def test_archives_side_by_side_are_prefixed(tmp_path: Path) -> None:
    first = write(tmp_path / "node-1.tar", tar_bytes({"dmesg": b"1"}))
    second = write(tmp_path / "node-2.zip", zip_bytes({"dmesg": b"2"}))
    read = read_all(second, first)
    assert read.data == {"node-1.tar!/dmesg": b"1", "node-2.zip!/dmesg": b"2"}
    assert read.hosts == {"node-1.tar!/dmesg": "node-1", "node-2.zip!/dmesg": "node-2"}


def test_names_are_made_safe_and_unique(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in ("../../etc/passwd", "/etc/passwd", "etc/passwd", "a\n\x1b[31mb", "./c//d"):
            archive.addfile(tarfile.TarInfo(name))
    read = read_all(write(tmp_path / "x.tar", buffer.getvalue()))
    assert list(read.data) == ["_/_/etc/passwd", "etc/passwd", "etc/passwd (2)", "a\ufffd\ufffd[31mb", "c/d"]
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar"]


def test_links_and_devices_of_a_tar_give_no_members(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE):
            info = tarfile.TarInfo(f"entry-{kind.decode()}")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        archive.addfile(tarfile.TarInfo("real"))
    read = read_all(write(tmp_path / "x.tar", buffer.getvalue()))
    assert list(read.data) == ["real"]
    assert [problem.what for problem in read.problems] == [
        "2 entries were left out: they are devices or pipes, no files"
    ]


def test_one_archive_after_another_in_a_file(tmp_path: Path) -> None:
    file = write(tmp_path / "x.tar", tar_bytes({"a": b"1"}) + tar_bytes({"b": b"2"}))
    assert read_all(file).data == {"a": b"1", "b": b"2"}


def test_members_are_sequential_and_may_be_left_unread(tmp_path: Path) -> None:
    write(tmp_path / "x.tar.gz", COMPRESSORS["gz"](tar_bytes({f"m{n}": LINES for n in range(5)})))
    (unit,) = plan([tmp_path]).units
    left_behind = None
    for number, member in enumerate(open_unit(unit)):
        if left_behind is not None:
            with pytest.raises(ValueError, match="left behind"):
                left_behind.stream.read(1)
        assert member.head(64) == LINES[:64]
        assert member.size == len(LINES)
        assert member.mtime == 1_750_000_000
        if number == 1:
            assert member.stream.read(10) == LINES[:10]
        if number == 2:
            assert member.stream.read() == LINES
        left_behind = member


def test_reads_of_all_sizes_give_the_same_bytes(tmp_path: Path) -> None:
    (unit,) = plan([write(tmp_path / "x.gz", COMPRESSORS["gz"](LINES))]).units
    for size, peek in itertools.product((1, 7, 4096, 1 << 20), (0, 100, 1 << 20)):
        (member,) = [*itertools.islice(opened := open_unit(unit), 1)]
        assert member.head(peek) == LINES[:peek]
        buffer = bytearray(size)
        out = bytearray()
        while count := member.stream.readinto(buffer):
            out += buffer[:count]
            if count < size:
                break
        assert bytes(out) == LINES
        assert member.stream.tell() == len(LINES)
        assert list(opened) == []


def test_nothing_below_the_deepest_level_is_unpacked(tmp_path: Path) -> None:
    data = b"core"
    for level in range(9):
        data = tar_bytes({f"level{level}": data})
    read = read_all(write(tmp_path / "x.tar", data))
    (name,) = read.data
    assert name.count("!/") == Limits().depth - 1
    assert "nested more than 6 deep" in read.notes[name][0]


def test_data_compressed_again_and_again_end_too(tmp_path: Path) -> None:
    data = LINES
    for _ in range(20):
        data = COMPRESSORS["gz"](data)
    read = read_all(write(tmp_path / "x.gz", data))
    assert "nested more than" in read.notes["x.gz"][0]


@pytest.mark.parametrize("magic", [b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07\x00", b"\x04\x22\x4d\x18"])
def test_formats_that_are_not_unpacked_say_so(tmp_path: Path, magic: bytes) -> None:
    read = read_all(write(tmp_path / "x", magic + b"rest"))
    assert "not supported, unpack it first" in read.notes["x"][0]


def test_a_python_sparse_tar_is_read_without_its_holes(tmp_path: Path) -> None:
    header = bytearray(tar_bytes({"sparse.log": b"data"}, tarfile.GNU_FORMAT))
    header[156:157] = tarfile.GNUTYPE_SPARSE
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    read = read_all(write(tmp_path / "x.tar", bytes(header)))
    assert read.data == {"sparse.log": b"data"}
    assert "sparse" in read.notes["sparse.log"][0]
