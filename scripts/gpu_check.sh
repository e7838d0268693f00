#!/usr/bin/env bash
# Checks and times TensorFlow on a device, and prints one Markdown table: docs/tensorflow.md. It writes each
# row to OUT/table.md as soon as it is known, and the programs' messages to OUT/*.log.
set -uo pipefail

program=optibfm lab=optibfm-lab library=${OPTIBFM_TENSORFLOW:-} device=/GPU:0 out=gpu-check
walker=models/walker minutes=4 run=60 searches=100 large_searches=100 limit=1s

usage() {
  cat <<EOF
usage: gpu_check.sh [OPTION...]

  --program FILE      optibfm, built with -tags tensorflow (default: $program)
  --lab FILE          optibfm-lab, built with -tags tensorflow (default: $lab)
  --library DIR       the folder of TensorFlow's library (default: \$OPTIBFM_TENSORFLOW)
  --device DEVICE     /GPU:0 (default) or /CPU:0
  --out DIR           the folder of the results (default: $out)
  --walker DIR        a trained model (default: $walker)
  --minutes N         for all checks; the rest is left out (default: $minutes)
  --run SECONDS       of the run in real time (default: $run)
  --searches N        of each comparison (default: $searches)
  --large-searches N  the same for the size of BFM-Zero (default: $large_searches)
  --limit DURATION    for the plans of one row (default: $limit)
EOF
}

while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit ;;
    --program | --lab | --library | --device | --out | --walker | --minutes | --run | --searches | --large-searches | --limit)
      name=${1#--}
      printf -v "${name//-/_}" %s "${2:?$1 needs a value}"
      shift 2 ;;
    *) usage >&2; exit 2 ;;
  esac
done

mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
table=$out/table.md
[ -z "$library" ] || export OPTIBFM_TENSORFLOW=$library LD_LIBRARY_PATH=$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# The driver compiles TensorFlow's PTX for a GPU without kernels of its own, and keeps the result for the
# next process here.
export CUDA_CACHE_PATH=${CUDA_CACHE_PATH:-$out/cuda-cache} CUDA_CACHE_MAXSIZE=4294967296
export TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-1}
end=$(($(date +%s) + minutes * 60)) failed=0

row() { printf '| %s | %s | %s | %s | %s | %s | %s | %s |\n' "$1" "$2" "$3" "${5:-}" "" "" "" "$4" | tee -a "$table"; } # CHECK MODEL BACKEND NOTES [MEDIAN]
gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits 2>/dev/null | head -n1; }
gpu_memory() { case $device in /GPU*) gpu memory.used ;; esac; }

# within NAME COMMAND...: runs a command until the end of the time, with its messages in NAME.log.
within() {
  local left=$((end - $(date +%s)))
  [ "$left" -gt 0 ] || return 124
  timeout -k 5 "$left" "${@:2}" 2>"$out/$1.log"
}

# missed STATUS CHECK MODEL BACKEND LOG
missed() {
  failed=1
  if [ "$1" = 124 ] || [ "$1" = 137 ]; then
    row "$2" "$3" "$4" "not finished after $minutes min: give a larger --minutes"
  else
    row "$2" "$3" "$4" "failed (exit status $1): $(tail -n1 "$out/$5.log" | tr '|' '/')"
  fi
}

# watch PID FILE: writes the largest used memory of the GPU in MiB.
watch() {
  local most=0 now
  while kill -0 "$1" 2>/dev/null; do
    now=$(gpu_memory)
    [ "${now:-0}" -le "$most" ] || echo "$((most = now))" >"$2"
    sleep 0.5
  done
}

# measure MODEL_NAME BACKEND_NAME OPTION...: rows of optibfm-lab backend.
measure() {
  local name=$1-${2//[^a-zA-Z0-9]/} status watcher
  within "$name" "$lab" backend --header=false --limit "$limit" --set controller.preset=paper "${@:3}" | tee -a "$table" &
  local pid=$!
  case $2 in /GPU*) watch $pid "$out/$name.mib" & ;; esac
  watcher=$!
  wait $pid
  status=$?
  [ $watcher = $pid ] || wait $watcher
  [ $status = 0 ] || missed $status plan "$1" "$2" "$name"
  [ ! -s "$out/$name.mib" ] || row "GPU memory" "$1" "$2" "$(cat "$out/$name.mib") MiB used on the GPU at most; before the first check $idle MiB"
}

# model NAME SEARCHES OPTION...: one model on each backend.
model() {
  local tf=(--searches "$2" --set model.backend=tensorflow --set model.tensorflow.device="$device" "${@:3}")
  measure "$1" "$device" "${tf[@]}"
  case $device in /GPU*) measure "$1" "$device, TF32" "${tf[@]}" --set model.tensorflow.tf32=true ;; esac
  measure "$1" native --set model.backend=native "${@:3}"
}

# on_cpu NAME SEARCHES OPTION...: agreement of TensorFlow's kernels for the CPU.
on_cpu() {
  case $device in /GPU*)
    measure "$1" /CPU:0 "${@:3}" --searches "$2" --set model.backend=tensorflow --set model.tensorflow.device=/CPU:0 \
      --candidates 128 --limit 200ms ;;
  esac
}

devices() {
  local start status
  row devices "" CPU "$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n1), $(nproc) processors"
  case $device in /GPU*) row devices "" "$device" "name, driver, MiB: $(gpu name,driver_version,memory.total)" ;; esac
  start=$(date +%s%N)
  TF_CPP_MIN_LOG_LEVEL=0 within backend "$program" model backend --set model.backend=tensorflow --set model.tensorflow.device="$device" --searches "$searches" >"$out/backend.txt"
  status=$?
  [ $status = 0 ] || missed $status devices rover "$device" backend
  [ -s "$out/backend.txt" ] || return 1 # no library or no device
  row "first plan" rover "$device" "the first process as a whole, with $searches searches; the driver compiles PTX for a GPU that the library has no kernels for" \
    "$((($(date +%s%N) - start) / 1000000)) ms"
  sed 's/  */ /' "$out/backend.txt" | while read -r line; do row devices rover "$device" "$line"; done
}

# peak PID: the greatest resident memory of a process.
peak() { awk '/^VmHWM/ {printf "%.0f MB", $2 * 1.024 / 1000}' "/proc/$1/status" 2>/dev/null; }

real_time() {
  local pid child status watcher host='' text
  rm -rf "$out/logs"
  within run "$program" run --plain --set log.dir="$out/logs" --set run.duration_s="$run" --set run.episodes=0 --set controller.strategy=ucb \
    --set loop.posture=warn --set model.backend=tensorflow --set model.tensorflow.device="$device" >"$out/run.txt" &
  pid=$!
  watch $pid "$out/run.mib" &
  watcher=$!
  while kill -0 $pid 2>/dev/null; do
    for child in $(descendants $pid); do # the host process has the library
      grep -qs libtensorflow_cc "/proc/$child/maps" && host=$(peak "$child")
    done
    sleep 1
  done
  wait $pid
  status=$?
  wait $watcher
  [ $status = 0 ] || { missed $status "run, $run s" rover "$device" run; return; }
  grep -E '^  (ticks|lateness)|not granted' "$out/run.txt" | while read -r text; do row "run, $run s" rover "$device" "$text"; done
  row "run, $run s" rover "$device" "host process: peak RSS ${host:-not known}$([ ! -s "$out/run.mib" ] || echo "; GPU: $(cat "$out/run.mib") MiB used, before the first check $idle MiB")"
  within replay "$program" replay "$out"/logs/*.mcap >"$out/replay.txt"
  status=$?
  [ $status = 0 ] || missed $status replay rover "$device" replay
  grep -E '^  (verified|ticks|late|busy|faults)' "$out/replay.txt" | while read -r text; do row replay rover "$device" "$text"; done
}

descendants() {
  local child
  for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
    echo "$child"
    descendants "$child"
  done
}

"$lab" backend --help >"$out/help.txt" || exit 1
cat >"$table" <<'EOF'
| check | model | backend | median | p99 | / π, native | / π, same backend | notes |
| --- | --- | --- | --: | --: | --: | --: | --- |
EOF
cat "$table"
idle=$(gpu_memory)
row paper "" GPU "a decision of ucb with 128 candidates takes 4.6 times as long as the policy"
if devices; then
  model walker "$searches" --set model.bundle="$walker"
  model s1 "$searches" --random s1
  real_time
  model bfmzero "$large_searches" --random bfmzero
  on_cpu walker "$searches" --set model.bundle="$walker"
  on_cpu s1 "$searches" --random s1
  on_cpu bfmzero "$large_searches" --random bfmzero
fi
row "plan, float16" "" "$device" "not available: the graph is float32"
exit $failed
