#!/bin/sh
# Trains a model on transitions.npz: examples/puck/train.sh [OPTIONS of scripts/train_fb.py]
# The former model stays unless the new one is complete and not worse, and is then kept beside it. After
# Ctrl-C the same command continues. It needs the folder scripts of optibfm's repository: here, or in
# $OPTIBFM_REPOSITORY.
# It imports numpy, safetensors and torch; README.md installs them.
set -eu
PATH=$PATH:. # for a program built in the current folder
train=${OPTIBFM_REPOSITORY:-.}/scripts/train_fb.py
if [ ! -f "$train" ]; then
  echo "train.sh: $train not found; set OPTIBFM_REPOSITORY to optibfm's repository" >&2
  exit 1
fi
model=examples/puck/model
trap 'exit 130' INT # also where python3 saves its progress and succeeds
trap 'exit 143' TERM
status=0
python3 "$train" examples/puck/transitions.npz --out "$model.new" --unless-worse-than "$model" --steps 10000 \
  --latent 32 --hidden 64 --b-hidden 64 --batch 256 --gamma 0.97 --lr 1e-3 --lr-b 1e-4 --lr-end 0.1 \
  --ortho 20 --z-from-data 0.4 --z-from-rewards 0.3 "$@" || status=$?
case $status in
0) ;;
3) exit 0 ;; # the former model is better and stays
*) exit "$status" ;;
esac
if [ -e "$model" ]; then
  former=$model.$(date +%Y%m%d-%H%M%S)
  mv "$model" "$former"
  echo "train.sh: the former model is kept: $former"
fi
mv "$model.new" "$model"
