"""Whatever is broken gives what can be had and says so; nothing raises."""

from __future__ import annotations

import io
import random
import struct
import zipfile
from pathlib import Path

import pytest
from archive_samples import COMPRESSORS, LINES, read_all, tar_bytes, write, zip_bytes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postmortem.bundle import Limits

NOISE = random.Random(7).randbytes(600_000).hex().encode()


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_a_cut_off_file_gives_its_begin_and_a_note(tmp_path: Path, suffix: str) -> None:
    packed = COMPRESSORS[suffix](NOISE)
    read = read_all(write(tmp_path / "x.log", packed[: len(packed) * 9 // 10]))
    out = read.data["x.log"]
    assert NOISE.startswith(out)
    assert len(out) > 0.7 * len(NOISE)
    assert ["cut off" in note for note in read.notes["x.log"]] == [True]


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_one_byte_missing_is_noticed(tmp_path: Path, suffix: str) -> None:
    read = read_all(write(tmp_path / "x.log", COMPRESSORS[suffix](LINES)[:-1]))
    assert len(read.notes["x.log"]) == 1


def test_a_wrong_checksum_of_gzip_costs_no_bytes(tmp_path: Path) -> None:
    packed = bytearray(COMPRESSORS["gz"](LINES))
    packed[-8] ^= 0xFF
    read = read_all(write(tmp_path / "x.gz", bytes(packed)))
    assert read.data["x.gz"] == LINES
    assert len(read.notes["x.gz"]) == 1


@pytest.mark.parametrize("with_tar", [False, True])
def test_damage_within_gzip_costs_nothing_before_it(tmp_path: Path, with_tar: bool) -> None:
    packed = bytearray(COMPRESSORS["gz"](tar_bytes({"x": NOISE}) if with_tar else NOISE))
    middle = len(packed) // 2
    packed[middle : middle + 2000] = b"\xff" * 2000
    read = read_all(write(tmp_path / "x", bytes(packed)))
    same = next(at for at, (a, b) in enumerate(zip(read.data["x"] + b"?", NOISE, strict=False)) if a != b)
    assert same > 0.49 * len(NOISE)
    assert read.notes["x"]


def test_an_entry_of_a_zip_without_a_name(tmp_path: Path) -> None:
    data = zip_bytes({"entry": LINES}, zipfile.ZIP_STORED).replace(b"entry", bytes(5))
    assert read_all(write(tmp_path / "x.zip", data)).data == {"unnamed": LINES}


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_bytes_after_the_compressed_data_are_left_out_with_a_note(tmp_path: Path, suffix: str) -> None:
    read = read_all(write(tmp_path / "x", COMPRESSORS[suffix](LINES) + b"this is no compressed data"))
    assert read.data["x"] == LINES
    assert len(read.notes["x"]) == 1


def test_zeros_after_gzip_are_padding(tmp_path: Path) -> None:
    read = read_all(write(tmp_path / "x", COMPRESSORS["gz"](LINES) + bytes(5000)))
    assert (read.data, read.notes) == ({"x": LINES}, {"x": []})


def test_a_damaged_tar_header_costs_one_member(tmp_path: Path) -> None:
    data = bytearray(tar_bytes({"a": b"1" * 600, "b": b"2" * 600, "c": b"3" * 600}))
    second = 512 + 1024
    data[second : second + 512] = b"\xa5" * 512
    read = read_all(write(tmp_path / "x.tar", bytes(data)))
    assert read.data == {"a": b"1" * 600, "c": b"3" * 600}
    (problem,) = read.problems
    assert problem.name == "x.tar"
    assert "damaged in 1 place" in problem.what


@pytest.mark.parametrize("suffix", ["", "gz"])
def test_a_cut_off_tar_gives_the_members_so_far(tmp_path: Path, suffix: str) -> None:
    data = tar_bytes({"a.log": NOISE[:100_000], "b.log": NOISE[100_000:500_000]})[:300_000]
    packed = COMPRESSORS[suffix](data)[:-20] if suffix else data
    write(tmp_path / "x.tar", packed)
    write(tmp_path / "other.log", b"1")
    read = read_all(tmp_path)
    assert read.data["x.tar!/a.log"] == NOISE[:100_000]
    assert NOISE[100_000:].startswith(read.data["x.tar!/b.log"])
    assert "cut off" in read.notes["x.tar!/b.log"][0]
    assert {problem.name for problem in read.problems} == {"x.tar"}


def test_a_tar_with_a_giant_name_record_stays_small(tmp_path: Path) -> None:
    block = bytearray(tar_bytes({"././@LongLink": b""})[:512])
    block[156:157] = b"L"
    block[124:136] = b"\x80" + (1 << 60).to_bytes(11, "big")
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    read = read_all(write(tmp_path / "x.tar", bytes(block) + tar_bytes({"a": b"1"})))
    assert read.data == {}


def test_a_zip_without_its_directory_is_searched(tmp_path: Path) -> None:
    data = zip_bytes({"a.log": LINES, "b.log": NOISE, "c.log": LINES})
    read = read_all(write(tmp_path / "x.zip", data[: data.index(b"PK\x01\x02") - 100]))
    assert read.data["a.log"] == LINES
    assert read.data["b.log"] == NOISE
    assert LINES.startswith(read.data["c.log"])
    assert "cut off" in read.notes["c.log"][0]
    assert any("directory of the zip" in problem.what for problem in read.problems)


class Pipe(io.BytesIO):
    """Cannot seek, so that zipfile puts the sizes behind each entry."""

    def tell(self) -> int:
        raise io.UnsupportedOperation

    def seek(self, offset: int, whence: int = 0, /) -> int:
        raise io.UnsupportedOperation


def test_a_streamed_zip_without_its_directory_is_searched(tmp_path: Path) -> None:
    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.log", LINES)
        archive.writestr("b.log", NOISE)
    data = pipe.getvalue()
    read = read_all(write(tmp_path / "x.zip", data[: data.index(b"PK\x01\x02")]))
    assert read.data == {"a.log": LINES, "b.log": NOISE}


def test_a_wrong_checksum_in_a_zip_costs_no_bytes(tmp_path: Path) -> None:
    data = zip_bytes({"a.log": LINES}, zipfile.ZIP_STORED)
    read = read_all(write(tmp_path / "x.zip", data.replace(b"line 77 ", b"line 78 ", 1)))
    assert read.data["a.log"] == LINES.replace(b"line 77 ", b"line 78 ", 1)
    assert read.notes["a.log"] == ["damaged: the checksum is wrong"]


def test_an_encrypted_zip_says_so(tmp_path: Path) -> None:
    data = bytearray(zip_bytes({"a.log": LINES}))
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.index(magic) + offset
        data[at : at + 2] = struct.pack("<H", 1)
    read = read_all(write(tmp_path / "x.zip", bytes(data)))
    assert read.data == {"a.log": b""}
    assert "encrypted" in read.notes["a.log"][0]


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_a_bomb_is_stopped(tmp_path: Path, suffix: str) -> None:
    limits = Limits(ratio=100, ratio_floor_bytes=1_000_000)
    read = read_all(write(tmp_path / "x", COMPRESSORS[suffix](bytes(50_000_000))), limits=limits)
    assert len(read.data["x"]) < 5_000_000
    assert "as bombs do" in read.notes["x"][0]
    assert read.problems


def test_a_bomb_in_a_zip_ends_the_archive(tmp_path: Path) -> None:
    limits = Limits(ratio=100, ratio_floor_bytes=1_000_000)
    data = zip_bytes({f"m{number}": bytes(10_000_000) for number in range(5)})
    read = read_all(write(tmp_path / "x", data), limits=limits)
    assert sum(map(len, read.data.values())) < 10_000_000
    assert len(read.data) < 5


def test_the_total_of_decompressed_bytes_is_bounded(tmp_path: Path) -> None:
    read = read_all(write(tmp_path / "x", COMPRESSORS["gz"](NOISE)), limits=Limits(total_bytes=1_000_000))
    assert len(read.data["x"]) <= 1_000_000
    assert "reading stopped" in read.notes["x"][0]


def test_members_and_spool_are_bounded(tmp_path: Path) -> None:
    read = read_all(write(tmp_path / "x", tar_bytes({str(n): b"" for n in range(9)})), limits=Limits(members=4))
    assert len(read.data) == 4
    assert "more than 4 files" in read.problems[0].what
    nested = tar_bytes({"in.zip": zip_bytes({"a": NOISE, "b": NOISE})})
    read = read_all(write(tmp_path / "y", nested), limits=Limits(spool_bytes=900_000))
    assert read.data["in.zip!/a"] == NOISE
    assert any("rest was left out" in problem.what for problem in read.problems)


def test_a_spool_larger_than_memory_goes_to_disk(tmp_path: Path) -> None:
    nested = tar_bytes({"in.zip": zip_bytes({"a": NOISE})})
    read = read_all(write(tmp_path / "y", nested), limits=Limits(spool_memory_bytes=1000))
    assert read.data == {"in.zip!/a": NOISE}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=3000), name=st.sampled_from(["x.tar.gz", "x.zip", "x.gz", "x.tar", "x.zst", "x.xz"]))
def test_any_bytes_under_any_name_are_read(tmp_path: Path, data: bytes, name: str) -> None:
    magic = {"x.zip": b"PK\x03\x04", "x.gz": b"\x1f\x8b\x08", "x.zst": b"\x28\xb5\x2f\xfd", "x.xz": b"\xfd7zXZ\0"}
    for content in (data, magic.get(name, b"") + data):
        read_all(write(tmp_path / name, content))


SAMPLES = [
    *(compress(tar_bytes({"a.log": LINES[:3000], "b.gz": compress(b"b")})) for compress in COMPRESSORS.values()),
    tar_bytes({"a.log": LINES[:3000], "b.zip": zip_bytes({"c": b"c" * 99})}),
    *(zip_bytes({"a.log": LINES[:3000], "b": b""}, method) for method in (0, 8, 12, 14)),
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sample=st.sampled_from(SAMPLES),
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=8),
    cut=st.floats(0.1, 1),
)
def test_archives_with_flipped_bytes_are_read(
    tmp_path: Path, sample: bytes, flips: list[tuple[float, int]], cut: float
) -> None:
    data = bytearray(sample)
    for where, value in flips:
        data[int(where * len(data))] = value
    read_all(write(tmp_path / "x", bytes(data[: int(cut * len(data))])))
