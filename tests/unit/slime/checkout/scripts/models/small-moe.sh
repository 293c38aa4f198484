LAYERS="${SMALL_MOE_LAYERS:-27}"
DENSE_FIRST=1
EXPERT_WIDTH=1408

pattern=()
for ((layer=0; layer<LAYERS; layer++)); do
  if (( layer < DENSE_FIRST )); then
    pattern+=(0)
  else
    pattern+=(1)
  fi
done
printf -v LAYER_PATTERN "[%s]" "$(IFS=', '; echo "${pattern[*]}")"

MODEL_ARGS=(
   --num-layers $LAYERS
   --hidden-size 2048
   --ffn-hidden-size 11264
   --num-attention-heads 16
   --kv-channels 128
   --normalization RMSNorm
   --norm-epsilon 1e-5
   --swiglu
   --untie-embeddings-and-output-weights
   --disable-bias-linear
   --vocab-size 163840
   --position-embedding-type rope
   --rotary-base 50000

   --multi-latent-attention
   --kv-lora-rank 512
   --qk-head-dim 128
   --qk-pos-emb-head-dim 64
   --v-head-dim 128
   --no-rope-fusion

   # experts
   --num-experts 64
   --moe-layer-freq "$LAYER_PATTERN"
   --moe-ffn-hidden-size $EXPERT_WIDTH
   --moe-router-topk 6
   --moe-shared-expert-intermediate-size $((EXPERT_WIDTH * 2))
   --moe-router-score-function sigmoid
   --moe-router-enable-expert-bias
   --moe-router-load-balancing-type seq_aux_loss
   --moe-token-dispatcher-type alltoall
   --moe-aux-loss-coeff 0
   --moe-router-topk-scaling-factor 2.446
   --moe-router-dtype fp32
   --moe-grouped-gemm
   --moe-permute-fusion
)
