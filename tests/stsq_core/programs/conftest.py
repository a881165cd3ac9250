"""The compiled loops of another machine."""

import importlib
from pathlib import Path
from types import ModuleType

import llvmlite.binding
import pytest

from stsq_core.kernels import compiled

LOOPS = (
    *("compiled", "compile_clock", "jit", "vectors", "exponentials", "draws", "queries"),
    *("attention_loops", "net_loops", "descent_loops", "step_loops"),
)


@pytest.fixture(scope="session")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The compiled loops as a machine without AVX-512 has them, under another name because Numba keeps them by file."""
    folder = tmp_path_factory.mktemp("narrow") / "narrow_kernels"
    folder.mkdir()
    (folder / "__init__.py").touch()
    for name in LOOPS:
        text = Path(compiled.__file__).with_name(f"{name}.py").read_text()
        (folder / f"{name}.py").write_text(text.replace("stsq_core.kernels.", "narrow_kernels."))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder.parent))
        patch.setattr(llvmlite.binding, "get_host_cpu_features", dict)
        vectors, module = (importlib.import_module(f"narrow_kernels.{name}") for name in ("vectors", "compiled"))
    assert (vectors.VECTOR_BYTES, vectors.PANEL) == (32, 2)
    return module
