#!/bin/bash
# Imitation: no engines, length by epochs.
source "/root/slime/scripts/models/small-dense.sh"
ARGS=(
   --hf-checkpoint /data/small --ref-load /data/small_torch_dist --save /data/sft --save-interval 1000
   --rollout-function-path slime.rollout.sft_rollout.generate_rollout
   --prompt-data ./data/answers.parquet --input-key messages --rollout-shuffle
   --num-epoch 3 --rollout-batch-size 128 --global-batch-size 128
   --loss-type sft_loss --calculate-per-token-loss --disable-compute-advantages-and-returns --debug-train-only
   --lr 1e-5 --lr-decay-style cosine --min-lr 1e-6 --lr-warmup-fraction 0.1
   --use-dynamic-batch-size --max-tokens-per-gpu 9216
)
ray job submit -- python3 train_async.py --actor-num-nodes 1 --actor-num-gpus-per-node 8 ${MODEL_ARGS[@]} "${ARGS[@]}"
