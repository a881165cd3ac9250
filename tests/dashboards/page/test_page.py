"""The page tells what the ledger holds: whole, partial, empty, failed or huge; and nothing in it can break it."""

import base64
import csv
import gzip
import json
import math
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from dashboards import write_report
from dashboards.boards.documents import thresholds_table
from dashboards.page.headline import summary_words
from dashboards.paper.tables import thresholds_json, thresholds_latex
from dashboards.words.law_words import GAMMA, fitted_formula, interval_words, plain_formula
from stsq_core import TrialConfig, TrialResult, UserError
from sweeps.findings.run_findings import Findings, read_findings
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import RunDirectory

pytestmark = pytest.mark.slow
MakeRun = Callable[..., RunDirectory]
NASTY = '</title><script>alert("title")</script> & <b>'


class Page(HTMLParser):
    """A page's visible text, the links it follows and the elements that need each other."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.links: list[str] = []
        self.files: set[str] = set()
        self.tags: list[str] = []
        self._hidden = 0
        self.feed(path.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.files |= {value or "" for name, value in attrs if name == "data-file"}
        self._hidden += tag in ("script", "style")
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.text += data


def figures(path: Path, section: str) -> list[dict[str, list[dict[str, object]]]]:
    """The figures of one section of a page, as the page's script finds them."""
    html = path.read_text(encoding="utf-8").partition(f'<section id="{section}"')[2].partition("</section>")[0]
    texts = re.findall(r'<script type="application/json">(.*?)</script>', html)
    return [json.loads(text) for text in texts]


def test_a_whole_sweep_shows_its_numbers(whole_page: Path, findings: Findings) -> None:
    page = Page(whole_page)
    assert len(findings.thresholds) == 8
    for threshold in findings.thresholds:
        assert f"{threshold.m_star:.2f}" in page.text
    for words in (
        "From T = 16 to 128 a transformer needs",
        "; from T = 4 to 16 a fully connected net needs",
        "q is 3 for the transformer, 2 for the fully connected net",
    ):
        assert words in page.text
    assert "the objective is population for the transformer, minibatch for the fully connected net" in page.text
    assert "So far" not in page.text
    assert f"stsq trial {findings.run.path.name} {findings.records[0].trial_id}" in page.text
    assert "GPU-hours of training" in page.text
    assert "CPU-hours of training" in page.text


def test_cells_and_laws_that_differ_beside_the_task_are_told_apart(make_run: MakeRun, attention: dict[str, object]) -> None:
    trials = [{**attention, "grid": {"model.positions.query": ["sum", "dual"], "training.objective": ["population"]}}]
    text = write_report(make_run(trials=trials).path).read_text(encoding="utf-8")
    table = text[text.index('id="table"') : text.index('id="losses"')]
    heads = re.findall(r"<th [^>]*>(.*?)</th>", table[: table.index("</thead>")])
    # What varies stands beside the threshold, where a narrow screen shows both.
    assert heads[:8] == ["<i>T</i>", "query", "<i>m</i>*", "Interval", "<i>M</i>", "Architecture", "<i>q</i>", "<i>d</i>"]
    assert (table.count("<td>sum</td>"), table.count("<td>dual</td>")) == (4, 4)
    for family in ("Transformer query=sum", "Transformer query=dual", "Transformer: 2 families at once"):
        assert f'class="transformer">{family}</span>' in text
    assert 'share <i>b</i> of <span class="formula"><i>m</i> = <i>d</i> + <i>b</i> <i>q</i> ln <i>T</i></span>: one' in text
    said = "The 2 families share b of m = d + b q ln T: one b is enough; a b for each model.positions.query fits as well"
    plain = re.sub(r"</?(i|span)\b[^>]*>", "", text)
    assert said in plain
    assert "<li>b at model.positions.query = sum over b at dual: 1.0" in plain


def test_everything_the_page_links_to_is_in_it(whole_page: Path) -> None:
    page = Page(whole_page)
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert len(page.files) > 12
    packed = json.loads(
        re.findall(r'<script type="application/json" id="files">(.*?)</script>', whole_page.read_text("utf-8"))[0]
    )
    for name in page.files:
        assert gzip.decompress(base64.b64decode(packed[name])) == whole_page.with_name(name).read_bytes()


def test_the_figures_hold_the_numbers_of_the_ledger(whole_page: Path, findings: Findings) -> None:
    marks = [
        (x, m)
        for figure in figures(whole_page, "thresholds")
        for trace in figure["data"]
        if trace.get("error_y")
        for x, m in zip(trace["x"], trace["y"], strict=True)  # type: ignore[call-overload]
    ]
    expected = [(t.config_sample.task.T, t.m_star) for t in findings.thresholds]
    assert marks == [(x, pytest.approx(m, rel=1e-5)) for x, m in expected]
    losses = figures(whole_page, "losses")
    dots = sum(len(trace["x"]) for figure in losses for trace in figure["data"] if trace["mode"] == "markers")
    assert dots == len(findings.records)


def test_every_law_of_both_architectures_is_on_the_page_with_its_verdict(whole_page: Path, findings: Findings) -> None:
    text = Page(whole_page).text
    assert [len(comparison.laws) for comparison in findings.comparisons] == [6, 6]
    for comparison in findings.comparisons:
        for law in comparison.laws:
            for letter, estimate in law.parameters.items():
                assert f"{letter.replace('gamma', GAMMA)} = {interval_words(estimate)}" in text
    *residuals, powers = figures(whole_page, "laws")
    for figure, comparison in zip(residuals, findings.comparisons, strict=True):
        own = next(trace for trace in figure["data"] if trace["mode"] == "markers")
        law = comparison.named
        assert law is not None
        assert comparison.naming.partition("). ")[2] in text
        assert own["y"] == pytest.approx([point.relative_residual for point in law.points], rel=1e-4)
    shown = [trace["x"][0] for trace in powers["data"]]  # type: ignore[index]
    fitted = [c.law(name).parameters["gamma"].value for c in findings.comparisons for name in ("td_power", "excess_power")]  # type: ignore[union-attr]
    assert shown == pytest.approx(fitted, rel=1e-4)


def test_held_out_cells_stand_beside_their_predictions(make_run: MakeRun) -> None:
    run = make_run(laws={"held_out": [{"task.T": 128}, {"task.T": 16, "model.kind": "fcn"}]})
    page = Page(write_report(run.path))
    assert page.text.count("Held-out cell") == 2
    assert "Hollow marks were held out of the fits." in page.text
    printed = json.loads((run.report / "thresholds.json").read_text())
    assert {(row["architecture"], row["T"]) for row in printed["held_out"]} == {("transformer", 128), ("fcn", 16)}
    for row in printed["held_out"]:
        assert row["error"] == pytest.approx(row["m_star"] / row["predicted_value"] - 1)
    hollow = [
        trace["x"] for figure in figures(run.report / "index.html", "thresholds") for trace in figure["data"]
        if trace.get("name") == "held out of the fits"
    ]  # fmt: skip
    assert hollow == [[128], [16]]


def test_the_csv_holds_full_precision(whole_page: Path, findings: Findings) -> None:
    with whole_page.with_name("thresholds.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["m_star"]) for row in rows] == [t.m_star for t in findings.thresholds]
    with whole_page.with_name("trials.csv").open() as file:
        losses = {row["trial_id"]: float(row["relative_loss"]) for row in csv.DictReader(file)}
    assert losses == {record.trial_id: record.relative_loss for record in findings.records}


def test_text_of_users_cannot_become_markup(make_run: MakeRun, whole_page: Path) -> None:
    plain = Page(whole_page)
    run = make_run("nasty", title=NASTY, hypothesis=NASTY)
    path = write_report(run.path)
    page = Page(path)
    assert page.tags == plain.tags
    assert page.text.count(NASTY) == 3
    assert "<script>alert" not in path.read_text()


def test_a_reason_of_failure_cannot_become_markup(make_run: MakeRun) -> None:
    run = make_run(outcome=lambda _config: NASTY)
    path = write_report(run.path)
    assert "<script>alert" not in path.read_text()
    assert NASTY in Page(path).text


def test_a_partial_sweep_says_so_far(make_run: MakeRun) -> None:
    run = make_run(keep=lambda place: place % 5 != 0)
    page = Page(write_report(run.path))
    ended = len(Ledger(run.ledger).read())
    assert "So far, " in page.text
    assert f"drawn when {ended} of 144 trials had ended" in page.text


def test_a_sweep_with_no_result_yet_has_a_page(make_run: MakeRun) -> None:
    page = Page(write_report(make_run(keep=lambda _place: False).path))
    assert "No trial has ended yet" in page.text


def test_all_failed_is_a_page_with_a_failure_table_and_no_number(make_run: MakeRun) -> None:
    run = make_run(outcome=lambda _config: "worker lost")
    page = Page(write_report(run.path))
    assert "No width threshold was found: all 144 trials failed." in page.text
    assert "worker lost" in page.text
    assert "--retry-failed" in page.text
    assert not (run.report / "thresholds.png").exists()


def test_all_diverged_says_so(make_run: MakeRun, diverged: Callable[[TrialConfig], TrialResult]) -> None:
    page = Page(write_report(make_run(outcome=diverged).path))
    assert "No width threshold was found: all 144 trials diverged." in page.text


def test_censored_thresholds_are_told_as_inequalities(make_run: MakeRun, attention: dict[str, object]) -> None:
    narrow = {**attention, "zip": {"task.T": [16, 32], "model.positions.d_e": [[10, 14], [60, 80]]}}
    run = make_run(trials=[narrow])
    path = write_report(run.path)
    text = Page(path).text
    assert "> 18" in text
    assert "≤ 64" in text
    assert "No width threshold was found" in text
    symbols = [
        trace["marker"]["symbol"] for trace in figures(path, "thresholds")[0]["data"] if "symbol" in trace.get("marker", {})
    ]  # type: ignore[index, attr-defined, operator]
    assert {"triangle-up", "triangle-down"} <= set(symbols)


def test_thresholds_that_are_not_reached_are_told_wherever_a_status_is(make_run: MakeRun, attention: dict[str, Any]) -> None:
    """T = 16: the loss turns short of the target, at m = 24. T = 32: nothing is learned. T = 64: found."""

    def outcome(config: TrialConfig) -> TrialResult:
        width = config.width
        loss = {16: 0.23 + abs(math.log(width / 24)) / 2, 32: 0.99, 64: 0.1 * (24 / width) ** 3}[config.task.T]
        return TrialResult(config, "finished", min(loss, 1.0) * (1 + config.seed % 5 / 500), 0.001, 600, 0.3)

    widths = [[4, 8, 20, 44, 92, 188]] * 3
    run = make_run(
        trials=[{**attention, "zip": {"task.T": [16, 32, 64], "model.positions.d_e": widths}, "seeds": [0, 1, 2]}],
        outcome=outcome,
    )
    findings = read_findings(run.path)
    short, flat, _ = findings.thresholds
    assert [one.status for one in findings.thresholds] == ["not_reached", "not_reached", "found"]
    tried = "(try more steps, a smaller rate or a schedule)"
    assert short.note.startswith(f"not reached: least loss 0.23 at m = 24, rising beyond {tried}; ")
    flat_words = "not reached: nothing learned at any width, loss 0.99 throughout (try more steps or another rate)"
    assert flat.note.startswith(f"{flat_words}; ")
    page = Page(write_report(run.path)).text
    assert short.note.partition("; ")[0] in page
    assert flat_words in page
    assert "A transformer needs a width of 24.0 at T = 64" in page
    assert summary_words(findings.thresholds) == "1 found, 2 not reached at any width"
    latex = thresholds_latex(findings.thresholds, findings.comparisons)
    assert latex.count("not reached") == 2
    rows = json.loads(thresholds_json(findings.thresholds, findings.comparisons))["thresholds"]
    assert [(row["status"], row["m_star"]) for row in rows[:2]] == [("not_reached", None)] * 2
    assert thresholds_table(findings.thresholds).count("| not reached | none | 3 | not reached |") == 2
    assert [comparison.num_cells for comparison in findings.comparisons] == [1]


def test_ten_thousand_trials_are_aggregated(make_run: MakeRun, attention: dict[str, object]) -> None:
    run = make_run(trials=[{**attention, "seeds": 418}])
    assert len(Ledger(run.ledger).read()) == 10_032
    path = write_report(run.path)
    page = Page(path)
    plot_js = 4_900_000
    files = 300_000 + 10_032 * 40  # of which a trial's id and seed cannot be compressed
    assert path.stat().st_size < plot_js + 600_000 + files
    assert "5, 25, 75 and 95% quantiles" in page.text
    assert "one of each width shown" in page.text


def test_a_report_made_again_replaces_the_first(make_run: MakeRun, fill: Callable[..., None]) -> None:
    run = make_run(keep=lambda place: place % 2 == 0)
    assert "So far" in Page(write_report(run.path)).text
    fill(run, run.read_spec())
    assert "So far" not in Page(write_report(run.path)).text


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run"):
        write_report(tmp_path)


def test_one_law_of_a_family_is_named_everywhere(whole_page: Path, findings: Findings) -> None:
    """Headline, figure, table of thresholds, LaTeX, CSV and JSON."""
    heading = whole_page.read_text(encoding="utf-8").partition('id="heading"')[2].partition("</header>")[0]
    lines = [trace for figure in figures(whole_page, "thresholds") for trace in figure["data"]]
    document = json.loads(whole_page.with_name("thresholds.json").read_text())
    latex, laws = whole_page.with_name("thresholds.tex").read_text(), whole_page.with_name("laws.tex").read_text()
    for comparison, row in zip(findings.comparisons, document["verdicts"], strict=True):
        law = comparison.named
        assert law is not None
        assert f"{plain_formula(law).html} with " in heading
        assert comparison.reason.partition(",")[0].partition(";")[0] in heading.replace("&#x27;", "'")
        (line,) = [own for own in lines if own.get("name") == fitted_formula(law).html]
        assert line["line"]["dash"] == "solid"
        assert (row["named"], row["reason"]) == (law.name, comparison.reason)
        assert f"$m = {plain_formula(law).tex[1:-1]}$" in latex
        assert sum(f"{plain_formula(law).tex} &" in own and own.endswith(r", named \\") for own in laws.splitlines()) == 1
        for own in document["thresholds"]:
            if own["architecture"] == comparison.kind:
                assert own["law"] == pytest.approx(law.predict(T=own["T"], d=own["d"], q=own["q"]))
