#!/bin/bash
# GSPO of a MoE model over several nodes: required variables, a host file, a heredoc for the environment.
set -ex

if [ -z "${BASE_FOLDER:-}" ]; then
  echo "BASE_FOLDER is not set."
  exit 1
fi

MASTER_ADDR=${MASTER_ADDR:-}
if [ -z "${MASTER_ADDR}" ]; then
  echo "MASTER_ADDR is not set."
  exit 1
fi

NODES=${NODES:-4}
GPUS=${GPUS:-8}
CP_SIZE=${CP_SIZE:-2}
CONTEXT=$((CP_SIZE * 16384))
IFNAME=${IFNAME:-eth0}

DIR="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" &>/dev/null && pwd)"
source "${DIR}/models/small-moe.sh"

CKPT_ARGS=(
   --hf-checkpoint "${BASE_FOLDER}/small-moe"
   --ref-load "${BASE_FOLDER}/small-moe_torch_dist"
   --save "${BASE_FOLDER}/small-moe_run/"
   --save-interval 20
)

ROLLOUT_ARGS=(
   --prompt-data "${BASE_FOLDER}/prompts.jsonl"
   --input-key prompt
   --apply-chat-template
   --rollout-shuffle
   --rm-type math
   --num-rollout 3000
   --rollout-batch-size 128
   --n-samples-per-prompt 8
   --rollout-max-response-len $((CONTEXT - 1024))
   --rollout-max-context-len ${CONTEXT}
   --rollout-temperature 0.8
   --over-sampling-batch-size 256
   --dynamic-sampling-filter-path slime.rollout.filter_hub.dynamic_sampling_filters.check_reward_nonzero_std
   --num-steps-per-rollout 4
   --rollout-stop-token-ids 151329 151336 151338
)

PERF_ARGS=(
   --tensor-model-parallel-size 2
   --sequence-parallel
   --pipeline-model-parallel-size 2
   --decoder-last-pipeline-num-layers 13
   --context-parallel-size "${CP_SIZE}"
   --expert-model-parallel-size 8
   --expert-tensor-parallel-size 1
   --recompute-granularity full
   --recompute-method uniform
   --recompute-num-layers 1
   --use-dynamic-batch-size
   --max-tokens-per-gpu $((CONTEXT / CP_SIZE))
   --moe-token-dispatcher-type flex
   --moe-enable-deepep
)

ALGORITHM_ARGS=(
   --advantage-estimator gspo
   --kl-loss-coef 0.00
   --kl-coef 0.00
   --entropy-coef 0.00
   --eps-clip 1e-4
   --eps-clip-high 2e-4
   --use-tis
   --optimizer adam
   --lr 1e-6
   --lr-decay-style constant
   --optimizer-cpu-offload
   --overlap-cpu-optimizer-d2h-h2d
   --use-precision-aware-optimizer
)

if [ -n "$WANDB_API_KEY" ]; then
   WANDB_ARGS=(--use-wandb --wandb-project moe --wandb-group "moe-$(date +%s)" --wandb-key ${WANDB_API_KEY})
else
   WANDB_ARGS=()
fi

SGLANG_ARGS=(
   --rollout-num-gpus-per-engine 8
   --sglang-mem-fraction-static 0.7
   --sglang-enable-dp-attention
   --sglang-dp-size 4
   --sglang-ep-size 8
   --sglang-speculative-algorithm EAGLE
   --sglang-speculative-num-steps 3
   --sglang-speculative-eagle-topk 1
   --sglang-speculative-num-draft-tokens 4
)

HOSTFILE=${HOSTFILE:-}
if [ -n "${HOSTFILE}" ]; then
  for WORKER_IP in $(awk '{print $1}' "${HOSTFILE}"); do
    if [[ "${WORKER_IP}" == "${MASTER_ADDR}" ]]; then
      continue
    fi
    ssh root@"${WORKER_IP}" "pkill -9 python ; ray start --address=${MASTER_ADDR}:6379" &
  done
  wait
fi

RUNTIME_ENV_JSON=$(cat <<EOF_JSON
{
  "env_vars": {
    "no_proxy": "localhost,${MASTER_ADDR}",
    "GLOO_SOCKET_IFNAME": "${IFNAME}",
    "PYTHONPATH": "/root/Megatron-LM/",
    "CUDA_DEVICE_MAX_CONNECTIONS": "1"
  }
}
EOF_JSON
)

ray job submit --address="http://127.0.0.1:8265" \
   --runtime-env-json="${RUNTIME_ENV_JSON}" \
   -- python3 -u train.py \
   --actor-num-nodes "${NODES}" \
   --actor-num-gpus-per-node "${GPUS}" \
   --colocate \
   "${MODEL_ARGS[@]}" \
   "${CKPT_ARGS[@]}" \
   "${ROLLOUT_ARGS[@]}" \
   "${ALGORITHM_ARGS[@]}" \
   "${WANDB_ARGS[@]}" \
   "${PERF_ARGS[@]}" \
   "${SGLANG_ARGS[@]}" \
   2>&1 | tee "/tmp/run.log"
