import numpy as np
import pytest

import intermodal as im
from intermodal import transfer
from intermodal.backend import Backend, backend_of
from intermodal.testing import run

LARGE = (33, 17)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(backend_of("disk"), "piece", 64)


def in_file(x):
    base = x.numpy()
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    return base is not None


def test_the_engine_conforms():
    report = run("disk", quick=True)
    assert report.ok, str(report)


def test_a_large_tensor_lives_in_a_file_and_a_small_one_does_not():
    x = im.asarray(np.ones(LARGE), device="disk:cpu")
    assert in_file(x)
    assert in_file(x + 1)
    assert in_file(im.linalg.matmul(x.T, x))
    assert not in_file(im.sum(x))
    assert not in_file(im.zeros(3, device="disk:cpu"))


def test_a_view_lives_in_the_file_of_its_tensor():
    x = im.asarray(np.ones(LARGE), device="disk:cpu")
    assert np.shares_memory(x[2:, ::-1].numpy(), x.numpy())
    assert np.shares_memory(im.permute_dims(x, (1, 0)).numpy(), x.numpy())


@pytest.mark.parametrize("shapes", [(LARGE, ()), ((33, 1), (17,)), ((17,), LARGE), ((400,), (400,))])
def test_pieces_give_what_the_whole_gives(shapes):
    a, b = (np.random.default_rng(0).standard_normal(shape) for shape in shapes)
    found = im.atan2(im.asarray(a, device="disk:cpu"), im.asarray(b, device="disk:cpu"))
    np.testing.assert_array_equal(found.numpy(), np.atan2(a, b))


def test_no_piece_is_larger_than_said(monkeypatch):
    sizes = []
    execute = Backend.execute
    monkeypatch.setattr(
        Backend, "execute", lambda self, row, arrays, *rest: sizes.append(arrays[0].nbytes) or execute(self, row, arrays, *rest)
    )
    im.exp(im.asarray(np.ones((100, 2)), device="disk:cpu"))
    assert (len(sizes), max(sizes)) == (25, 64)


def test_a_move_to_numpy_shares_the_file_and_a_move_to_disk_copies():
    x = im.asarray(np.ones(LARGE), device="disk:cpu")
    assert not transfer.plan(x, "numpy:cpu").copies
    with pytest.raises(im.CopyRequiredError, match="memory of its own"):
        im.asarray(np.ones(LARGE), device="disk:cpu", copy=False)


def test_a_folder_without_room_is_an_error_that_names_it(monkeypatch, tmp_path):
    monkeypatch.setattr(backend_of("disk"), "folder", str(tmp_path / "nowhere"))
    with pytest.raises(im.OutOfMemoryError, match=r"nowhere has no room for 4488 bytes\. Set DISK_ENGINE_FOLDER\."):
        im.asarray(np.ones(LARGE), device="disk:cpu")


def test_the_memory_is_that_of_the_disk():
    total, free = backend_of("disk").memory_info(im.Device("disk:cpu"))
    assert total > free > 0
