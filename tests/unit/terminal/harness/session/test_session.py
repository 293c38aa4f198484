"""What is not linear, not allowed or not finished: branches, rewrites, limits, refusals, cancellations, failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from t1cli.terminal.harness.engine import EngineError
from t1cli.terminal.harness.session.session import Session
from t1cli.terminal.trajectory.routing import MissingRouting

ASK = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
USER = {"role": "user", "content": "more"}
Play = Callable[[Any], Awaitable[Any]]


@pytest.fixture
def played(chat: SimpleNamespace, benches: SimpleNamespace) -> Callable[..., Any]:
    """Run a coroutine on a bench; what it returned and the bench."""

    def run(play: Play, script: tuple[Any, ...] = ("one", "two", "three", "four"), **more: Any) -> tuple[Any, Any]:
        name = more.pop("name", "qwen3")
        renderer = more.pop("renderer", None) or chat.renderer_for(name)

        async def inside() -> tuple[Any, Any]:
            async with benches.bench_of(renderer, script, **more) as bench:
                return await play(bench), bench

        return asyncio.run(inside())

    return run


def rows_of(bench: Any, benches: SimpleNamespace) -> Any:
    """The rows, whose sampled tokens are all the engine's."""
    rows = bench.assembler.rows(benches.LABEL)
    assert sum(row.audit.trained_tokens for row in rows) == bench.session.report.sampled_tokens
    assert all(row.audit.drifted_in_loss == 0 for row in rows)
    return rows


def test_a_sub_agent_and_a_return_to_an_earlier_reply_are_branches(played: Any, benches: SimpleNamespace) -> None:
    async def play(bench: Any) -> None:
        main = [*ASK]
        await bench.chat(main)
        first = [*main, USER]
        await bench.chat(first)
        await bench.chat([{"role": "system", "content": "another agent"}, {"role": "user", "content": "x"}])
        await bench.chat([*main, {"role": "user", "content": "other"}])

    _, bench = played(play)
    report = bench.session.report
    assert report.ways == {"opened": 1, "appended": 2, "rendered": 1} and report.branches == 1
    assert report.departures == ["turn 2: a chat of 2 messages that begins unlike any before"]
    rows = rows_of(bench, benches)
    assert len(rows) == 3 and bench.model.prompts[3][: len(bench.model.prompts[0])] == bench.model.prompts[0]


@pytest.mark.parametrize(
    ("change", "departs"),
    [
        ({"content": "ONE"}, True),
        ({"content": "one."}, True),
        ({"content": " one \n"}, False),
        ({"content": "<think>\nwhat it thought\n</think>\n\none"}, False),
        ({"content": [{"type": "text", "text": "one"}]}, False),
        ({"reasoning_content": "anything"}, False),
        ({"tool_calls": [{"id": "x", "function": {"name": "f", "arguments": "{}"}}]}, True),
    ],
)
def test_a_rewritten_reply_is_never_taken_for_the_sampled_one(
    played: Any, benches: SimpleNamespace, change: dict[str, Any], departs: bool
) -> None:
    async def play(bench: Any) -> None:
        messages = [*ASK]
        await bench.chat(messages)
        messages[-1] |= change
        await bench.chat([*messages, USER])

    _, bench = played(play)
    report = bench.session.report
    assert report.ways == {"opened": 1, "rendered" if departs else "appended": 1}
    expected = "turn 1: message 2, an assistant's, is not what was sampled after the 0 messages before it"
    assert report.departures == ([expected] if departs else [])
    assert len(rows_of(bench, benches)) == 1 + departs


def test_a_later_reply_that_was_rewritten_is_not_appended_as_if_it_were_new(
    played: Any, benches: SimpleNamespace
) -> None:
    async def play(bench: Any) -> None:
        messages = [*ASK]
        await bench.chat(messages)
        messages.append(USER)
        await bench.chat(messages)
        messages[-1]["content"] = "TWO"
        await bench.chat([*messages, USER])

    _, bench = played(play)
    report = bench.session.report
    assert report.ways == {"opened": 1, "appended": 1, "rendered": 1}
    assert report.departures == [
        "turn 2: message 4, an assistant's, is not what was sampled after the 3 messages before it"
    ]
    assert [row.audit.turns for row in rows_of(bench, benches)] == [2, 1]


def test_call_ids_may_change_and_arguments_may_not(played: Any) -> None:
    call = '<tool_call>\n{"name": "f", "arguments": {"a": 1, "b": [2]}}\n</tool_call>'
    tool = {"type": "function", "function": {"name": "f"}}

    async def play(bench: Any) -> None:
        for arguments in ('{"b":[2],  "a":1}', '{"b":[2],  "a":2}'):
            messages = [*ASK]
            await bench.chat(messages, tools=[tool])
            messages[-1]["tool_calls"][0] |= {"id": "mine", "function": {"name": "f", "arguments": arguments}}
            await bench.chat([*messages, {"role": "tool", "tool_call_id": "mine", "content": "x"}], tools=[tool])

    _, bench = played(play, (call, "done", call, "done"))
    assert bench.session.report.ways == {"opened": 1, "appended": 1, "rendered": 2}
    assert bench.session.report.ties == 0


def test_of_replies_that_say_the_same_the_latest_is_taken_and_counted(played: Any) -> None:
    async def play(bench: Any) -> None:
        for _ in range(2):
            await bench.chat([*ASK])
        await bench.chat([*ASK, {"role": "assistant", "content": "same"}, USER])

    _, bench = played(play, (("same", 0), ("same", 1), "end"))
    assert bench.session.report.ties == 1
    assert bench.model.renderer.stop_ids[1] in bench.model.prompts[2]


def test_a_cut_reply_goes_on_after_the_end_that_it_lacks(played: Any, benches: SimpleNamespace) -> None:
    async def play(bench: Any) -> Any:
        messages = [*ASK]
        answer = await bench.chat(messages)
        await bench.chat([*messages, USER])
        return answer["choices"][0]["finish_reason"]

    reason, bench = played(play, (("one", None), "two"))
    assert reason == "length" and bench.session.report.ways["appended"] == 1
    assert len(rows_of(bench, benches)) == 1


@pytest.mark.parametrize("with_text", [False, True])
def test_an_unknown_family_is_rendered_as_a_whole_and_joined_by_what_it_says(
    chat: SimpleNamespace, played: Any, benches: SimpleNamespace, with_text: bool
) -> None:
    tokenizer = chat.CheckpointTokenizer(chat.small_tokenizer())
    template = chat.template_of("plain", thinking=False)
    stop = (tokenizer.controls["<|im_end|>"],)
    renderer = chat.renderer_of(tokenizer, template, family="llama3", stop_ids=stop)

    async def play(bench: Any) -> None:
        messages = [*ASK]
        for _ in range(2):
            await bench.chat(messages)
            messages.append(USER)

    _, bench = played(play, ("the file", "end"), renderer=renderer, text=tokenizer.text if with_text else None)
    report = bench.session.report
    assert report.ways == {"opened": 1, "rendered": 1} and report.departures == []
    assert report.encoded_tokens == report.prompt_tokens == sum(map(len, bench.model.prompts))
    rows = rows_of(bench, benches)
    # The copy has other ids than the reply; what both say is known only with a text space.
    assert [row.audit.turns for row in rows] == ([2] if with_text else [1, 1])
    assert rows[0].audit.count("strict") == 1 and rows[0].audit.masked == {}


REFUSED = [
    ("{", 400, "invalid_json", None),
    ("[]", 400, "invalid_json", None),
    (b"\xff", 400, "invalid_json", None),
    ("x" * 200_001, 413, "body_too_large", None),
    ({}, 400, "invalid_value", "messages"),
    ({"messages": []}, 400, "invalid_value", "messages"),
    ({"messages": [3]}, 400, "invalid_value", "messages[0]"),
    ({"messages": [{"role": "wizard"}]}, 400, "invalid_value", "messages[0].role"),
    ({"messages": [{"role": "user", "content": 3}]}, 400, "invalid_value", "messages[0].content"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        400,
        "invalid_value",
        "messages[0].content[0]",
    ),
    ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, 400, "invalid_value", "messages[0].tool_calls[0]"),
    ({"messages": [*ASK, {"role": "assistant", "content": "x"}]}, 400, "invalid_value", "messages"),
    ('{"messages": [{"role": "user", "content": "\\ud800"}]}', 400, "invalid_value", "messages"),
    ({"messages": ASK, "stop": "x"}, 400, "invalid_value", "stop"),
    ({"messages": ASK, "n": 2}, 400, "invalid_value", "n"),
    ({"messages": ASK, "tool_choice": "required"}, 400, "invalid_value", "tool_choice"),
    ({"messages": ASK, "response_format": {"type": "json_object"}}, 400, "invalid_value", "response_format"),
    ({"messages": ASK, "max_tokens": 0}, 400, "invalid_value", "max_tokens"),
    ({"messages": ASK, "max_completion_tokens": True}, 400, "invalid_value", "max_completion_tokens"),
    ({"messages": ASK, "tools": [{"type": "function"}]}, 400, "invalid_value", "tools[0]"),
]


@pytest.mark.parametrize(("body", "status", "code", "param"), REFUSED, ids=lambda value: str(value)[:40])
def test_refusals_have_openais_shape(played: Any, body: Any, status: int, code: str, param: str | None) -> None:
    answer, bench = played(lambda bench: bench.post(body))
    assert answer.status_code == status
    error = answer.json()["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", code, param)
    assert error["message"] and bench.model.prompts == []


def test_what_a_template_refuses_is_a_bad_request(played: Any) -> None:
    late = [*ASK, {"role": "system", "content": "late"}]
    answer, _ = played(lambda bench: bench.post({"messages": late}), name="qwen3_5")
    assert answer.status_code == 400 and "a system message stands first" in answer.json()["error"]["message"]


def test_budgets_are_the_trials_own(played: Any, benches: SimpleNamespace) -> None:
    async def play(bench: Any) -> list[Any]:
        answers = [await bench.post({"messages": ASK, "max_tokens": wanted}) for wanted in (7, 9999)]
        return [*answers, await bench.post({"messages": ASK})]

    answers, bench = played(play, limits=benches.replace(benches.LIMITS, max_turns=2))
    assert [answer.status_code for answer in answers] == [200, 200, 400]
    assert answers[2].json()["error"]["code"] == "turn_limit_exceeded"
    assert [sampling.max_new_tokens for sampling in bench.model.samplings] == [7, 500]
    assert len({sampling.seed for sampling in bench.model.samplings}) == 2

    full, bench = played(
        lambda bench: bench.post({"messages": ASK}), limits=benches.replace(benches.LIMITS, context_tokens=520)
    )
    error = full.json()["error"]
    assert full.status_code == 400 and error["code"] == "context_length_exceeded" and bench.model.prompts == []


def test_the_policy_is_sampled_as_the_campaign_says(played: Any) -> None:
    async def play(bench: Any) -> None:
        await bench.chat([*ASK], temperature=0, top_p=0.1, seed=3)

    _, bench = played(play)
    sampling = bench.model.samplings[0]
    assert (sampling.temperature, sampling.top_p) == (1.0, 1.0)
    assert bench.session.report.overridden == {"temperature": 1, "top_p": 1, "seed": 1}


def test_keys_open_one_session_only(played: Any) -> None:
    async def play(bench: Any) -> list[Any]:
        tried = ["", "x", bench.key[:-1], bench.key + "x", bench.key.swapcase()]
        answers = [await bench.post({"messages": ASK}, key=key) for key in tried]
        by_header = {"authorization": f"Bearer {bench.key}"}
        models = await bench.http.get("/v1/models", headers=by_header)
        strange = await bench.http.get("/v1/files", headers=by_header)
        bench.app.remove(bench.key)
        return [*answers, await bench.post({"messages": ASK}), models, strange]

    (*refused, models, strange), bench = played(play)
    assert {(answer.status_code, answer.text) for answer in refused} == {(404, refused[0].text)}
    assert refused[0].json()["error"]["code"] == "no_such_session" and len(bench.key) >= 43
    assert models.json()["data"][0]["id"] == "policy" and strange.json()["error"]["code"] == "no_such_route"


def test_a_client_that_leaves_aborts_its_request(played: Any) -> None:
    async def play(bench: Any) -> None:
        entered, gone = asyncio.Event(), asyncio.Event()

        async def hang() -> None:
            entered.set()
            await asyncio.Event().wait()

        bench.model.before = hang
        messages = iter([{"type": "http.request", "body": json.dumps({"messages": ASK}).encode()}])

        async def receive() -> dict[str, Any]:
            if (first := next(messages, None)) is not None:
                return first
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            raise AssertionError("nobody reads an answer")

        path = f"/sessions/{bench.key}/v1/chat/completions"
        scope = {"type": "http", "method": "POST", "path": path, "headers": []}
        request = asyncio.create_task(bench.app(scope, receive, send))
        await entered.wait()
        gone.set()
        await request

    _, bench = played(play)
    assert bench.session.report.lost_tokens == 3 and bench.session.report.turns == 0


def test_ending_a_session_aborts_what_still_runs_in_it(played: Any) -> None:
    async def play(bench: Any) -> list[Any]:
        entered = asyncio.Event()

        async def hang() -> None:
            entered.set()
            await asyncio.Event().wait()

        bench.model.before = hang
        request = asyncio.create_task(bench.post({"messages": ASK}))
        await entered.wait()
        await bench.session.close()
        return [await request, await bench.post({"messages": ASK})]

    answers, bench = played(play)
    assert [(a.status_code, a.json()["error"]["code"]) for a in answers] == 2 * [(404, "no_such_session")]
    assert bench.session.report.lost_tokens == 3


def test_engine_failures_are_errors_of_the_server_and_stay_on_record(played: Any) -> None:
    failed, bench = played(
        lambda bench: bench.post({"messages": ASK}), error=EngineError("engine_timeout", "no reply within 5 s")
    )
    assert (failed.status_code, failed.json()["error"]["code"]) == (502, "engine_timeout")
    assert failed.json()["error"]["type"] == "server_error"
    assert bench.session.report.engine_errors == ["engine_timeout: no reply within 5 s"]

    aborted, bench = played(lambda bench: bench.post({"messages": ASK}), finish_reason="abort")
    assert aborted.json()["error"]["code"] == "engine_aborted" and bench.session.report.lost_tokens == len("one") + 1
    assert bench.assembler.turns == 0


def test_a_reply_that_the_engine_failed_to_give_takes_no_turn_of_the_budget(
    played: Any, benches: SimpleNamespace
) -> None:
    async def play(bench: Any) -> list[Any]:
        bench.model.error = EngineError("engine_timeout")
        failed = await bench.post({"messages": ASK})
        assert isinstance(bench.session.report.problem, EngineError)
        bench.model.error = None
        again = await bench.post({"messages": ASK})
        assert bench.session.report.problem is None
        return [failed, again, await bench.post({"messages": ASK})]

    answers, bench = played(play, limits=benches.replace(benches.LIMITS, max_turns=1))
    assert [answer.status_code for answer in answers] == [502, 200, 400]
    assert bench.session.report.problem.code == "turn_limit_exceeded"


def test_missing_routing_aborts_the_rollout(played: Any) -> None:
    async def play(bench: Any) -> Any:
        def refuse(turn: Any) -> None:
            raise MissingRouting("no routed experts")

        bench.session._on_turn = refuse
        answer = await bench.post({"messages": ASK})
        with pytest.raises(MissingRouting):
            await bench.session.close()
        return answer

    answer, _ = played(play)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "rollout_aborted")


def test_a_request_nested_beyond_reason_is_the_harnesss_mistake(played: Any, monkeypatch: Any, caplog: Any) -> None:
    def deep(*_: Any) -> Any:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr(Session, "complete", deep)
    answer, _ = played(lambda bench: bench.post({"messages": ASK}))
    assert answer.status_code == 400 and "nested" in answer.json()["error"]["message"] and not caplog.records


def test_a_bug_of_ours_reaches_the_harness_as_one_sentence(played: Any, caplog: Any) -> None:
    answer, _ = played(lambda bench: bench.post({"messages": ASK}), script=())
    assert answer.status_code == 500 and answer.json()["error"]["code"] == "internal_error"
    assert "StopIteration" not in answer.text and "a chat request failed" in caplog.text


def test_a_stream_says_what_the_whole_answer_says(chat: SimpleNamespace, played: Any) -> None:
    call = '<think>\nhm\n</think>\n\nWords.\n<tool_call>\n{"name": "f", "arguments": {"a": "é"}}\n</tool_call>'
    tool = {"type": "function", "function": {"name": "f"}}
    more = {"messages": ASK, "tools": [tool], "return_token_ids": True, "logprobs": True}

    async def play(bench: Any) -> tuple[Any, Any]:
        whole = await bench.post(more)
        return whole, await bench.post({**more, "stream": True, "stream_options": {"include_usage": True}})

    renderer = chat.renderer_for("qwen3", thinking=True)
    (whole, stream), bench = played(play, (call, call), renderer=renderer)
    assert stream.headers["content-type"] == "text/event-stream"
    lines = [line.removeprefix("data: ") for line in stream.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    choice, told = whole.json()["choices"][0], whole.json()
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == choice["message"]["content"] == "Words."
    calls = [{**item, "id": "x"} for delta in deltas for item in delta.get("tool_calls", [])]
    assert calls == [{**item, "index": 0, "id": "x"} for item in choice["message"]["tool_calls"]]
    assert chunks[-2]["choices"][0]["finish_reason"] == choice["finish_reason"] == "tool_calls"
    assert chunks[-1]["usage"] == told["usage"]
    assert told["prompt_token_ids"] == list(bench.model.prompts[0])
    assert chunks[-2]["choices"][0]["token_ids"] == choice["token_ids"]
    assert len(choice["logprobs"]["content"]) == len(choice["token_ids"]) == told["usage"]["completion_tokens"]
