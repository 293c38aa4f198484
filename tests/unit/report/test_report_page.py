"""The report: whole, self-contained, readable by keyboard and aloud, in light and dark, with nothing secret in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from t1cli.records import write_json, write_text
from t1cli.report.facts import gather, statistics_of, wilson
from t1cli.report.page import page
from t1cli.report.plots import ema
from t1cli.report.trials import newest_trials, worth_reading
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventKind, EventWriter
from t1cli.run.metrics_writer import MetricsWriter
from t1cli.ui.report_view import curve
from t1cli.watch.sources.open_source import open_source

SPEC = """
model: {name: t1-tiny}
algorithm: {kind: ppo, actor_learning_rate: 1.0e-4}
rollout: {num_rollouts: 40, batch_size: 4, samples_per_prompt: 1, max_turns: 10, pipeline: sync}
watch: {packs: [slime-ppo, terminal, invariants]}
"""
SECRET = "hf_0123456789abcdefghijklmnopqrstuvwxyz"
ATTACK = '<script>alert("x")</script>'


def trial(rollout: int, number: int, **more: object) -> dict[str, object]:
    reward = {"value": 0.05 * number, "source": "ctrf", "accuracy": 1.0, "binary": 1.0}
    turns = [{"reply": f"echo {number}", "kind": "command", "observation": "ok\n", "exit_code": 0, "sampled_tokens": 5}]
    return {
        "trial_id": f"t-{rollout}-{number}", "task": f"task-{number}", "family": "write" if number % 2 else "files",
        "scored": True, "stop": "done", "cause": "", "reward": reward, "instruction": "Write it.", "turns": turns,
        "verdict": {"solved": number == 3, "ctrf": "ok", "passed": number, "total": 3, "expected": 3, "seconds": 1.0},
        "sampled_tokens": 5 + number, **more,
    }  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    made = RunDirectory(tmp_path_factory.mktemp("runs") / "demo" / "attempt_1")
    made.path.mkdir(parents=True)
    write_text(made.spec_yaml, SPEC)
    stage = {"stage": 0, "peak_gib": 82.0, "low_gib": 80.0, "high_gib": 84.0, "phase": "train"}
    memory = {"usable_gib": 140.0, "roles": {"actor": {"stages": [stage]}}}
    write_json(made.plan_json, {"topology": {"total_gpus": 8}, "memory": memory})
    clock = iter(range(1000, 100_000, 30))
    events = EventWriter(made.events_jsonl, clock=lambda: 1000.0)
    events.write(EventKind.LAUNCHED, session=1, pid=1, resumed=False)
    metrics = MetricsWriter(made.metrics_jsonl, clock=lambda: float(next(clock)))
    for rollout in range(40):
        lost = 0.1 if rollout < 3 else 0.8
        metrics.rollout(rollout, {
            "rollout/raw_reward": 0.1 + rollout / 100, "terminal/accuracy": 0.3, "terminal/non_trainable_ratio": lost,
            "terminal/failed": 40 * lost, "terminal/completed": 4.0, "terminal/truncated": 0.0,
            "terminal/trained_tokens": 90.0, "terminal/masked_tokens/lost": 10.0, "terminal/accepted/write": 3.0,
            "terminal/cancelled/write": 1.0, "terminal/accepted/files": 1.0, "terminal/cancelled/files": 2.0,
        })  # fmt: skip
        metrics.train(rollout, {"train/grad_norm": 0.5, "perf/max_memory_allocated_gb": 79.5})
    metrics.eval(39, {"eval/tb/scored": 88.0, "eval/tb/scheduled": 89.0, "eval/tb/solved_rate": 0.625})
    metrics.close()
    lines = [trial(39, n) for n in range(4)]
    lines[3] |= {"instruction": f"Use the token {SECRET}. {ATTACK}"}
    lines += [trial(39, 9, scored=False, cause="sandbox_create", reward=None, verdict=None)]
    write_text(made.trials / "rollout_000039.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    events.write(EventKind.ENDED, outcome="finished", detail="")
    events.close()
    return made


@pytest.fixture(scope="module")
def html(run: RunDirectory) -> str:
    old = os.environ.get("HF_TOKEN")
    os.environ["HF_TOKEN"] = SECRET
    try:
        return page(gather(run, open_source(str(run.path), run.path.parent.parent)), run)
    finally:
        os.environ.pop("HF_TOKEN") if old is None else os.environ.update(HF_TOKEN=old)


def test_every_firing_is_marked_on_its_plot(run: RunDirectory) -> None:
    facts = gather(run, open_source(str(run.path), run.path.parent.parent))
    metric = "terminal/non_trainable_ratio"
    once = next(rule for rule in facts.watch.rules if rule.metric == metric and rule.fired_at)
    texts = []
    for steps in ((5,), (5, 20, 31)):
        watch = replace(facts.watch, rules=(replace(once, fired_at=steps),))
        texts.append(page(replace(facts, watch=watch), run))
    assert f"{once.name} fired at rollout 6." in texts[0] or f"{once.name} fired at rollout 6;" in texts[0]
    assert f"{once.name} fired at rollouts 6, 21, 32" in texts[1]
    dotted = [text.count("stroke: var(--alarm)") for text in texts]
    assert dotted == [1, 3]


class Outline(HTMLParser):
    """What an accessibility checker looks at first."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.tables_without_caption = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.attributes.append((tag, found))
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if found.get("id"):
            self.ids.append(str(found["id"]))
        self.tables_without_caption += (tag == "table") - (tag == "caption")


@pytest.mark.catalogue("C10")
def test_the_page_holds_what_was_asked_of_it(html: str) -> None:
    for text in (
        "first-rollouts-starved", "environment pool starved", "82.0", "79.5 GiB at most", "0.385: Qwen3-4B",
        "55 / 88 / 89", "sandbox_create", "masked: lost", "GPU-hours", "train/grad_norm", "NOT healthy",
        "solved with the fewest tokens", "In the loss".lower(), "66.7%",
    ):  # fmt: skip
        assert text in html, text


def test_nothing_is_fetched_no_script_runs_and_no_secret_leaks(html: str) -> None:
    outline = Outline(html)
    assert not [tag for tag, _ in outline.attributes if tag in ("script", "iframe", "link", "object", "img")]
    assert not [a for _, found in outline.attributes for a in found if a.startswith("on") or a == "src"]
    targets = {str(found["href"]) for _, found in outline.attributes if found.get("href")}
    assert all(target.startswith("#") for target in targets)
    assert not re.search(r"@import|url\((?!#)", html)
    assert SECRET not in html
    assert "&lt;script&gt;" in html
    assert len(html) < 2_000_000


def test_it_reads_by_keyboard_and_aloud(html: str) -> None:
    outline = Outline(html)
    assert [i for i, n in Counter(outline.ids).items() if n > 1] == []
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(outline.headings, outline.headings[1:], strict=False))
    assert outline.tables_without_caption == 0
    references = {str(f["href"])[1:] for tag, f in outline.attributes if tag == "a" and f.get("href")}
    assert references <= set(outline.ids)
    assert all(found.get("lang") for tag, found in outline.attributes if tag == "html")
    for tag, found in outline.attributes:
        if tag == "svg":
            assert found.get("aria-hidden") == "true"  # the caption beside it says the same
        if found.get("class") == "scroll":  # wide tables scroll, so they must be reachable
            assert found["tabindex"] == "0"
            assert found["aria-label"]
        if found.get("role") == "img":
            assert found["aria-label"]


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_contrast_of_both_schemes(html: str, scheme: int) -> None:
    """WCAG AA: 4.5 for text, 3 for what is drawn (the raw curve is decoration behind its average)."""
    blocks = re.findall(r":root \{([^}]*)\}", html)
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", blocks[scheme]))
    for name in ("ink", "quiet", "alarm", "link"):
        assert contrast(colours[name], colours["paper"]) >= 4.5, name
    assert contrast(colours["ink"], colours["loss"]) >= 4.5
    assert contrast(colours["ink"], colours["band"]) >= 4.5
    for name in ("smooth", "sign", "anchor", "alarm"):
        assert contrast(colours[name], colours["paper"]) >= 3.0, name


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("T1_CHROMIUM") or not shutil.which("chromium"), reason="`make verify-watch`")
@pytest.mark.parametrize("width", [1280, 390])
def test_in_chromium_nothing_sticks_out(html: str, tmp_path: Path, width: int) -> None:
    """Inside a frame of the wanted width, because a headless window is never narrower than 500 pixels."""
    (tmp_path / "report.html").write_text(html, encoding="utf-8")
    (tmp_path / "frame.html").write_text(
        f'<iframe src="report.html" style="width:{width}px;height:800px;border:0"></iframe><script>onload = () => {{'
        "const d = frames[0].document.documentElement; document.title = d.scrollWidth + '/' + d.clientWidth}</script>"
    )
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
               f"--user-data-dir={tmp_path}/profile", "--virtual-time-budget=5000", "--dump-dom",
               (tmp_path / "frame.html").as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=True)
    found = re.search(r"<title>(\d+)/(\d+)</title>", done.stdout)
    assert found is not None, done.stdout[:500]
    # The frame's own scroll bar takes up to 15 pixels.
    assert int(found[1]) <= int(found[2])
    assert width - 15 <= int(found[2]) <= width


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("T1_CHROMIUM") or not shutil.which("chromium"), reason="`make verify-watch`")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(html: str, tmp_path: Path, scheme: str) -> None:
    """Every rule of axe-core, run inside Chromium on the whole page."""
    axe = Path(pytest.importorskip("axe_core_python").__file__).with_name("axe.min.js")
    (tmp_path / "axe.js").write_bytes(axe.read_bytes())
    run_axe = (
        '<script src="axe.js"></script><script>onload = () => axe.run(document).then(found => {'
        "document.title = 'AXE' + JSON.stringify({passes: found.passes.length, "
        "violations: found.violations.map(v => [v.id, v.impact, v.nodes.map(n => n.html).slice(0, 2)])})})</script>"
    )
    (tmp_path / "report.html").write_text(html.replace("</body>", run_axe + "</body>"), encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile",
               *(["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []),
               "--virtual-time-budget=30000", "--dump-dom", (tmp_path / "report.html").as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    found = re.search(r"<title>AXE(.*?)</title>", done.stdout, re.DOTALL)
    assert found is not None, done.stdout[:500]
    answer = json.loads(unescape(found[1]))
    assert answer["passes"] > 15, answer
    assert [fault for fault in answer["violations"] if fault[1] in ("serious", "critical")] == []


def test_trials_worth_reading_are_named_with_their_reasons(run: RunDirectory) -> None:
    chosen = dict(worth_reading(newest_trials(run)))
    assert any("highest reward" in why and "solved with the fewest tokens" in why for why in chosen)
    assert any(why == "lost: sandbox_create" for why in chosen)
    assert len({trial.trial_id for trial in chosen.values()}) == len(chosen)


def test_numbers() -> None:
    assert ema([1.0, 0.0]) == [1.0, 0.9]
    found = statistics_of("m", [float(i) for i in range(100)])
    assert (found.n, found.low, found.high, found.first20, found.mean, found.last20) == (100, 0, 99, 9.5, 49.5, 89.5)
    # Wilson's interval of 57 of 89, as in textbooks: 0.536 to 0.732.
    assert wilson(57, 89) == (pytest.approx(0.5367, abs=1e-3), pytest.approx(0.7325, abs=1e-3))
    assert wilson(0, 0) == (0.0, 1.0)
    assert curve([0, 1, 2, 3], 4) == "▁▃▆█"
    assert curve([5, 5], 2) == "▁▁"
