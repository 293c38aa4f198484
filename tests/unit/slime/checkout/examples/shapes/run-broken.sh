#!/bin/bash
source "${0%/*}/../../scripts/models/small-dense.sh"
ray job submit -- python3 train.py \
   --actor-num-nodes 1 \
   --colocate
   ${MODEL_ARGS[@]} \
   --hf-checkpoint /data/small
