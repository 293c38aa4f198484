"""The single requirements that generated tasks are made of: a sentence, a command, its checks and its files."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from t1cli.terminal.tasks.words import WORDS, draw_name


@dataclass(frozen=True)
class Check:
    """One pytest test: a function name's stem and the expressions it asserts, in order."""

    name: str
    asserts: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One requirement, the one canonical way to meet it, and how it is checked."""

    sentence: str
    command: str
    checks: tuple[Check, ...]
    setup_files: dict[str, str] = field(default_factory=dict)


@dataclass
class Draw:
    """The random choices of one task; every name is handed out once."""

    rng: random.Random
    used: set[str]
    names: list[str] = field(default_factory=list)

    def name(self) -> str:
        name = draw_name(self.rng, self.used)
        self.used.add(name)
        self.names.append(name)
        return name

    def file(self) -> str:
        return f"{self.name()}.txt"

    def text(self) -> str:
        return " ".join(self.rng.sample(WORDS, self.rng.randint(1, 2)))

    def lines(self, count: int) -> list[str]:
        """Different one-word lines with a number, in no order."""
        return [f"{word} {self.rng.randint(1, 9)}" for word in self.rng.sample(WORDS, count)]

    def sentence(self, patterns: tuple[str, ...], **values: object) -> str:
        return self.rng.choice(patterns).format(**values)


PATTERNS: dict[str, tuple[str, ...]] = {
    "write": ("Write the line {text} to {file}.", "Create {file} with the line {text}."),
    "mkdir": ("Make the directory {name}.", "Create a directory called {name}."),
    "nested": ("Make the directory {name} with {inner} inside.", "Create the directories {name}/{inner}."),
    "copy": ("Copy {file} to {target}.", "Make a copy of {file} called {target}."),
    "move": ("Rename {file} to {target}.", "Move {file} to {target}."),
    "delete": ("Delete {file}.", "Remove the file {file}."),
    "append": ("Append the line {text} to {file}.", "Add the line {text} at the end of {file}."),
    "count": ("Count the lines of {file} into {target}.", "Write the number of lines of {file} to {target}."),
    "head": ("Put the first {n} lines of {file} into {target}.",),
    "tail": ("Put the last {n} lines of {file} into {target}.",),
    "grep": ("Put the lines of {file} with {word} into {target}.",),
    "sort": ("Put the sorted lines of {file} into {target}.",),
    "mode": ("Set the mode of {file} to {mode}.", "Change the permissions of {file} to {mode}."),
    "replace": ("Replace {word} by {other} in {file}.", "Change every {word} in {file} to {other}."),
}
"""The fixed sentences by step kind; a tokenizer that knows their words covers every instruction."""

MODES = ("400", "440", "444", "600", "640", "700", "750", "755")


def make_step(kind: str, draw: Draw) -> Step:
    """A step of this kind with freshly drawn names."""
    return _MAKERS[kind](draw)


def _content(path: str, content: str, name: str) -> Check:
    return Check(name, (f"text({path!r}) == {content!r}",))


def _write(draw: Draw) -> Step:
    return _write_to(draw, draw.file())


def _write_to(draw: Draw, file: str) -> Step:
    text = draw.text()
    sentence = draw.sentence(PATTERNS["write"], text=text, file=file)
    return Step(sentence, f"echo {text} > {file}", (_content(file, f"{text}\n", "written"),))


def _mkdir(draw: Draw) -> Step:
    name = draw.name()
    check = Check("directory", (f"is_directory({name!r})",))
    return Step(draw.sentence(PATTERNS["mkdir"], name=name), f"mkdir {name}", (check,))


def _nested(draw: Draw) -> Step:
    name, inner = draw.name(), draw.rng.choice(WORDS)
    checks = (
        Check("outer_directory", (f"is_directory({name!r})",)),
        Check("inner_directory", (f"is_directory({f'{name}/{inner}'!r})",)),
    )
    sentence = draw.sentence(PATTERNS["nested"], name=name, inner=inner)
    return Step(sentence, f"mkdir -p {name}/{inner}", checks)


def _copy(draw: Draw) -> Step:
    file, target, content = draw.file(), draw.file(), f"{draw.text()}\n"
    check = Check("copied", (f"text({target!r}) == {content!r}", f"text({file!r}) == {content!r}"))
    sentence = draw.sentence(PATTERNS["copy"], file=file, target=target)
    return Step(sentence, f"cp {file} {target}", (check,), {file: content})


def _move(draw: Draw) -> Step:
    file, target, content = draw.file(), draw.file(), f"{draw.text()}\n"
    checks = (_content(target, content, "moved"), Check("source_gone", (f"is_absent({file!r})",)))
    sentence = draw.sentence(PATTERNS["move"], file=file, target=target)
    return Step(sentence, f"mv {file} {target}", checks, {file: content})


def _delete(draw: Draw) -> Step:
    file = draw.file()
    sentence, content = draw.sentence(PATTERNS["delete"], file=file), f"{draw.text()}\n"
    # A file beside it must stay, or deleting everything would be a solution.
    beside = file.replace(".txt", ".csv")
    check = Check("deleted", (f"is_absent({file!r})", f"text({beside!r}) == {content!r}"))
    return Step(sentence, f"rm {file}", (check,), {file: content, beside: content})


def _append(draw: Draw) -> Step:
    file, text, before = draw.file(), draw.text(), "\n".join(draw.lines(draw.rng.randint(1, 3))) + "\n"
    check = _content(file, f"{before}{text}\n", "appended")
    sentence = draw.sentence(PATTERNS["append"], file=file, text=text)
    return Step(sentence, f"echo {text} >> {file}", (check,), {file: before})


def _count(draw: Draw) -> Step:
    file, target, lines = draw.file(), draw.file(), draw.lines(draw.rng.randint(2, 9))
    check = Check("counted", (f"text({target!r}).split()[:1] == [{str(len(lines))!r}]",))
    sentence = draw.sentence(PATTERNS["count"], file=file, target=target)
    return Step(sentence, f"wc -l < {file} > {target}", (check,), {file: _joined(lines)})


def _head(draw: Draw) -> Step:
    return _cut(draw, "head")


def _tail(draw: Draw) -> Step:
    return _cut(draw, "tail")


def _cut(draw: Draw, kind: str) -> Step:
    file, target, n = draw.file(), draw.file(), draw.rng.randint(2, 4)
    lines = draw.lines(draw.rng.randint(n + 1, 9))
    kept = lines[:n] if kind == "head" else lines[-n:]
    sentence = draw.sentence(PATTERNS[kind], file=file, target=target, n=n)
    check = _content(target, _joined(kept), "selected")
    return Step(sentence, f"{kind} -n {n} {file} > {target}", (check,), {file: _joined(lines)})


def _grep(draw: Draw) -> Step:
    file, target = draw.file(), draw.file()
    words = draw.rng.sample(WORDS, 3)
    lines = [f"{draw.rng.choice(words)} {n}" for n in range(1, draw.rng.randint(5, 9))]
    word = lines[0].split()[0]
    sentence = draw.sentence(PATTERNS["grep"], file=file, target=target, word=word)
    check = _content(target, _joined([line for line in lines if word in line]), "matched")
    return Step(sentence, f"grep {word} {file} > {target}", (check,), {file: _joined(lines)})


def _sort(draw: Draw) -> Step:
    file, target, lines = draw.file(), draw.file(), draw.rng.sample(WORDS, draw.rng.randint(4, 7))
    sentence = draw.sentence(PATTERNS["sort"], file=file, target=target)
    check = _content(target, _joined(sorted(lines)), "sorted")
    return Step(sentence, f"sort {file} > {target}", (check,), {file: _joined(lines)})


def _mode(draw: Draw) -> Step:
    file, mode = draw.file(), draw.rng.choice(MODES)
    sentence = draw.sentence(PATTERNS["mode"], file=file, mode=mode)
    check = Check("mode", (f"mode({file!r}) == {mode!r}",))
    return Step(sentence, f"chmod {mode} {file}", (check,), {file: f"{draw.text()}\n"})


def _replace(draw: Draw) -> Step:
    file = draw.file()
    word, other, *rest = draw.rng.sample(WORDS, 4)
    lines = [f"{rest[0]} {draw.rng.randint(1, 9)}", f"{word} {draw.rng.randint(1, 9)}", f"{rest[1]} {word}"]
    after = [line.replace(word, other) for line in lines]
    checks = (
        Check("old_word_gone", (f"text({file!r}).strip()", f"{word!r} not in text({file!r})")),
        _content(file, _joined(after), "replaced"),
    )
    sentence = draw.sentence(PATTERNS["replace"], file=file, word=word, other=other)
    return Step(sentence, f"sed -i s/{word}/{other}/g {file}", checks, {file: _joined(lines)})


def make_directory_and_file(draw: Draw) -> tuple[Step, Step]:
    """Two steps of which the second needs the first: a directory, then a file in it."""
    first = _mkdir(draw)
    return first, _write_to(draw, f"{draw.names[-1]}/{draw.rng.choice(WORDS)}.txt")


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


_MAKERS: dict[str, Callable[[Draw], Step]] = {
    "write": _write,
    "mkdir": _mkdir,
    "nested": _nested,
    "copy": _copy,
    "move": _move,
    "delete": _delete,
    "append": _append,
    "count": _count,
    "head": _head,
    "tail": _tail,
    "grep": _grep,
    "sort": _sort,
    "mode": _mode,
    "replace": _replace,
}
