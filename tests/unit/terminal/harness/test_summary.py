"""Context compaction: exact ids in every family, each outcome counted, and no request beyond the wall."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from t1cli.embedded.template import TinyChatTemplate
from t1cli.spec.rollout import RolloutSpec, SummarySpec
from t1cli.terminal.harness.builtin import BuiltinAgent
from t1cli.terminal.harness.chat.command_template import CommandTemplate
from t1cli.terminal.harness.chat.message import Message
from t1cli.terminal.harness.engine import EngineError, Generation, Sampling
from t1cli.terminal.harness.limits import SummaryLimits, training_limits
from t1cli.terminal.harness.summary import AFTER_FALLBACK, AFTER_SUMMARY, FALLBACK_CHARACTERS, REQUEST, SummaryCounts
from t1cli.terminal.rollout.outcome import StopReason
from t1cli.terminal.trajectory.assemble import Assembler, RowLabel
from t1cli.terminal.trajectory.row import TrainingRow

LABEL = RowLabel(trial_id="trial", group_id=3, task="task", family="files", reward=1.0)
CALLS = {
    "qwen3": '<tool_call>\n{{"name": "shell", "arguments": {{"command": "{0}"}}}}\n</tool_call>',
    "qwen3_5": "<tool_call>\n<function=shell>\n<parameter=command>\n{0}\n</parameter>\n</function>\n</tool_call>",
    "glm_4_5": "<tool_call>shell\n<arg_key>command</arg_key>\n<arg_value>{0}</arg_value>\n</tool_call>",
    "glm_4_7": "<tool_call>shell<arg_key>command</arg_key><arg_value>{0}</arg_value></tool_call>",
}
Answer = str | Exception


@dataclass
class Writer:
    """Writes commands until it has none left, and an answer of a list to each request for a summary."""

    encode: Callable[[str], tuple[int, ...]]
    """A reply's text as ids, its stop id included."""
    commands: list[str]
    summaries: Iterator[Answer]
    prompts: list[tuple[int, ...]] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)
    rids: list[str] = field(default_factory=list)
    sampled: int = 0

    async def generate(self, prompt_ids: tuple[int, ...], *, rid: str, sampling: Sampling) -> Generation:
        self.prompts.append(prompt_ids)
        self.limits.append(sampling.max_new_tokens)
        self.rids.append(rid)
        await asyncio.sleep(0)
        answer: Answer = next(self.summaries) if "-s" in rid else self.commands.pop(0) if self.commands else ""
        if isinstance(answer, Exception):
            raise answer
        ids = self.encode(answer)
        cut = len(ids) > sampling.max_new_tokens
        ids = ids[: sampling.max_new_tokens]
        self.sampled += len(ids)
        return Generation(ids, tuple([-0.5] * len(ids)), None, "length" if cut else "stop", 1)

    def take_lost(self, rid: str) -> int:
        return 0


def agent_of(
    doubles: SimpleNamespace, writer: Writer, template: object, **limits: object
) -> tuple[BuiltinAgent, Assembler]:
    assembler = Assembler(trial_id="trial", routing="kept")
    agent = BuiltinAgent(
        engine=writer,
        sandbox=doubles.MemorySandbox("box", doubles.MemoryProvider()),
        template=template,
        limits=doubles.replace(doubles.LIMITS, **{"max_turns": 40, "max_new_tokens_per_turn": 400, **limits}),
        trial_id="trial",
        seed=5,
        on_turn=assembler.add,
    )
    return agent, assembler


def run(agent: BuiltinAgent, seconds: float = 600.0) -> StopReason:
    async def play() -> StopReason:
        return await agent.run("Do the task.", deadline=asyncio.get_running_loop().time() + seconds)

    return asyncio.run(play())


def in_bytes(doubles: SimpleNamespace, commands: list[str], *summaries: Answer) -> Writer:
    return Writer(lambda text: (*text.encode(), doubles.END), commands, iter(summaries))


def talk_of(name: str, doubles: SimpleNamespace, chat: SimpleNamespace) -> tuple[object, Callable[..., object], str]:
    """A family's template, how its replies are encoded, and how it writes a command."""
    if name == "t1-tiny":
        tiny = TinyChatTemplate()
        return tiny, tiny.render_reply, "{0}"
    template = CommandTemplate(chat.renderer_for(name))
    encode = template.renderer.tokenizer.encode
    return template, lambda text: (*encode(text), template.stop_ids[0]), CALLS[name]


def check_exact(rows: tuple[TrainingRow, ...], sampled: int) -> None:
    """Every sampled token trains once, where it was sampled; within a row nothing but strict continuations."""
    assert sum(row.audit.trained_tokens for row in rows) == sum(int(row.loss_mask.sum()) for row in rows) == sampled
    assert sum(row.audit.drifted_in_loss for row in rows) == 0
    assert [row.audit.count("split") for row in rows] == [0] + [1] * (len(rows) - 1)
    assert all(row.audit.strict == row.audit.turns - row.audit.count("split") for row in rows)


@pytest.mark.catalogue("R9")
@pytest.mark.parametrize("name", ["t1-tiny", *CALLS])
def test_each_history_is_a_row_that_ends_with_its_summary(
    name: str, doubles: SimpleNamespace, chat: SimpleNamespace
) -> None:
    template, encode, call = talk_of(name, doubles, chat)
    steps = [f"echo step {number}" for number in range(14)]
    told = [f"Summary {number}: some steps are done." for number in range(14)]
    writer = Writer(encode, [call.format(step) for step in steps], iter(told))
    began = len(template.begin("Do the task.").prompt_ids)
    limits = SummaryLimits(trigger_tokens=began + 200, max_new_tokens=300)
    agent, assembler = agent_of(doubles, writer, template, context_tokens=100_000, summary=limits)
    assert run(agent) is StopReason.DONE
    asked = [place for place, note in enumerate(agent.notes) if note.kind == "summary"]
    assert agent.summaries == SummaryCounts(full=len(asked)) and len(asked) > 1
    rows = assembler.rows(LABEL)
    assert len(rows) == len(asked) + 1 and {row.group_id for row in rows} == {3}
    check_exact(rows, writer.sampled)
    for row, place, text in zip(rows, asked, told, strict=False):
        ids = encode(text)
        assert row.audit.records[-1].turn == place
        assert tuple(row.tokens[-len(ids) :]) == ids and row.loss_mask[-len(ids) :].all()
        assert np.count_nonzero(row.log_probs[-len(ids) :]) == len(ids)
        assert writer.prompts[place + 1] == template.begin(f"Do the task.\n\n{AFTER_SUMMARY}\n{text}").prompt_ids
    assert agent._sandbox.commands == steps, "the work goes on"


@pytest.mark.parametrize("name", CALLS)
def test_the_request_is_a_user_message_after_the_observation(
    name: str, doubles: SimpleNamespace, chat: SimpleNamespace
) -> None:
    template, encode, call = talk_of(name, doubles, chat)
    conversation = template.begin("Do the task.")
    before, sampled = conversation.prompt_ids, encode(call.format("ls"))
    conversation.observe(sampled, "3 files")
    prompt, asking = conversation.prompt_ids, conversation.asking(REQUEST)
    heard = (Message("tool", "3 files", name="shell"), Message("user", REQUEST))
    assert asking == (*before, *sampled, *template.renderer.after(sampled, heard))
    assert conversation.prompt_ids == prompt, "asking leaves the chat as it is"


def test_the_tiny_chat_asks_in_a_second_observation() -> None:
    tiny = TinyChatTemplate()
    conversation, sampled = tiny.begin("Do the task."), tiny.render_reply("ls")
    before = conversation.prompt_ids
    conversation.observe(sampled, "3 files")
    observation, request = (tiny.render_observation(text) for text in ("3 files", REQUEST))
    assert conversation.asking(REQUEST) == (*before, *sampled, *observation[:-1], *request)


def test_a_chat_rendered_as_a_whole_asks_within_the_last_message(chat: SimpleNamespace) -> None:
    tokenizer = chat.CheckpointTokenizer(chat.small_tokenizer())
    source = chat.template_of("plain", thinking=False)
    template = CommandTemplate(chat.renderer_of(tokenizer, source, family="llama3", stop_ids=(3,)))
    conversation = template.begin("Do the task.")
    conversation.observe((*tokenizer.encode("```bash\nls\n```"), 3), "3 files")
    told = tokenizer.decode(conversation.asking(REQUEST))
    assert f"3 files\n\n{REQUEST}" in told and told.count("3 files") == 1


@pytest.mark.parametrize("name", ["qwen3", "glm_4_5"])
def test_a_summary_is_what_was_said_without_thoughts_and_calls(name: str, chat: SimpleNamespace) -> None:
    template, call = CommandTemplate(chat.renderer_for(name, thinking=True)), CALLS[name]
    assert template.words(f"<think>\nhm\n</think>\n\nAll done.{call.format('ls')}").strip() == "All done."
    assert template.words(call.format("ls")).strip() == ""


WALL = 3000
LONG = "a" * 1500
"""More than a cut history keeps, so that the trigger is not passed again at once."""
TRIGGER = 1600
STARTED = len("Do the task.") + 2


def turn_tokens(command: str, observation_tokens: int = 400) -> int:
    """A command and its stop, an observation between two roles."""
    return len(command) + 1 + min(len(f"ran {command}"), observation_tokens) + 2


ASKING = len(REQUEST) + 1
"""What a request adds to a history that ends with an observation."""


@pytest.mark.catalogue("R9")
@pytest.mark.parametrize(
    ("wall", "answer", "counts", "limit"),
    [
        (WALL, "It is done.", SummaryCounts(full=1), 200),
        (WALL, "x" * 500, SummaryCounts(short=1), 200),
        ("150 left", "x" * 500, SummaryCounts(short=1), 150),
        ("150 left", "It is done.", SummaryCounts(full=1), 150),
        ("31 left", "never asked", SummaryCounts(fallback=1), None),
        ("none left", "never asked", SummaryCounts(fallback=1), None),
        (WALL, "", SummaryCounts(fallback=1), 200),
        (WALL, " \n", SummaryCounts(fallback=1), 200),
        (WALL, EngineError("engine_timeout"), SummaryCounts(fallback=1), 200),
    ],
)
def test_every_outcome_is_counted_and_the_trial_goes_on(
    wall: int | str, answer: Answer, counts: SummaryCounts, limit: int | None, doubles: SimpleNamespace
) -> None:
    commands = [LONG, "b" * 20]
    asking = STARTED + turn_tokens(LONG, observation_tokens=100) + ASKING
    left = {"150 left": 150, "31 left": 31, "none left": -100}
    context = wall if isinstance(wall, int) else asking + left[wall]
    writer = in_bytes(doubles, [*commands], answer)
    agent, assembler = agent_of(
        doubles,
        writer,
        doubles.ByteTemplate(),
        context_tokens=context,
        max_new_tokens_per_turn=1510,
        summary=SummaryLimits(TRIGGER, max_new_tokens=200),
    )
    run(agent)
    assert agent.summaries == counts and agent.summaries.tried == 1
    asked = [tokens for rid, tokens in zip(writer.rids, writer.limits, strict=True) if "-s" in rid]
    assert asked == ([] if limit is None else [limit])
    assert agent._sandbox.commands[0] == commands[0]
    check_exact(assembler.rows(LABEL), writer.sampled)
    if context == WALL:
        following = bytes(token for token in writer.prompts[2] if token < 256).decode()
        assert agent._sandbox.commands == commands, "the work goes on"
        assert following.startswith(f"Do the task.\n\n{AFTER_FALLBACK if counts.fallback else AFTER_SUMMARY}\n")


def test_an_aborted_summary_falls_back_and_its_tokens_are_lost_ones(doubles: SimpleNamespace) -> None:
    writer = in_bytes(doubles, [LONG, "b"], "half a summ")
    generate = writer.generate

    async def abort(ids: tuple[int, ...], *, rid: str, sampling: Sampling) -> Generation:
        found = await generate(ids, rid=rid, sampling=sampling)
        return doubles.replace(found, finish_reason="abort") if "-s" in rid else found

    writer.generate = abort
    limits = SummaryLimits(TRIGGER, max_new_tokens=200)
    agent, assembler = agent_of(doubles, writer, doubles.ByteTemplate(), max_new_tokens_per_turn=1510, summary=limits)
    assert run(agent) is StopReason.DONE
    assert agent.summaries == SummaryCounts(fallback=1)
    assert agent.lost_tokens == len("half a summ") + 1
    check_exact(assembler.rows(LABEL), writer.sampled - agent.lost_tokens)


def test_a_cut_history_keeps_the_last_characters_of_what_was_said(doubles: SimpleNamespace) -> None:
    commands = [f"echo {number} {'x' * 200}" for number in range(6)]
    writer = in_bytes(doubles, [*commands], EngineError("engine_timeout"))
    limits = SummaryLimits(trigger_tokens=STARTED + 5 * turn_tokens(commands[0]), max_new_tokens=200)
    agent, _ = agent_of(
        doubles, writer, doubles.ByteTemplate(), context_tokens=9000, observation_tokens=400, summary=limits
    )
    run(agent)
    everything = "\n".join(f"{command}\nran {command}" for command in commands[:5])
    cut = everything[-FALLBACK_CHARACTERS:]
    expected = doubles.ByteTemplate().begin(f"Do the task.\n\n{AFTER_FALLBACK}\n{cut}").prompt_ids
    assert len(cut) == FALLBACK_CHARACTERS and expected in writer.prompts


def test_a_command_in_place_of_a_summary_is_neither_run_nor_retold(
    doubles: SimpleNamespace, chat: SimpleNamespace
) -> None:
    template, encode, call = talk_of("qwen3", doubles, chat)
    writer = Writer(encode, [call.format(f"echo {'x' * 1500}")], iter([call.format("rm -r build")]))
    limits = SummaryLimits(trigger_tokens=len(template.begin("Do the task.").prompt_ids) + 1400, max_new_tokens=200)
    agent, assembler = agent_of(
        doubles, writer, template, context_tokens=9000, max_new_tokens_per_turn=2000, summary=limits
    )
    assert run(agent) is StopReason.DONE and agent.summaries == SummaryCounts(fallback=1)
    assert len(agent._sandbox.commands) == 1
    assert "rm -r build" not in template.renderer.tokenizer.decode(writer.prompts[-1])
    check_exact(assembler.rows(LABEL), writer.sampled)


@pytest.mark.catalogue("R9")
def test_no_request_ever_passes_the_wall(doubles: SimpleNamespace) -> None:
    outcomes = SummaryCounts()
    for wall in range(300, 1500, 37):
        writer = in_bytes(doubles, ["echo " + "x" * 40] * 12, *["s" * 90] * 12)
        limits = SummaryLimits(trigger_tokens=wall // 2, max_new_tokens=80)
        agent, assembler = agent_of(
            doubles,
            writer,
            doubles.ByteTemplate(),
            context_tokens=wall,
            max_new_tokens_per_turn=64,
            max_turns=15,
            summary=limits,
        )
        run(agent)
        assert all(len(prompt) + new <= wall for prompt, new in zip(writer.prompts, writer.limits, strict=True))
        assert len(set(writer.rids)) == len(writer.rids)
        check_exact(assembler.rows(LABEL), writer.sampled)
        found = agent.summaries
        outcomes = SummaryCounts(found.full, outcomes.short + found.short, outcomes.fallback + found.fallback)
    assert outcomes.short and outcomes.fallback, "both were seen"


def test_where_no_whole_reply_fits_a_summary_comes_before_the_trigger(doubles: SimpleNamespace) -> None:
    limits = SummaryLimits(trigger_tokens=950, max_new_tokens=50)
    writer = in_bytes(doubles, ["a" * 100, "b"], "It is done.")
    agent, _ = agent_of(
        doubles, writer, doubles.ByteTemplate(), context_tokens=960, max_new_tokens_per_turn=760, summary=limits
    )
    assert run(agent) is StopReason.DONE and agent.summaries == SummaryCounts(full=1)


def test_the_deadline_during_a_summary_ends_the_trial_and_counts_nothing(doubles: SimpleNamespace) -> None:
    writer = in_bytes(doubles, ["a" * 100])
    generate = writer.generate

    async def hang(ids: tuple[int, ...], *, rid: str, sampling: Sampling) -> Generation:
        if "-s" in rid:
            await asyncio.Event().wait()
        return await generate(ids, rid=rid, sampling=sampling)

    writer.generate, writer.take_lost = hang, lambda rid: 7 if "-s" in rid else 0
    limits = SummaryLimits(trigger_tokens=200, max_new_tokens=200)
    agent, _ = agent_of(doubles, writer, doubles.ByteTemplate(), summary=limits)
    assert run(agent, seconds=1.0) is StopReason.WALL
    assert agent.summaries == SummaryCounts() and agent.lost_tokens == 7


def test_the_last_turn_is_not_spent_on_a_summary(doubles: SimpleNamespace) -> None:
    writer = in_bytes(doubles, ["a" * 100] * 9, *["Done."] * 9)
    limits = SummaryLimits(trigger_tokens=200, max_new_tokens=200)
    agent, _ = agent_of(doubles, writer, doubles.ByteTemplate(), max_turns=4, summary=limits)
    assert run(agent) is StopReason.TURNS
    assert [note.kind for note in agent.notes] == ["command", "summary", "command", "command"]


def test_limits_have_a_summary_only_where_the_spec_asks_for_one() -> None:
    rollout = RolloutSpec(
        num_rollouts=1,
        batch_size=1,
        context_tokens=1000,
        max_new_tokens_per_turn=10,
        max_turns=3,
        trial_wall_seconds=60.0,
        summary=SummarySpec(kind="summarize", trigger_tokens=500, max_new_tokens=50),
    )
    assert training_limits(rollout).summary == SummaryLimits(500, 50)
    assert training_limits(rollout.model_copy(update={"summary": SummarySpec()})).summary is None
