"""The page: facts as HTML with nothing fetched from anywhere, readable without scripts, by keyboard and aloud."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from t1cli.report.facts import Facts
from t1cli.report.masks import MaskRun, mask_of
from t1cli.report.plots import Marks, plot
from t1cli.report.trials import worth_reading
from t1cli.run.directory import RunDirectory
from t1cli.run.redaction import Redactor
from t1cli.terminal.rollout.recorded_trials import RecordedTrial
from t1cli.watch.counting import OF_RUN
from t1cli.watch.metrics.registry import registry
from t1cli.watch.result import RuleResult

SHOWN = (
    "rollout/raw_reward", "terminal/reward_mean", "terminal/accuracy", "terminal/check_rate", "terminal/solved_rate",
    "terminal/non_trainable_ratio", "watch/trainable", "watch/reward_range", "rollout/zero_std/sum", "train/grad_norm",
    "train/kl_loss", "train/entropy_loss", "train/ppo_kl", "train/pg_clipfrac", "train/pg_loss",
    "train/explained_variance", "train/critic-value_loss", "train/train_rollout_logprob_abs_diff", "train/staleness",
    "rollout/response_len/mean", "watch/live_reply_tokens", "rollout/truncated_ratio", "terminal/turns_mean",
    "terminal/fallback_share", "perf/rollout_time", "perf/step_time", "watch/trials_per_hour", "watch/rollout_share",
    "terminal/cancelled", "terminal/selection_bias", "perf/max_memory_allocated_gib", "watch/eval",
)  # fmt: skip
ANCHORS = {
    "terminal/accuracy": (
        (0.17, "0.17: tool calls, outcome only, 250 steps (OpenClaw-RL report, table 4)"),
        (0.31, "0.31: GUI, outcome only, 120 steps (OpenClaw-RL report, table 4)"),
        (0.385, "0.385: Qwen3-4B terminal-rl at its peak (postmortem)"),
        (0.45, "0.45: Qwen3-8B terminal-rl at its peak (postmortem)"),
    )
}
LONGEST_TEXT = 4000


def page(facts: Facts, run: RunDirectory) -> str:
    """The whole document; secrets of this process's environment are struck out."""
    sections: tuple[tuple[str, str, Callable[[], str]], ...] = (
        ("ran", "What ran", lambda: _what_ran(facts)),
        ("alerts", "Alerts and diagnoses", lambda: _alerts(facts)),
        ("memory", "Memory: plan and measurement", lambda: _memory(facts)),
        ("metrics", "Metrics", lambda: _plots(facts)),
        ("table", "Metrics in numbers", lambda: _statistics(facts)),
        ("outcomes", "Trial outcomes by family and cause", lambda: _outcomes(facts)),
        ("ledger", "Token ledger", lambda: _ledger(facts)),
        ("cancelled", "What over-sampling cancelled", lambda: _cancelled(facts)),
        ("evaluation", "Evaluation", lambda: _evaluation(facts)),
        ("cost", "Cost per solved task", lambda: _cost(facts)),
        ("trajectories", "Trajectories to read", lambda: _trajectories(facts, run)),
        ("rules", "Rules", lambda: _rules(facts)),
    )
    title = f"{facts.summary.name}, attempt {facts.summary.attempt}"
    links = "".join(f'<li><a href="#{key}">{escape(name)}</a></li>' for key, name, _ in sections)
    body = "".join(
        f'<section aria-labelledby="{key}"><h2 id="{key}">{escape(name)}</h2>{make()}</section>'
        for key, name, make in sections
    )
    css = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    html = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} - t1 report</title><style>{css}</style></head><body>"
        '<a class="skip" href="#main">Skip to the content</a>'
        f"<header><h1>{escape(title)}</h1>{_verdict(facts)}"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav></header><main id="main">{body}</main></body></html>\n'
    )
    return Redactor.of_environment().text(html)


def _verdict(facts: Facts) -> str:
    word = escape(facts.watch.words)
    word = word if facts.watch.healthy else f'<span class="alarm">{word}</span>'
    detail = f" ({escape(facts.summary.detail)})" if facts.summary.detail else ""
    done = f"{facts.summary.rollouts_done} of {facts.summary.rollouts_planned or '?'} rollouts"
    return f"<p>Run {escape(facts.summary.state)}{detail} after {done}: {word}.</p>"


def _what_ran(facts: Facts) -> str:
    spec, sessions = facts.spec, facts.record.get("sessions") or [{}]
    rollout, algorithm = spec.get("rollout") or {}, spec.get("algorithm") or {}
    git = sessions[-1].get("t1_git") or {}
    rows = [
        ("campaign", f"{facts.summary.name}, digest {facts.record.get('digest', '?')}"),
        ("engine", f"{facts.summary.engine}, {facts.summary.job_id}"),
        ("model", (spec.get("model") or {}).get("name", "?")),
        ("algorithm", f"{algorithm.get('kind', '?')}, actor learning rate {algorithm.get('actor_learning_rate', '?')}"),
        ("rollout", f"{rollout.get('batch_size', '?')} prompts × {rollout.get('samples_per_prompt', '?')} samples, "
                    f"{rollout.get('pipeline', '?')}, at most {rollout.get('max_turns', '?')} turns"),
        ("began", _clock(facts.summary.began)),
        ("ended", _clock(facts.summary.ended)),
        ("hours", "?" if facts.hours is None else f"{facts.hours:.2f}"),
        ("sessions", str(facts.summary.sessions)),
        ("code", f"{git.get('commit', '?')}{' with local changes' if git.get('dirty') else ''}"),
        ("accepted refusals", ", ".join(sessions[-1].get("accepted") or ()) or "none"),
    ]  # fmt: skip
    return _table("What was launched", ("what", "value"), [(a, str(b)) for a, b in rows])


def _alerts(facts: Facts) -> str:
    fired = [rule for rule in facts.watch.rules if rule.fired_at]
    rules = _table(
        "Rules that fired",
        ("severity", "rule", "first firing (rollout)", "hours", "GPU-hours after it", "state"),
        [(r.severity, r.name, _numbers(r.fired_at[0]), _opt(r.hours), _opt(r.gpu_hours_left), r.state) for r in fired],
    )
    causes = _table(
        "Diagnoses",
        ("what", "rollouts", "evidence", "advice"),
        [
            (
                d.name + (" (good news)" if d.healthy else ""),
                f"{_numbers(d.from_step)}-{_numbers(d.to_step)}",
                "; ".join(d.evidence),
                d.advice,
            )
            for d in facts.watch.diagnoses
        ],
    )
    return (rules if fired else "<p>No rule fired.</p>") + (causes if facts.watch.diagnoses else "<p>No diagnosis.</p>")


def _memory(facts: Facts) -> str:
    measured = "not measured by this run" if facts.measured_gib is None else f"{facts.measured_gib:.1f} GiB at most"
    text = f"<p>Measured: {measured}. Usable per GPU: {_opt(facts.usable_gib)} GiB.</p>"
    if not facts.memory:
        return text + "<p>The plan holds no GPU memory for this engine.</p>"
    rows = [
        (m.role, m.stage, f"{m.planned_gib:.1f}", f"{_opt(m.low_gib)} to {_opt(m.high_gib)}", m.phase)
        for m in facts.memory
    ]
    return text + _table("Planned peak per GPU", ("role", "stage", "GiB", "band", "phase"), rows, numbers={2})


def _plots(facts: Facts) -> str:
    shown = [name for name in SHOWN if name in facts.series]
    shown += sorted(n for n in facts.series if n.startswith("eval/") and n.endswith("solved_rate"))
    key = (
        "<p>Thin: as logged. Thick: exponential average with weight 0.1. Dotted: a rule fired. Band: a diagnosis held. "
        "Dashed: a known value.</p>"
    )
    return key + f'<div class="plots">{"".join(_figure(facts, name) for name in shown)}</div>'


def _figure(facts: Facts, name: str) -> str:
    series, known = facts.series[name], registry().metrics.get(name)
    rules = [rule for rule in facts.watch.rules if rule.metric == name and rule.fired_at]
    fired = tuple((step, rule.name) for rule in rules for step in rule.fired_at)
    spans = tuple(
        (d.from_step, d.to_step, d.name)
        for d in facts.watch.diagnoses
        if any(sign.startswith(f"{name} ") for sign in d.evidence)
    )
    anchors = tuple(anchor for anchor in ANCHORS.get(name, ()))
    meaning = f": {known.meaning} (population: {known.population})" if known else ""
    healthy = f" Healthy: {known.healthy}." if known and known.healthy else ""
    said = f" From {series.finite[0]:.4g} to {series.finite[-1]:.4g} in {len(series.finite)} points."
    marks = [f"{rule.name} fired at {OF_RUN.several(rule.fired_at)}" for rule in rules]
    marks += [f"{what}, {OF_RUN.span(first, last)}" for first, last, what in spans]
    marks += [text for _, text in anchors]
    notes = f" {'; '.join(marks)}." if marks else ""
    caption = f"<strong>{escape(name)}</strong>{escape(meaning)}.{escape(healthy + said + notes)}"
    return f"<figure>{plot(name, series, Marks(fired, spans, anchors))}<figcaption>{caption}</figcaption></figure>"


def _statistics(facts: Facts) -> str:
    rows = [
        (s.metric, str(s.n), *(f"{value:.4g}" for value in (s.low, s.high, s.first20, s.mean, s.last20)))
        for s in facts.statistics
    ]
    head = ("metric", "n", "min", "max", "first 20", "mean", "last 20")
    return _table("Finite values of every metric", head, rows, numbers=set(range(1, 7)))


def _outcomes(facts: Facts) -> str:
    causes = sorted({cause for counts in facts.outcomes.values() for cause in counts})
    rows = [(family, *(str(counts[cause]) for cause in causes)) for family, counts in facts.outcomes.items()]
    if not rows:
        return "<p>The run has recorded no trials.</p>"
    numbers = set(range(1, len(causes) + 1))
    return _table("Trials; a lost trial is never reward 0", ("family", *causes), rows, numbers=numbers)


def _ledger(facts: Facts) -> str:
    total = sum(facts.ledger.values())
    if not total:
        return "<p>The run has no token ledger.</p>"
    rows = [(account, f"{tokens:.0f}", f"{tokens / total:.1%}") for account, tokens in facts.ledger.items()]
    return _table(f"Where {total:.0f} sampled tokens went", ("account", "tokens", "share"), rows, numbers={1, 2})


def _cancelled(facts: Facts) -> str:
    if not facts.families:
        return "<p>Nothing was accepted or cancelled by family.</p>"
    accepted, cancelled = (sum(pair[i] for pair in facts.families.values()) for i in (0, 1))
    rows = []
    for family, (kept, gone) in facts.families.items():
        bias = kept / accepted - (kept + gone) / (accepted + cancelled) if accepted else 0.0
        rows.append((family, f"{kept:.0f}", f"{gone:.0f}", f"{gone / max(1.0, kept + gone):.1%}", f"{bias:+.1%}"))
    head = ("family", "accepted", "cancelled", "cancelled share", "share of accepted against launched")
    return _table("Accepting what finishes first favours short trials", head, rows, numbers={1, 2, 3, 4})


def _evaluation(facts: Facts) -> str:
    if not facts.evaluations:
        return "<p>The run has no evaluation.</p>"
    rows = [
        (
            e.name,
            _numbers(e.rollout),
            f"{e.solved} / {e.scored} / {e.scheduled}",
            f"{e.rate:.3f}",
            f"{e.low:.3f} to {e.high:.3f}",
        )
        for e in facts.evaluations
    ]
    caption = "Solved / scored / scheduled; a mean over fewer trials than scheduled is not comparable"
    return _table(caption, ("set", "after rollout", "trials", "solved rate", "95% interval"), rows, numbers={1, 3})


def _cost(facts: Facts) -> str:
    solved = facts.solved
    if not solved or facts.hours is None:
        return "<p>No task was solved, or the run has no clock.</p>"
    tokens = sum(trial.sampled_tokens for trial in facts.trials)
    gpu = f"{facts.hours * facts.gpus / solved:.3f} GPU-hours" if facts.gpus else "no GPU"
    minutes = facts.hours * 60 / solved
    each = f"{gpu}, {minutes:.2f} minutes and {tokens / solved:.0f} tokens each"
    return f"<p>{solved} training trials solved their task: {each}.</p>"


def _trajectories(facts: Facts, run: RunDirectory) -> str:
    chosen = worth_reading(facts.trials)
    if not chosen:
        return "<p>The run has recorded no trials.</p>"
    note = "<p>Green with a bar on the left: sampled and in the loss. Grey: prompt and observations, masked.</p>"
    return note + "".join(_trajectory(why, trial, mask_of(run, trial)) for why, trial in chosen)


def _trajectory(why: str, trial: RecordedTrial, mask: Sequence[MaskRun]) -> str:
    reward = "no reward" if trial.reward is None else f"reward {trial.reward:.3g}"
    verdict = trial.verdict
    checks = "" if verdict is None else f", {verdict.passed} of {verdict.total} checks"
    of = f"{OF_RUN.one(trial.rollout)}, {reward}{checks}, {len(trial.turns)} turns, {trial.outcome}"
    head = f"{why}: {trial.task} ({of})"
    trained = trial.scored
    parts = [f"<h3>Task</h3><pre>{escape(_cut(trial.instruction))}</pre>", _mask(mask)]
    for number, turn in enumerate(trial.turns, 1):
        label = "in the loss" if trained else "masked: the trial was lost"
        css = ' class="loss"' if trained else ""
        parts.append(f"<h3>Turn {number}: {turn.sampled_tokens} tokens, {label}</h3>")
        parts.append(f"<pre{css}>{escape(_cut(turn.reply)) or '(nothing)'}</pre>")
        if turn.observation or turn.exit_code is not None:
            code = "" if turn.exit_code is None else f", exit code {turn.exit_code}"
            parts.append(f'<p class="quiet">Observation, masked{code}</p><pre>{escape(_cut(turn.observation))}</pre>')
    return f"<details><summary>{escape(head)}</summary>{''.join(parts)}</details>"


def _mask(mask: Sequence[MaskRun]) -> str:
    if not mask:
        return '<p class="quiet">No training row of this trial was kept.</p>'
    inside, total = sum(run.tokens for run in mask if run.in_loss), sum(run.tokens for run in mask)
    spans = "".join(f'<span class="{"in" if r.in_loss else "out"}" style="flex:{r.tokens}"></span>' for r in mask)
    said = f"Loss mask: {inside} of {total} tokens in the loss, in {sum(r.in_loss for r in mask)} stretches"
    return f'<p class="quiet">{said}</p><div class="mask" role="img" aria-label="{said}">{spans}</div>'


def _rules(facts: Facts) -> str:
    def state(rule: RuleResult) -> str:
        return "not logged by this run" if facts.watch.bindings.get(rule.metric) is None else rule.standing

    rows = [
        (r.severity, r.name, r.metric, facts.watch.bindings.get(r.metric) or "-", _numbers(r.first_breach),
         _numbers(*r.fired_at), state(r))
        for r in facts.watch.rules
    ]  # fmt: skip
    head = ("severity", "rule", "metric", "read from", "first breach", "fired at", "state")
    return _table("Every rule that looked after the run", head, rows)


def _table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], numbers: set[int] | None = None) -> str:
    right = numbers or set()

    def cells(tag: str, row: Sequence[str], extra: str = "") -> str:
        return "".join(
            f"<{tag}{extra}{' class=number' if i in right else ''}>{escape(cell)}</{tag}>" for i, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{cells('th', head, ' scope=col')}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}\n… {len(text) - LONGEST_TEXT} characters more"


def _clock(seconds: float | None) -> str:
    return "?" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _opt(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _numbers(*steps: int | None) -> str:
    """Rollouts as people count them."""
    return ", ".join(str(OF_RUN.number(step)) for step in steps if step is not None) or "-"
