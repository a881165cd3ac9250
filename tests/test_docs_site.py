"""The documentation as a site: built with broken links as errors, every page reachable, the reference from docstrings."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_site_is_built_and_has_every_page_the_reference_and_a_search(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr.strip()
    start = (tmp_path / "start.html").read_text()
    linked = {re.sub(r"[#?].*", "", link) for link in re.findall(r'href="([^"]+\.html)[^"]*"', start)}
    for page in (ROOT / "docs").rglob("*.md"):
        html = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert str(html).replace("README.html", "index.html") in linked, html
    words = (tmp_path / "reference/sweeps.html").read_text()
    for name in (
        "sweeps.sampler.threshold_sampler.ThresholdSampler",
        "sweeps.sampler.threshold_sampler.ThresholdSampler.result",
    ):
        assert f'id="{name}"' in words
    assert "what the objective has to reach" in words
    assert 'id="stsq_core.oracles.theory.fcn_floor"' in (tmp_path / "reference/training.html").read_text()
    assert "threshold" in (tmp_path / "search/search_index.js").read_text()
    outside = re.findall(r'(?:src|href)="(https?://[^"]+\.(?:js|css|woff2?))"', start)
    assert not outside
