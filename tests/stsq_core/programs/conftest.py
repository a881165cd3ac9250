"""The compiled loops of another machine."""

import importlib.util
import shutil
from types import ModuleType

import llvmlite.binding
import pytest

from stsq_core.kernels import compiled


@pytest.fixture(scope="session")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The compiled loops as a machine without AVX-512 has them, under another name because Numba keeps them by file."""
    path = tmp_path_factory.mktemp("narrow") / "narrow.py"
    shutil.copy(compiled.__file__, path)
    spec = importlib.util.spec_from_file_location("narrow", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llvmlite.binding, "get_host_cpu_features", dict)
        spec.loader.exec_module(module)
    assert (module.VECTOR_BYTES, module.PANEL) == (32, 2)
    return module
