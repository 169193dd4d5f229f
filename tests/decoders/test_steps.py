"""What is written of training steps and checkpoints beside the log: tables, TensorBoard, trainer_state.json, listings, trackers."""

from __future__ import annotations

import json
import struct
from datetime import datetime
from typing import Any

import pytest
from decoder_samples import pick, rows, run, sniffed
from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem.decoders import sniff
from postmortem.decoders.training.step_names import Role, role
from postmortem.decoders.training.tensorboard import masked_crc

# ---- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("iteration-time", Role("step_time_ms", 1000.0)),
        ("perf/step_time_seconds", Role("step_time_ms", 1000.0)),
        ("train_step_timing in s", Role("step_time_ms", 1000.0)),
        ("elapsed time per iteration (ms)", Role("step_time_ms", 1.0)),
        ("time_ms", Role("step_time_ms", 1.0)),
        ("timing_s/step", Role("step_time_ms", 1000.0)),
        ("timing_s/gen", None),
        ("time_metrics/data_loading(s)", Role("data_time_ms", 1000.0)),
        ("lm loss", Role("loss")),
        ("train/loss", Role("loss")),
        ("loss_metrics/global_avg_loss", Role("loss")),
        ("lm loss vs samples", None),
        ("val_loss", None),
        ("grad-norm", Role("grad_norm")),
        ("throughput(tps)", Role("tokens_per_s", 1.0, "device")),
        ("throughput", Role("tflops", 1.0, "device")),
        ("_step", Role("step")),
        ("time", Role("time")),
        ("learning-rate", None),
    ],
)
def test_names_of_figures(name: str, expected: Role | None) -> None:
    assert role(name) == expected


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_lightnings_csv_has_rows_of_evaluations_that_are_no_steps() -> None:
    text = "epoch,lr-Adam,step,train_loss_step,val_loss\n0,0.001,49,2.5,\n0,,49,,2.4\n0,0.001,99,nan,\n"
    decoded = sniffed("metrics.csv", text)
    assert pick(rows(decoded, "events"), "event", "step", "loss", "line") == [
        ("train.step", 49, 2.5, 2),
        ("train.step", 99, None, 4),
        ("train.nan", 99, None, 4),
    ]
    assert decoded.notes == []


def test_the_history_of_weights_and_biases() -> None:
    text = '{"_step": 3, "_runtime": 12.5, "_timestamp": 1772359872.5, "train/loss": 2.25, "train/grad_norm": 1.5}\n'
    assert pick(
        rows(sniffed("history.jsonl", text), "events"), "step", "loss", "grad_norm", "stamp_us", "stamp_zone_s"
    ) == [(3, 2.25, 1.5, 1772359872500000, 0)]


def test_a_history_with_the_step_time_of_torchtitan() -> None:
    text = "step,time_metrics/end_to_end(s),throughput(tps),mfu(%)\n10,0.5,5864,34.3\n"
    (row,) = rows(sniffed("x.csv", text), "events")
    assert (row["step_time_ms"], row["tokens_per_s"], row["mfu"], row["scope"]) == (500.0, 5864.0, 34.3, "device")


# ---- TensorBoard -----------------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def chunk(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def record(payload: bytes) -> bytes:
    size = struct.pack("<Q", len(payload))
    return size + struct.pack("<I", masked_crc(size)) + payload + struct.pack("<I", masked_crc(payload))


def event(step: int, tag: str, value: float, when: float = 1772359872.5, *, tensor: bool = False) -> bytes:
    number = struct.pack("<f", value)
    body = chunk(8, b"\x08\x01" + chunk(4, number)) if tensor else b"\x15" + number
    return record(
        b"\x09" + struct.pack("<d", when) + b"\x10" + varint(step) + chunk(5, chunk(1, chunk(1, tag.encode()) + body))
    )


BEGIN = record(b"\x09" + struct.pack("<d", 1772359870.0) + chunk(3, b"brain.Event:2"))
NAME = "tb/events.out.tfevents.1772359870.node-017.4711.0"


def test_the_checksum_is_that_of_crc32c() -> None:
    # Castagnoli's check value of "123456789" is e3069283, here turned by 15 bits and with the mask added.
    crc = 0xE3069283
    assert masked_crc(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_figures_of_a_step_come_together() -> None:
    raw = BEGIN + event(1, "lm loss", 2.5) + event(512, "lm loss vs samples", 2.5) + event(1, "iteration-time", 0.5)
    raw += event(2, "lm loss", float("nan"), 1772359873.0) + event(2, "throughput", 400.5, tensor=True)
    decoded = sniffed(NAME, raw)
    columns = ("event", "step", "loss", "step_time_ms", "tflops", "host", "pid", "stamp_us", "stamp_zone_s", "line")
    assert pick(rows(decoded, "events"), *columns) == [
        ("train.step", 1, 2.5, 500.0, None, "node-017", 4711, 1772359872500000, 0, 2),
        ("train.step", 2, None, None, 400.5, "node-017", 4711, 1772359873000000, 0, 5),
        ("train.nan", 2, None, None, None, "node-017", 4711, 1772359873000000, 0, 5),
    ]
    assert (decoded.lines, decoded.bytes, decoded.notes) == (6, len(raw), [])


def test_a_step_that_is_run_again_is_a_second_row() -> None:
    raw = BEGIN + event(7, "train/loss", 2.5) + event(8, "train/loss", 2.0) + event(7, "train/loss", 2.25)
    assert sorted(pick(rows(sniffed(NAME, raw), "events"), "step", "loss")) == [(7, 2.25), (7, 2.5), (8, 2.0)]


def test_the_last_record_of_a_crashed_job_is_cut() -> None:
    raw = BEGIN + event(1, "train/loss", 2.5) + event(2, "train/loss", 2.0)
    whole = len(BEGIN) + len(event(1, "train/loss", 2.5))
    for size in range(whole + 1, len(raw)):
        decoded = sniffed(NAME, raw[:size])
        assert pick(rows(decoded, "events"), "step") == [(1,)]
        assert decoded.notes == ["a TensorBoard file that is cut off in a record"]


def test_a_damaged_length_ends_the_file() -> None:
    raw = BEGIN + event(1, "train/loss", 2.5)
    decoded = sniffed(NAME, raw + b"\xff" * 16)
    assert pick(rows(decoded, "events"), "step") == [(1,)]
    assert decoded.notes == ["a TensorBoard file that is damaged: the rest was not read"]


def test_a_large_record_is_passed_over() -> None:
    raw = BEGIN + record(chunk(5, b"\x00" * (3 << 20))) + event(1, "train/loss", 2.5)
    assert pick(rows(sniffed(NAME, raw), "events"), "step", "line") == [(1, 2)]


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_records_of_any_bytes_never_raise(payload: bytes) -> None:
    run("tensorboard", NAME, BEGIN + record(payload) + event(1, "train/loss", 2.5))


# ---- trainer_state.json, MLflow --------------------------------------------------------------------------------------

STATE: dict[str, Any] = {
    "best_metric": None,
    "best_model_checkpoint": None,
    "epoch": 0.2,
    "global_step": 500,
    "is_hyper_param_search": False,
    "log_history": [
        {"epoch": 0.1, "grad_norm": 1.5, "learning_rate": 4.8e-06, "loss": 2.5, "step": 250},
        {"epoch": 0.1, "eval_loss": 2.25, "eval_runtime": 92.0, "step": 250},
        {"epoch": 0.2, "grad_norm": float("nan"), "learning_rate": 4.8e-06, "loss": float("nan"), "step": 500},
        {"epoch": 0.2, "total_flos": 1.0, "train_loss": 2.3, "train_runtime": 12.5, "step": 500},
    ],
    "max_steps": 1000,
}


def test_a_trainer_state_has_the_history_of_the_run() -> None:
    decoded = sniffed("out/checkpoint-500/trainer_state.json", json.dumps(STATE, indent=2))
    assert pick(rows(decoded, "events"), "event", "step", "loss", "grad_norm", "total_steps", "elapsed_ms", "line") == [
        ("train.step", 250, 2.5, 1.5, 1000, None, 8),
        ("train.eval", 250, 2.25, None, None, None, 15),
        ("train.step", 500, None, None, 1000, None, 21),
        ("train.nan", 500, None, None, None, None, 21),
        ("train.end", 500, None, None, None, 12500.0, 28),
        ("train.checkpoint_done", 500, None, None, None, None, 5),
    ]


def test_a_trainer_state_outside_of_a_checkpoint_shows_none() -> None:
    found = rows(sniffed("out/trainer_state.json", json.dumps(STATE)), "events")
    assert "train.checkpoint_done" not in {row["event"] for row in found}


def test_a_cut_trainer_state_keeps_the_entries_before_the_cut() -> None:
    text = json.dumps(STATE, indent=2)
    decoded = run("trainer_state", "trainer_state.json", text[: text.index("eval_runtime")])
    assert pick(rows(decoded, "events"), "event", "step") == [("train.step", 250)]
    assert decoded.notes == ["a trainer_state.json that is cut off or damaged"]


def test_a_metric_of_mlflow_is_known_by_its_folder() -> None:
    text = "1772359872500 2.5 10\n1772359873500 nan 20\n"
    decoded = sniffed("mlruns/0/abc/metrics/train_loss", text)
    assert pick(rows(decoded, "events"), "event", "step", "loss", "stamp_us", "line") == [
        ("train.step", 10, 2.5, 1772359872500000, 1),
        ("train.step", 20, None, 1772359873500000, 2),
        ("train.nan", 20, None, 1772359873500000, 2),
    ]
    assert sniff("mlruns/0/abc/metrics/accuracy", text.encode()) is None
    assert sniff("train_loss", text.encode()) is None


# ---- checkpoints -----------------------------------------------------------------------------------------------------

LS_R = """ck:
total 24
drwxr-xr-x 6 root root 4096 Nov 30 09:08 .
drwxr-xr-x 5 root root 4096 Nov 30 09:08 ..
drwxr-xr-x 2 root root 4096 Mar  1  2024 checkpoint-500
drwxr-xr-x 2 root root 4096 Nov 30 09:08 iter_0001000
drwxr-xr-x 2 root root 4096 Nov 30 09:08 iter_0002000

ck/checkpoint-500:
total 8
drwxr-xr-x 2 root root 4096 Mar  1  2024 .
drwxr-xr-x 6 root root 4096 Nov 30 09:08 ..

ck/iter_0001000:
total 8
drwxr-xr-x 2 root root 4096 Nov 30 09:08 .
drwxr-xr-x 6 root root 4096 Nov 30 09:08 ..
-rw-r--r-- 1 root root    0 Nov 30 09:09 .metadata
-rw-r--r-- 1 root root    0 Nov 30 09:08 __0_0.distcp

ck/iter_0002000:
total 8
-rw-r--r-- 1 root root    0 Nov 30 09:18 __0_0.distcp
"""
LISTED = ("step", "path", "stamp_us", "stamp_has_year", "stamp_zone_s", "durable", "line")


def us(*parts: int) -> int:
    return int((datetime(*parts) - datetime(1970, 1, 1)).total_seconds() * 1e6)  # type: ignore[arg-type]


def test_a_recursive_listing_tells_whole_checkpoints_from_begun_ones() -> None:
    decoded = sniffed("ls.txt", LS_R)
    assert pick(rows(decoded, "events"), *LISTED) == [
        (500, "ck/checkpoint-500", us(2024, 3, 1), True, None, None, 11),
        (1000, "ck/iter_0001000", us(1972, 11, 30, 9, 9), False, None, None, 18),
    ]
    assert decoded.notes == ["checkpoints without their metadata, not complete: 1"]


def test_a_listing_without_hidden_files_shows_no_metadata() -> None:
    text = "\n".join(line for line in LS_R.split("\n") if not line.endswith((" .", " ..", ".metadata")))
    decoded = sniffed("ls.txt", text)
    assert pick(rows(decoded, "events"), "step") == [(500,), (1000,), (2000,)]
    assert decoded.notes == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "total 16K\ndrwxr-xr-x 2 u g 4.0K 2026-03-01 10:11 epoch=3-step=500.ckpt\n",
            (500, "epoch=3-step=500.ckpt", us(2026, 3, 1, 10, 11), True, None, None, 2),
        ),
        (
            "drwxr-xr-x 2 u g 4096 2026-03-01 10:11:12.029547171 +0800 global_step500\n",
            (500, "global_step500", us(2026, 3, 1, 10, 11, 12), True, 28800, None, 1),
        ),
        (
            "  2891822      4 drwxr-xr-x   2 root     root         4096 Mar  1 10:11 ck/step-500\n",
            (500, "ck/step-500", us(1972, 3, 1, 10, 11), False, None, None, 1),
        ),
        (
            "                           PRE logs/\n2026-03-01 10:11:12 1342177280 run/global_step500/mp_rank_00.pt\n",
            (500, "run/global_step500", us(2026, 3, 1, 10, 11, 12), True, None, True, 2),
        ),
        (
            " 1342177280  2026-03-01T10:11:12Z  gs://bucket/run/step500-unsharded/model.pt\nTOTAL: 1 objects, 1342177280 bytes (1.25 GiB)\n",
            (500, "gs://bucket/run/step500-unsharded", us(2026, 3, 1, 10, 11, 12), True, 0, True, 1),
        ),
    ],
)
def test_forms_of_listings(text: str, expected: tuple[object, ...]) -> None:
    found = rows(sniffed("ls.txt", text), "events")
    assert pick(found, *LISTED) == [expected]
    assert found[0]["event"] == "train.checkpoint_done"


def test_other_listings_and_logs_are_left_alone() -> None:
    assert (
        sniff("ls.txt", b"total 8\ndrwxr-xr-x 2 u g 4096 Nov 30 09:08 logs\n-rw-r--r-- 1 u g 5 Nov 30 09:08 a.log\n")
        is None
    )
    assert sniff("x.log", b"2026-03-01 10:11:12 500 saved checkpoint-500 to disk\n" * 5) is None


@pytest.mark.parametrize(
    ("name", "text", "step"),
    [
        ("ck/latest_checkpointed_iteration.txt", "1000", 1000),
        ("ck/latest", "global_step500\n", 500),
        ("ck/latest_universal", "global_step500_universal", 500),
        ("work/last_checkpoint", "/work/iter_500.pth", 500),
        ("ck/latest-rank0.pt.symlink", "ep0-ba500/ep0-ba500-rank0.pt", 500),
        (
            "ck/checkpoint",
            'model_checkpoint_path: "model.ckpt-500"\nall_model_checkpoint_paths: "model.ckpt-400"\n',
            500,
        ),
    ],
)
def test_trackers_name_the_last_whole_checkpoint(name: str, text: str, step: int) -> None:
    (row,) = rows(sniffed(name, text), "events")
    assert (row["event"], row["step"], row["durable"], row["line"]) == ("train.checkpoint_done", step, True, 1)


def test_files_that_are_only_named_like_trackers_are_none() -> None:
    assert sniff("ck/latest_checkpointed_iteration.txt", b"release") is None
    assert sniff("logs/latest", b"step 17: loss 2.1\n") is None
