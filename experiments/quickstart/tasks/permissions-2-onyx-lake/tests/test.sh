#!/bin/sh
# T1_ROOT and T1_PYTHON are empty in a container; a local sandbox says where its root and interpreter are.
logs="${T1_ROOT:-}/logs/verifier"
mkdir -p "$logs"
cd "${T1_ROOT:-}/tests" || exit 1
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
"${T1_PYTHON:-python3}" -I -B -m pytest -q -s -rA -c /dev/null --rootdir=. --assert=plain --tb=line -p no:cacheprovider -p ctrf.main \
    --ctrf "$logs/ctrf.json" test_outputs.py
code=$?
# Any other status means that the verifier broke: no reward line, so that nobody reads it as a failed task.
if [ "$code" -eq 0 ]; then echo 1 > "$logs/reward.txt"; elif [ "$code" -eq 1 ]; then echo 0 > "$logs/reward.txt"; fi
exit "$code"
