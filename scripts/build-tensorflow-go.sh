#!/usr/bin/env bash
# Builds tflite/tensorflowgo: optibfm with the backend tensorflow-go, which uses TensorFlow's own Go package
# (cgo). It needs Go, a C compiler, and the library of scripts/install-tensorflow.sh at the same place on the
# robot. On a Jetson, run it on the Jetson.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
library=${OPTIBFM_TENSORFLOW:-${XDG_DATA_HOME:-$HOME/.local/share}/optibfm/tensorflow}
command=(build -o "$PWD/optibfm-tensorflow-go" ./cmd/optibfm-tensorflow-go)

usage() {
  cat <<EOF
usage: build-tensorflow-go.sh [--library DIR] [COMMAND OF GO...]

  --library DIR   the folder with libtensorflow_cc.so.2 (default: $library)
  COMMAND OF GO   for example \`test ./...\`, in the module tflite/tensorflowgo
                  (default: build ./optibfm-tensorflow-go)
EOF
}

case ${1:-} in
  -h | --help) usage; exit ;;
  --library) library=$(realpath "${2:?--library needs a folder}"); shift 2 ;;
esac
[ $# -eq 0 ] || command=("$@")
fail() { # PROBLEM FIX
  printf 'FAIL  %s\n      do: %s\n' "$1" "$2" >&2
  exit 1
}
[ -f "$library/libtensorflow_cc.so.2" ] || fail "$library has no libtensorflow_cc.so.2" "scripts/install-tensorflow.sh"
command -v "${CC:-gcc}" >/dev/null || fail "no C compiler" "sudo apt-get install gcc"

cd "$root/tflite/tensorflowgo"
go mod download github.com/tensorflow/tensorflow
source=$(go list -m -f '{{.Dir}}' github.com/tensorflow/tensorflow)

# The package links with -ltensorflow, a name that the wheel does not have.
links=$(mktemp -d)
trap 'rm -rf "$links"' EXIT
ln -s "$library/libtensorflow_cc.so.2" "$links/libtensorflow.so"
ln -s "$library/libtensorflow_framework.so.2" "$links/libtensorflow_framework.so"

xla=$source/third_party/xla
export CGO_ENABLED=1
export CGO_CFLAGS="${CGO_CFLAGS:--O2} -I$xla -I$xla/xla -I$xla/third_party/tsl"
export CGO_LDFLAGS="-L$links -ltensorflow_framework -Wl,-rpath,$library -Wl,--allow-shlib-undefined"
# The module has no go.mod: without -lang, Go reads it as Go 1.16. `go vet` has no such flag.
flags=(-tags tensorflow -gcflags='github.com/tensorflow/tensorflow/...=-lang=go1.21')
[ "${command[0]}" != test ] || flags+=(-vet=off)
go "${command[0]}" "${flags[@]}" "${command[@]:1}"
