import pytest

from sweeps.catalog import catalog_names, catalog_path, read_catalog
from sweeps.loading import load_sweep
from sweeps.plan import expand


@pytest.mark.parametrize("name", catalog_names())
def test_every_sweep_of_the_catalogue_is_valid_and_named_after_its_file(name):
    spec = load_sweep(name)
    assert spec.name == name
    assert spec.title
    assert len(spec.hypothesis.split()) > 10
    assert "trials:" in read_catalog(name)
    assert catalog_path(name).is_file()


def test_quickstart_is_the_sweep_that_the_readme_promises():
    cells = expand(load_sweep("quickstart"))
    lengths = {kind: [c.configs[0].task.T for c in cells if c.configs[0].model.kind == kind] for kind in ("transformer", "fcn")}
    assert lengths == {"transformer": [16, 32, 64, 128], "fcn": [4, 8, 12, 16]}
    for cell in cells:
        assert cell.num_seeds >= 3
        assert 4 <= len(cell.widths) <= 8
