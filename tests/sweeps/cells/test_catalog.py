import pytest

from sweeps.cells.expanded_sweep import searched_cells
from sweeps.cells.loading import catalog_names, catalog_path, load_sweep, read_catalog


@pytest.mark.parametrize("name", catalog_names())
def test_every_sweep_of_the_catalogue_is_valid_and_named_after_its_file(name):
    spec = load_sweep(name)
    assert spec.name == name
    assert spec.title
    assert len(spec.hypothesis.split()) > 10
    assert "trials:" in read_catalog(name)
    assert catalog_path(name).is_file()


def test_quickstart_is_the_sweep_that_the_readme_promises():
    cells = searched_cells(load_sweep("quickstart"))
    samples = [cell.family.sample for cell in cells]
    tasks = {kind: [one.task.T for one in samples if one.model.kind == kind] for kind in ("transformer", "fcn")}
    assert tasks == {"transformer": [16, 32, 64, 128], "fcn": [4, 8, 12, 16]}
    assert all(cell.high >= 10 * cell.low for cell in cells)
