"""The judge's part: strict answers, retries, a record that is never paid for twice, and a key that is never shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t1cli.errors import BadInput
from t1cli.terminal.tasks.audit.audit_pool import PoolAudit, audit_pool
from t1cli.terminal.tasks.audit.files import TaskFiles
from t1cli.terminal.tasks.audit.finding import REJECTIONS
from t1cli.terminal.tasks.audit.judge import Judge, JudgeTimes, endpoint_of
from t1cli.terminal.tasks.audit.prompt import messages_for
from t1cli.terminal.tasks.audit.rubric import DIMENSIONS, Rubric, load_rubric
from t1cli.terminal.tasks.audit.verdict import Malformed, Verdict, from_store, stored, verdict_of
from t1cli.terminal.tasks.check_pool import task_directories
from t1cli.terminal.tasks.generator import generate_pool, write_harbor

RUBRIC = load_rubric()
KEY = "planted-key-0123456789"
AT_ONCE = JudgeTimes(first_backoff_seconds=0.0, max_backoff_seconds=0.0, tries=3, answers=2)
FILES = TaskFiles("Write the total.", {}, {"solve.sh": "true"}, {"test_outputs.py": "def test_a():\n    assert 1\n"})


def answer(score: int = 5, **rejections: dict[str, str]) -> dict[str, Any]:
    return {"scores": dict.fromkeys(DIMENSIONS, score), "rejections": {**dict.fromkeys(REJECTIONS), **rejections}}


def said(content: object) -> httpx.Response:
    text = content if isinstance(content, str) else json.dumps(content)
    return httpx.Response(200, json={"choices": [{"message": {"role": "assistant", "content": text}}]})


class Double:
    """An endpoint in process: replies in turn, the last one for ever; keeps what it was asked."""

    def __init__(self, *replies: Callable[[], httpx.Response]) -> None:
        self.requests: list[httpx.Request] = []
        self._replies = list(replies)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return (self._replies.pop(0) if len(self._replies) > 1 else self._replies[0])()


def audited(
    pool: Path, double: Double, *, record: Path | None = None, model: str = "m", rubric: Rubric = RUBRIC
) -> PoolAudit:
    async def whole() -> PoolAudit:
        judge = Judge("http://judge/v1", model, key=KEY, times=AT_ONCE, transport=httpx.MockTransport(double))
        async with judge:
            return await audit_pool(task_directories(pool), rubric, judge=judge, record=record, at_once=1)

    return asyncio.run(whole())


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    for task in generate_pool(3, 5):
        write_harbor(task, tmp_path / "pool")
    return tmp_path / "pool"


def test_a_verdict_completes_the_score(pool: Path) -> None:
    double = Double(lambda: said(answer(3)))
    found = audited(pool, double)
    assert found.asked == 3 and found.states() == {"below": 3}
    for task in found.tasks:
        assert task.scored_weight == 1.0 and set(task.dimensions) == set(DIMENSIONS)
        assert max(task.dimensions.values()) == 0.5, "the lower of measure and judge"
    request = double.requests[0]
    assert request.url == "http://judge/v1/chat/completions" and request.headers["authorization"] == f"Bearer {KEY}"
    assert json.loads(request.content)["model"] == "m"


def test_a_rejection_of_the_judge_rejects_and_says_why(pool: Path) -> None:
    quote = {"reason": "says too little", "quote": "def test_step_1"}
    found = audited(pool, Double(lambda: said(answer(verifier_too_weak=quote))))
    assert found.by_rejection() == {"verifier_too_weak": 3} and "says too little" in found.tasks[0].reasons[-1]


def test_what_the_machine_rejects_is_not_put_to_the_judge(pool: Path) -> None:
    rejected = sorted(pool.iterdir())[0]
    (rejected / "tests/test_outputs.py").write_text("def test_a():\n    pass\n")
    double = Double(lambda: said(answer()))
    assert audited(pool, double).states() == {"accepted": 2, "rejected": 1} and len(double.requests) == 2


def test_a_record_is_not_paid_for_twice(pool: Path, tmp_path: Path) -> None:
    record = tmp_path / "verdicts.jsonl"
    first = audited(pool, Double(lambda: said(answer(4))), record=record)
    silent = Double(lambda: httpx.Response(500))
    again = audited(pool, silent, record=record)
    assert (again.asked, again.resumed, silent.requests) == (0, 3, []) and again.tasks == first.tasks


@pytest.mark.parametrize("what", ["task", "judge", "prompt", "torn"])
def test_whatever_has_changed_is_asked_again(what: str, pool: Path, tmp_path: Path) -> None:
    record = tmp_path / "verdicts.jsonl"
    audited(pool, Double(lambda: said(answer())), record=record)
    rubric, model = RUBRIC, "other" if what == "judge" else "m"
    if what == "task":
        toml = sorted(pool.iterdir())[0] / "task.toml"
        toml.write_text(toml.read_text() + "\n")
    if what == "prompt":
        rubric = RUBRIC.model_copy(update={"version": 2})
    if what == "torn":
        record.write_text(record.read_text()[:-9])
    once = audited(pool, Double(lambda: said(answer())), record=record, model=model, rubric=rubric)
    assert once.asked == (3 if what in ("judge", "prompt") else 1)
    silent = Double(lambda: httpx.Response(500))
    again = audited(pool, silent, record=record, model=model, rubric=rubric)
    assert again.asked == 0 and again.resumed == 3 and not silent.requests, "a torn line spoils no later one"


def test_a_busy_judge_is_asked_again(pool: Path) -> None:
    busy = [lambda: httpx.Response(429), lambda: httpx.Response(503)]
    double = Double(*busy, lambda: said(answer()))
    assert audited(pool, double).states() == {"accepted": 3} and len(double.requests) == 5


def refused() -> httpx.Response:
    return httpx.Response(401, text=f"Incorrect key: {KEY}")


def unreachable() -> httpx.Response:
    raise httpx.ConnectError(f"no route with {KEY}")


@pytest.mark.parametrize(("reply", "requests"), [(refused, 3), (unreachable, 9), (lambda: httpx.Response(500), 9)])
def test_a_judge_that_is_away_leaves_tasks_unjudged_and_is_left_alone(
    reply: Callable[[], httpx.Response], requests: int, tmp_path: Path
) -> None:
    for task in generate_pool(6, 5):
        write_harbor(task, tmp_path / "pool")
    double = Double(reply)
    found = audited(tmp_path / "pool", double)
    assert found.states() == {"unjudged": 6} and len(double.requests) == requests, "three tasks were tried"
    assert KEY not in repr(found)


def test_the_key_is_kept_out_of_record_and_reasons(pool: Path, tmp_path: Path) -> None:
    leak = {"reason": f"your key is {KEY}", "quote": "def test_step_1"}
    found = audited(pool, Double(lambda: said(answer(test_leakage=leak))), record=tmp_path / "record")
    assert found.by_rejection() == {"test_leakage": 3}
    assert KEY not in repr(found) and KEY not in (tmp_path / "record").read_text()


BAD: dict[str, object] = {
    "prose": "I would give it a five.",
    "fenced": "```json\n{}\n```",
    "list": [answer()],
    "one key too many": {**answer(), "note": "x"},
    "no rejections": {"scores": answer()["scores"]},
    "a dimension less": {**answer(), "scores": {"clear": 5}},
    "a dimension more": {**answer(), "scores": {**answer()["scores"], "taste": 5}},
    "too high": answer(6),
    "a fraction": {**answer(), "scores": {**answer()["scores"], "clear": 4.5}},
    "true": {**answer(), "scores": {**answer()["scores"], "clear": True}},
    "text": {**answer(), "scores": {**answer()["scores"], "clear": "5"}},
    "bare rejection": {**answer(), "rejections": {**answer()["rejections"], "test_leakage": True}},
    "unknown rejection": {**answer(), "rejections": {**answer()["rejections"], "ugly": None}},
    "no quote": answer(test_leakage={"reason": "it leaks"}),
    "invented quote": answer(test_leakage={"reason": "it leaks", "quote": "COPY tests/ /secret"}),
    "empty quote": answer(test_leakage={"reason": "it leaks", "quote": "  "}),
}


@pytest.mark.parametrize("name", BAD)
def test_a_malformed_answer_is_refused_and_asked_for_again(name: str, pool: Path) -> None:
    bad = BAD[name]
    with pytest.raises(Malformed):
        verdict_of(bad if isinstance(bad, str) else json.dumps(bad), FILES)
    double = Double(lambda: said(bad))
    found = audited(pool, double)
    assert found.states() == {"unjudged": 3} and len(double.requests) == 6
    assert all("refused" in task.unjudged for task in found.tasks)
    assert audited(pool, Double(lambda: said(bad), lambda: said(answer()))).states() == {"accepted": 3}


@pytest.mark.parametrize("body", [b"", b"[]", b'{"choices": []}', b'{"choices": [{"message": {"content": null}}]}'])
def test_a_reply_that_is_no_completion_is_refused(body: bytes, pool: Path) -> None:
    assert audited(pool, Double(lambda: httpx.Response(200, content=body))).states() == {"unjudged": 3}


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.dictionaries(st.text(), v)))
def test_no_answer_breaks_the_reader(content: object) -> None:
    with pytest.raises(Malformed):
        verdict_of(json.dumps(content), FILES)


@given(st.fixed_dictionaries({name: st.integers(1, 5) for name in DIMENSIONS}), st.sets(st.sampled_from(REJECTIONS)))
def test_a_verdict_survives_the_record(scores: dict[str, int], held: set[str]) -> None:
    quote = {"reason": "so", "quote": "the  total"}
    rejections = {name: quote if name in held else None for name in REJECTIONS}
    verdict = verdict_of(json.dumps({"scores": scores, "rejections": rejections}), FILES)
    assert set(verdict.rejections) == held and verdict.scores == scores
    assert from_store(json.loads(json.dumps(stored(verdict)))) == verdict
    assert isinstance(verdict, Verdict) and all(0 <= verdict.part(name) <= 1 for name in DIMENSIONS)


def test_a_prompt_holds_the_task_as_data_and_stays_short() -> None:
    long = replace(FILES, environment={"big": "x" * 100_000, "more": "y" * 100_000})
    system, user = messages_for(long, (), RUBRIC)
    content = json.loads(user["content"])
    assert content["instruction"] == FILES.instruction and len(user["content"]) < 62_000
    assert content["environment"]["big"].endswith("more characters]")
    assert all(dimension.asks in system["content"] for dimension in RUBRIC.dimensions.values())


@pytest.mark.parametrize(
    "url", ["judge", "ftp://judge/v1", "http://", "http://me:secret@judge/v1", "http://j/v1?key=s"]
)
def test_urls_that_cannot_be_a_judge(url: str) -> None:
    with pytest.raises(BadInput):
        endpoint_of(url)
