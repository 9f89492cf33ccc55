"""The gsplat-c command with links, devices, signals and terminals, which Windows lacks."""

import contextlib
import os
import pathlib
import pty
import signal
import subprocess
import time

import pytest

from command import COMMAND, OK, RUNTIME, USAGE, call, cameras, in_folder, scene  # noqa: F401
from scenes import Png


def test_unwritable_output(scene, tmp_path):
    assert call("render", scene, "-o", "no/such/o.png", code=RUNTIME) == (
        "no/such/o.png: cannot write: No such file or directory"
    )
    error = call("render", scene, "-o", "/dev/full", code=RUNTIME)
    assert error == "/dev/full: cannot write: No space left on device"
    (tmp_path / "file").write_text("kept")
    error = call("render", scene, "-o", "file/", code=RUNTIME)
    assert error.startswith("file")
    assert (tmp_path / "file").read_text() == "kept"
    (tmp_path / "o-depth.png").mkdir()
    error = call("render", scene, "-o", "o.png", "--depth", code=RUNTIME)
    assert error == "o-depth.png: is a directory"


def test_failed_write_keeps_the_old_picture(scene, tmp_path):
    """A file size limit cuts the write in the middle."""
    (tmp_path / "o.png").write_bytes(b"old")
    script = (
        f"trap '' XFSZ; ulimit -f 8; exec '{COMMAND}' render '{scene}' -o o.png --size 1500x999"
    )
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == RUNTIME
    assert result.stderr == "gsplat-c: o.png: cannot write: File too large\n"
    assert (tmp_path / "o.png").read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["o.png", "scene.ply"]


def test_link_and_device_outputs(scene, tmp_path):
    (tmp_path / "real.png").write_bytes(b"old")
    (tmp_path / "link.png").symlink_to("real.png")
    call("render", scene, "-o", "link.png")
    assert (tmp_path / "link.png").is_symlink()
    assert Png(tmp_path / "real.png").width == 1280
    (tmp_path / "folder").mkdir()
    (tmp_path / "first.png").symlink_to("folder/second.png")
    (tmp_path / "folder/second.png").symlink_to("third.png")  # nothing is there yet
    call("render", scene, "-o", "first.png")
    assert (tmp_path / "first.png").is_symlink() and (tmp_path / "folder/second.png").is_symlink()
    assert Png(tmp_path / "folder/third.png").width == 1280
    (tmp_path / "scene-link.png").symlink_to(scene)
    error = call("render", scene, "-o", "scene-link.png", code=USAGE)
    assert error == "scene-link.png: is the scene and would be replaced by a picture"
    call("render", scene, "-o", "/dev/null")
    assert not pathlib.Path("/dev/null").is_file()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_killed_command_leaves_no_file(scene, tmp_path, number):
    """The picture is large enough to be caught while it is written."""
    process = subprocess.Popen(
        [COMMAND, "render", scene, "-o", "o.png", "--size", "9000x9000"],
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # the tests may ignore it
    )
    end = time.monotonic() + 60
    while not list(tmp_path.glob("*.part")) and time.monotonic() < end:
        time.sleep(0.001)
    process.send_signal(number)
    assert process.wait() == -number
    assert [p.name for p in tmp_path.iterdir()] == ["scene.ply"]


def test_file_shorter_than_its_size():
    """Files of sysfs claim to hold a page."""
    for path in ("/sys/kernel/mm/transparent_hugepage/enabled", "/sys/class/net/lo/mtu"):
        if pathlib.Path(path).exists():
            error = call("info", path, code=RUNTIME)
            assert error == f"{path}: not a PLY file: it does not start with 'ply'"


def test_progress_bar_on_a_terminal(scene, cameras):
    leader, follower = pty.openpty()
    result = subprocess.run(
        [COMMAND, "render", scene, "--cameras", cameras, "--camera", "all", "-o", "d"],
        stdout=subprocess.PIPE,
        stderr=follower,
        check=False,
    )
    os.close(follower)
    shown = ""
    with contextlib.suppress(OSError):  # all is read, and there is no other end
        while True:
            shown += os.read(leader, 65536).decode()
    os.close(leader)
    assert result.returncode == OK
    assert "[" + "." * 32 + "] 0 of 3" in shown and "2 of 3" in shown
    assert shown.endswith("\r") and b"[" not in result.stdout
