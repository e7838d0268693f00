#!/bin/sh
# Trains the model on transitions.npz: examples/puck/train.sh [UPDATES]
# It needs the folder scripts of optibfm's repository: here, or in $OPTIBFM_REPOSITORY. It imports:
# pip install numpy safetensors torch
set -eu
PATH=$PATH:. # for a program built in the current folder
train=${OPTIBFM_REPOSITORY:-.}/scripts/train_fb.py
if [ ! -f "$train" ]; then
  echo "train.sh: $train not found; set OPTIBFM_REPOSITORY to optibfm's repository" >&2
  exit 1
fi
exec python3 "$train" examples/puck/transitions.npz --out examples/puck/model --steps "${1:-10000}" \
  --latent 32 --hidden 64 --b-hidden 64 --batch 256 --gamma 0.97 --lr 1e-3 --lr-b 1e-4 --lr-end 0.1 \
  --ortho 20 --z-from-data 0.4 --z-from-rewards 0.3
