#!/bin/bash
# Fully asynchronous, on GPUs of its own, with a quoted environment and a model file two directories up.
set -ex
HERE="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" &>/dev/null && pwd)"
SMALL_ROTARY_BASE=5000000 source "${HERE}/../../scripts/models/small-dense.sh"

MODEL_NAME="Small-4B-Instruct"
MODEL_LOWER=$(echo "$MODEL_NAME" | tr '[:upper:]' '[:lower:]')
NUM_GPUS=$(echo ${VISIBLE:-0,1,2,3} | tr ',' '\n' | wc -l)
HAS_NVLINK=$([ "$NUM_GPUS" -gt 1 ] && echo 1 || echo 0)
ACTOR_GPUS=${ACTOR_GPUS:-2}
ROLLOUT_GPUS=${ROLLOUT_GPUS:-$((NUM_GPUS - ACTOR_GPUS))}

ray start --head --num-gpus ${NUM_GPUS}
ray job submit --runtime-env-json='{
     "env_vars": {
        "PYTHONPATH": "/root/Megatron-LM/",
        "CUDA_DEVICE_MAX_CONNECTIONS": "1"
     }
   }' \
   -- python3 train_async.py \
   --actor-num-nodes 1 --actor-num-gpus-per-node "${ACTOR_GPUS}" --rollout-num-gpus "${ROLLOUT_GPUS}" \
   ${MODEL_ARGS[@]} \
   --hf-checkpoint "/data/${MODEL_LOWER%-instruct}" --ref-load /data/${MODEL_LOWER}_torch_dist \
   --rollout-function-path slime.rollout.fully_async_rollout.generate_rollout_fully_async \
   --prompt-data /data/prompts.jsonl --multimodal-keys '{"image": "images"}' --input-key prompt \
   --num-rollout 3 --rollout-batch-size 8 --n-samples-per-prompt 4 --rollout-max-response-len 1024 \
   --global-batch-size 32 --use-dynamic-batch-size --max-tokens-per-gpu 4096 \
   --advantage-estimator grpo --lr 1e-6 --rollout-num-gpus-per-engine 1 \
   --my-typo 3 --eps-clip-c 3.0 --freeze-params-name-list "vision.*" "embed"
