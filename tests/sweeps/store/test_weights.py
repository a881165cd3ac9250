import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stsq_core import UserError
from sweeps.store.weights import DAMAGED_ARRAYS, load_weights, read_weights, save_weights


def test_arrays_are_loaded_back_by_one_call(run, fcn, finished):
    arrays = {"W": np.arange(6.0).reshape(2, 3), "V": np.ones((1, 2), dtype=np.float32)}
    result = replace(finished(fcn()), weights=arrays)
    save_weights(run, result)
    loaded = load_weights(run.path, result.config.trial_id)
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded[name], array)


def test_what_cannot_be_loaded_is_refused(run, fcn, finished, tmp_path):
    with pytest.raises(UserError, match=r"a trial id has 16 hex digits; got '../../etc/passwd'"):
        load_weights(run.path, "../../etc/passwd")
    with pytest.raises(UserError, match="run the sweep with --keep-weights"):
        load_weights(run.path, "0" * 16)
    with pytest.raises(UserError, match="does not exist"):
        load_weights(tmp_path / "nowhere", "0" * 16)
    with pytest.raises(ValueError, match="without keeping its weights"):
        save_weights(run, finished(fcn()))


def test_objects_are_not_unpickled(run):
    run.weights.mkdir()
    np.savez(run.weights / f"{'a' * 16}.npz", W=np.array([{"an": "object"}], dtype=object))
    with pytest.raises(UserError, match=r"is damaged \(ValueError\)"):
        load_weights(run.path, "a" * 16)


@pytest.mark.parametrize("text", [b"", b"no archive", b"PK\x03\x04 cut"])
def test_a_damaged_file_is_refused_and_closed(tmp_path, text):
    path = tmp_path / "weights.npz"
    path.write_bytes(text)
    with pytest.raises(DAMAGED_ARRAYS) as refused:
        read_weights(path)
    opened = {os.readlink(link) for link in Path("/proc/self/fd").iterdir() if os.path.lexists(link)}
    assert str(path) not in opened, refused.value
