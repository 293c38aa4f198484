"""The evaluator against bash itself, and against scripts that want to harm."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.slime.script.bash.arithmetic import Arithmetic, NotANumber
from t1cli.slime.script.bash.interpret import start
from t1cli.slime.script.bash.state import State, TooMuch, shown
from t1cli.slime.script.bash.syntax import Source

BASH = ["bash", "--norc", "--noprofile"]


def evaluate(script: str, overrides: dict[str, str] | None = None, tree: Path = Path("/nonexistent")) -> State:
    state = State(overrides or {}, tree, directory="/work")
    start(tree / "script.sh", state).run(Source(script, shown="script.sh"))
    return state


def of_bash(script: str) -> list[str]:
    """The words of an array `out`, by bash."""
    program = f'{script}\nprintf "%s\\0" "${{out[@]}}"'
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    result = subprocess.run([*BASH, "-c", program], capture_output=True, text=True, env=environment, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout.split("\0")[:-1]


SNIPPETS = [
    'a="x y"; out=($a "$a" ${a} "${a}z" pre"$a"post)',
    "out=('single $x' \"double 'q' \\\"e\\\"\" $'tab\\tnl\\n' back\\ slash)",
    'unset u; out=($u "$u" ${u:-d e} "${u:-d e}" ${u-} "${u:+no}" end)',
    'v=abc; out=("${v:+set}" "${v:1:1}" "${#v}" "${v^^}" "${v#a}" "${v%c}" "${v/b/B}" "${v//[ab]/-}")',
    'p=/root/models/qwen-8B.sh; out=("${p##*/}" "${p%.sh}" "${p%/*}" "$(basename "$p" .sh)" "$(dirname "$p")")',
    'a=(1 2 3); a+=(4 \'five six\'); out=("${a[@]}" ${a[@]} "${a[*]}" ${#a[@]} ${a[1]} "${a[@]:1:2}")',
    'a=(); out=(x "${a[@]}" ${a[@]} y)',
    'a=(1 2 3); IFS=", "; out=("${a[*]}")',
    'a=(1 0 1); printf -v f "[%s]" "$(IFS=\', \'; echo "${a[*]}")"; out=("$f")',
    'for ((i=0; i<4; i++)); do if (( i < 2 )); then a+=(0); else a+=($((i * 10))); fi; done; out=("${a[@]}")',
    "out=($(seq 3) $(seq 16 8 40) $(seq 5 -2 1) 1 2)",
    "n=7; out=($((n / 2)) $((n % 3)) $((n ** 2)) $((n > 3 ? 10 : 20)) $((-n / 2)) $((n << 2 | 1)) $((0x1f)))",
    "x=1; y=$((x++ + ++x)); out=($x $y $((x += 5)) $x)",
    'out=("$(cat <<EOF\nline $((1 + 1)) "q"\nEOF\n)")',
    "out=(\"$(cat <<'EOF'\nraw $x $(date)\nEOF\n)\")",
    'out=("$(echo "A,B,C" | tr "," "\\n" | wc -l)" "$(echo "MiXed" | tr "[:upper:]" "[:lower:]")")',
    "out=(\"$(echo 'Qwen3-VL-2B-Instruct' | sed 's/-Instruct//g; s/Qwen3-VL-/qwen3-/g; s/-2B/-1.7B/g')\")",
    'if [ "abc" = "abc" ] && [ 3 -gt 2 ]; then r=yes; else r=no; fi; out=($r)',
    'if [[ "eth0" == eth* && ! -z "x" ]]; then r=yes; fi; if [[ a < b || 1 -eq 2 ]]; then s=yes; fi; out=($r $s)',
    'k=b; case "$k" in a) r=1;; b|c) r=2;; *) r=3;; esac; out=($r)',
    'for x in a "b c" d; do [ "$x" = "b c" ] && continue; r+=("$x"); done; out=("${r[@]}")',
    "i=0; while [ $i -lt 10 ]; do i=$((i + 1)); if [ $i -eq 4 ]; then break; fi; done; out=($i)",
    'f() { local v="$1"; out+=("f:$v" "$#"); }; out=(); f one two; f "three four"',
    "h=$([ 5 -gt 0 ] && echo 1 || echo 0); g=$([ 0 -gt 5 ] && echo 1 || echo 0); out=($h $g)",
    'out=([0]*3+[1]*45 --flag=value "--k=v w")',
    "N=3; M=45; out=([0]*$N+[1]*$M)",
    'b=/base; out=($b/a "$b"/b ${b}_c "${b}/d"/)',
    'j="{ \\"a\\": \\"${HOME_X:-h}\\", \\"b\\": [1] }"; out=("$j")',
    'out=($(echo one; echo two) "$(echo one; echo two)")',
    'a[0]=x; a[1]=y; out=("${a[@]}" "${a[0]}")',
    's="  lead and trail  "; out=($s "$s")',
    "x=5; { y=6; }; (x=9); out=($x $y)",
    "true && out=(t) || out=(f)",
    'e=; out=("${e:-default}" "${e-unset}" "${e:=assigned}" "$e")',
]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_words_are_those_of_bash(snippet: str) -> None:
    mine = [str(word) for word in evaluate(snippet).arrays["out"]]
    assert mine == of_bash(snippet)


_small = st.integers(-50, 50)
_operators = st.sampled_from(["+", "-", "*", "/", "%", "<", ">", "==", "&&", "||", "&", "|", "^"])
_expressions = st.recursive(
    _small.map(str),
    lambda inner: st.one_of(
        st.tuples(inner, _operators, inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        inner.map(lambda text: f"-({text})"),
        st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} ? {parts[1]} : {parts[2]})"),
    ),
    max_leaves=8,
)


@settings(max_examples=20, deadline=None)
@given(st.lists(_expressions, min_size=1, max_size=8))
def test_arithmetic_is_that_of_bash(expressions: list[str]) -> None:
    program = "\n".join(f"(echo $(( {expression} ))) 2>/dev/null || echo error" for expression in expressions)
    result = subprocess.run([*BASH, "-c", program], capture_output=True, text=True, timeout=120)
    for expression, theirs in zip(expressions, result.stdout.split(), strict=True):
        try:
            mine = str(Arithmetic(expression, lambda name: "0", lambda name, value: None).value())
        except NotANumber:
            # A branch that bash does not take is not computed there: a division by zero in it is no error.
            continue
        assert mine == theirs, expression


def test_what_comes_from_outside_has_a_name_and_a_line() -> None:
    state = evaluate('\nA=${BASE}/x\nB="$(hostname -I)"\nC=${D:?needed}\n')
    assert shown(state.variables["A"]) == "<BASE>/x"
    assert shown(state.variables["B"]) == "<B>" and shown(state.variables["C"]) == "<D>"
    assert state.unknowns["BASE"].where == "script.sh:2" and "hostname" in state.unknowns["B"].reason
    given_values = evaluate("A=${BASE}/x\nB=$(hostname)", {"BASE": "/b", "B": "node"})
    assert given_values.variables["A"] == "/b/x" and given_values.variables["B"] == "node"


def test_a_check_that_ends_the_script_says_what_it_requires() -> None:
    script = 'if [ -z "${BASE:-}" ]; then\n  echo missing\n  exit 1\nfi\nM=${M:-}\n[ -z "$M" ] && exit 1\nX=$BASE/$M'
    assert shown(evaluate(script).variables["X"]) == "<BASE>/<M>"
    assert evaluate(script, {"BASE": "/b", "M": "m"}).variables["X"] == "/b/m"


def test_an_undecidable_branch_is_said_with_its_line() -> None:
    state = evaluate("\nif some_probe; then\n  A=1\nelse\n  A=0\nfi\nif test_it; then\n  echo hi\nfi")
    assert state.variables["A"] == "0"
    (note,) = state.notes
    assert note.where == "script.sh:2" and "else" in note.message


def test_nothing_is_executed(tmp_path: Path) -> None:
    target = tmp_path / "made"
    script = f"""
touch {target}; $(touch {target}); `touch {target}`; echo x > {target}; eval "touch {target}"
A=$(touch {target} && echo yes); bash -c "touch {target}"; trap 'touch {target}' EXIT
cat <<EOF > {target}
$(touch {target})
EOF
python3 - <<PY
open("{target}", "w")
PY
f() {{ touch {target}; }}; f
"""
    evaluate(script)
    assert not target.exists()


@pytest.mark.parametrize(
    "script",
    [
        "while true; do A=1; done",
        "for ((;;)); do A=1; done",
        "f() { f; }; f",
        "f() { f | f; }; f",
        "A=x; for ((i=0; i<60; i++)); do A=$A$A; done",
        "A=(x); for ((i=0; i<60; i++)); do A=(${A[@]} ${A[@]}); done",
        "seq 1 100000000000",
        "source ./script.sh",
        "until false; do :; done",
        "A=$((9 ** 62)); B=$((1 << 60)); while [ 1 -lt 2 ]; do B=$((B - 1)); done",
    ],
)
def test_hostile_scripts_end_soon(script: str, tmp_path: Path) -> None:
    (tmp_path / "script.sh").write_text(script)
    begun = time.process_time()
    state = State({}, tmp_path, directory=str(tmp_path))
    with pytest.raises((TooMuch, RecursionError)):
        start(tmp_path / "script.sh", state).run(Source(script, shown="script.sh"))
    assert time.process_time() - begun < 10


def test_source_reads_below_the_tree_alone(tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    for directory in (tree / "scripts", outside):
        directory.mkdir(parents=True)
    (outside / "secret.sh").write_text("STOLEN=1")
    (tree / "link.sh").symlink_to(outside / "secret.sh")
    (tree / "fine.sh").write_text("FINE=1")
    script = f"source {tree}/fine.sh\nsource {outside}/secret.sh\nsource ../outside/secret.sh\nsource {tree}/link.sh\n"

    def run(allowed: tuple[Path, ...]) -> State:
        state = State({}, tree, allowed, directory=str(tree))
        start(tree / "scripts/x.sh", state).run(Source(script, shown="x.sh"))
        return state

    refused = run(())
    assert refused.variables["FINE"] == "1" and "STOLEN" not in refused.variables
    assert [note.where for note in refused.notes] == ["x.sh:2", "x.sh:3", "x.sh:4"]
    assert all("--allow" in note.message for note in refused.notes)
    assert run((outside,)).variables["STOLEN"] == "1"
