#!/usr/bin/env bash
# Installs TensorFlow's C library for `model.backend: tensorflow` from a pip wheel into one folder. It
# installs no Python packages and changes nothing else. A second run changes nothing.
# docs/tensorflow.md names the wheel for each machine.
set -euo pipefail

version=2.20.0
dir=${XDG_DATA_HOME:-$HOME/.local/share}/optibfm/tensorflow
wheel='' program='' gpu=''

usage() {
  cat <<EOF
usage: install-tensorflow.sh [--dir DIR] [--wheel FILE] [--gpu] [--program OPTIBFM]

  --dir DIR           the folder (default: $dir; for all users: /opt/optibfm/tensorflow)
  --wheel FILE        this wheel instead of TensorFlow $version from PyPI: on a
                      Jetson, NVIDIA's wheel for its JetPack
  --gpu               on amd64, the PyPI wheel with CUDA (1.3 GB) instead of the one
                      for the CPU; install CUDA and cuDNN yourself
  --program OPTIBFM   an optibfm built with -tags tensorflow, for a test
                      (default: the one in PATH)
EOF
}

while [ $# -gt 0 ]; do
  case $1 in
    --dir) dir=${2:?--dir needs a folder}; shift 2 ;;
    --wheel) wheel=${2:?--wheel needs a file}; shift 2 ;;
    --gpu) gpu=1; shift ;;
    --program) program=${2:?--program needs a file}; shift 2 ;;
    -h | --help) usage; exit ;;
    *) usage >&2; exit 2 ;;
  esac
done

ok() { printf 'ok    %s\n' "$*"; }
note() { printf 'note  %s\n' "$*"; }
fail() { # PROBLEM FIX
  printf 'FAIL  %s\n      do: %s\n' "$1" "$2" >&2
  exit 1
}

# The wheel is for CPython 3.12 on every machine: only its libraries are used.
case $(uname -m)-${gpu:-cpu} in
  x86_64-cpu) package=tensorflow-cpu platform=manylinux_2_17_x86_64 sum=c7a9224185818094ed95c4e114d3efe77241db35fbf0b75251fb2bf6222dd6a7 ;;
  x86_64-1) package=tensorflow platform=manylinux_2_17_x86_64 sum=25265b0bc527e0d54b1e9cc60c44a24f44a809fe27666b905f0466471f9c52ec ;;
  aarch64-cpu) package=tensorflow platform=manylinux_2_17_aarch64 sum=2bfbfb3dd0e22bffc45fe1e922390d27753e99261fab8a882e802cf98a0e078f ;;
  aarch64-1) fail "PyPI has no wheel with CUDA for aarch64" "on a Jetson, give NVIDIA's wheel with --wheel" ;;
  *) fail "no wheel for $(uname -s) on $(uname -m)" "use model.backend: native" ;;
esac

command -v python3 >/dev/null || fail "python3 is missing, which reads the wheel" "sudo apt-get install python3 python3-pip"
work=''
trap '[ -z "$work" ] || rm -rf "$work"' EXIT

source_of() { # the checksum of the wheel
  if [ -n "$wheel" ]; then sha256sum "$wheel" | cut -d' ' -f1; else echo "$sum"; fi
}

pip=(python3 -m pip)
# pip 25.1 and later resume an interrupted download: number of attempts, and seconds without data. Older
# versions ignore the first.
export PIP_RESUME_RETRIES=${PIP_RESUME_RETRIES:-50} PIP_DEFAULT_TIMEOUT=${PIP_DEFAULT_TIMEOUT:-60} PIP_DISABLE_PIP_VERSION_CHECK=1

# fetch DIR NAME VERSION SHA256 [OPTION...]: downloads a wheel from the registry.
fetch() {
  mkdir -p "$1"
  echo "$2==$3 --hash=sha256:$4" >"$1/requirements.txt"
  "${pip[@]}" download --quiet --no-deps --require-hashes --only-binary=:all: -d "$1" -r "$1/requirements.txt" "${@:5}"
}

# resumable: replaces a pip that cannot resume by a newer one, run from its wheel.
resumable() {
  case $("${pip[@]}" download --help) in *--resume-retries*) return ;; esac
  fetch "$work/pip" pip 25.3 9655943313a94722b7774661c21049070f6bbb0a1516bf02f7c8d5d9201514cd || return 0
  local wheels=("$work"/pip/*.whl)
  pip=(python3 "${wheels[0]}/pip")
}

# download WHEEL_DIR
download() {
  python3 -m pip --version >/dev/null 2>&1 || fail "pip is missing, which downloads the wheel" "sudo apt-get install python3-pip, or download $package $version for $platform elsewhere and give it with --wheel"
  local attempt
  for attempt in 1 2 3; do
    resumable
    fetch "$1" "$package" "$version" "$sum" --implementation cp --python-version 3.12 --abi cp312 --platform "$platform" && return
    note "attempt $attempt of 3 failed: pip's message is above"
    sleep "$attempt"
  done
  fail "$package $version cannot be downloaded: is the package registry (PyPI, or PIP_INDEX_URL) reachable?" \
    "see pip's message above and try again; without a network, download it elsewhere and give it with --wheel"
}

# unpack WHEEL TARGET: extracts the libraries and their licences.
unpack() {
  python3 - "$1" "$2" <<'EOF' || fail "$1 has no TensorFlow library in it" "give a wheel of TensorFlow 2.16 or later"
import os, shutil, sys, zipfile
wheel, target = sys.argv[1:]
needed = {"libtensorflow_cc.so.2", "libtensorflow_framework.so.2"}
if not zipfile.is_zipfile(wheel):
    sys.exit(f"{wheel} is not a wheel, or is cut short")
with zipfile.ZipFile(wheel) as z:
    for name in z.namelist():
        folder, _, base = name.rpartition("/")
        library = folder == "tensorflow" and base in needed
        if library or folder == "tensorflow.libs" and base or base in ("LICENSE", "THIRD_PARTY_NOTICES.txt"):
            with z.open(name) as src, open(os.path.join(target, base), "wb") as dst:
                shutil.copyfileobj(src, dst, 1 << 20)
            needed.discard(base)
sys.exit("missing: " + ", ".join(sorted(needed)) if needed else 0)
EOF
}

install() {
  mkdir -p "$(dirname "$dir")"
  free=$(df -Pm "$(dirname "$dir")" | awk 'NR == 2 {print $4}')
  [ "$free" -ge 3000 ] || fail "$(dirname "$dir") has $free MB free, 3000 are needed" "free some, or choose another folder with --dir"
  work=$(mktemp -d -p "$(dirname "$dir")")
  mkdir "$work/new"
  if [ -z "$wheel" ]; then
    note "downloading $package $version"
    download "$work/wheel"
    set -- "$work"/wheel/*.whl
  else
    set -- "$wheel"
  fi
  unpack "$1" "$work/new"
  source_of >"$work/new/wheel.sha256"
  chmod -R a+rX "$work/new"
  rm -rf "$dir"
  mv "$work/new" "$dir"
}

[ -z "$wheel" ] || [ -r "$wheel" ] || fail "$wheel cannot be read" "give the path of a .whl file"
if [ -d "$dir" ] && [ ! -f "$dir/wheel.sha256" ] && [ -n "$(ls -A "$dir")" ]; then
  fail "$dir has files that this script did not write" "choose another folder with --dir"
fi
if [ "$(cat "$dir/wheel.sha256" 2>/dev/null)" = "$(source_of)" ]; then
  ok "already installed in $dir"
else
  install
  ok "installed in $dir ($(du -sm "$dir" | cut -f1) MB)"
fi

missing=$(ldd "$dir/libtensorflow_cc.so.2" 2>&1 | grep -E 'not found|not a dynamic' || true)
[ -z "$missing" ] || fail "the library does not fit this system: $missing" "install what is missing (CUDA and cuDNN of the wheel's version for a wheel with CUDA), or use a wheel for $(uname -m)"
ok "all shared libraries found"

# Without optibfm: print the version and the devices of a session.
TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-2} python3 - "$dir/libtensorflow_cc.so.2" <<'EOF' || fail "the library does not load or has no devices" "see the message above"
import ctypes, sys
tf = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
def call(name, result, *arguments):
    function = getattr(tf, name)
    function.restype = result
    return function(*arguments)
pointer = lambda name, *arguments: ctypes.c_void_p(call(name, ctypes.c_void_p, *arguments))
version = call("TF_Version", ctypes.c_char_p).decode()
if tuple(int(n) for n in version.split(".")[:2]) < (2, 16):
    sys.exit(f"TensorFlow {version} is too old: 2.16 or later is needed")
status, options = pointer("TF_NewStatus"), pointer("TF_NewSessionOptions")
session = pointer("TF_NewSession", pointer("TF_NewGraph"), options, status)
if call("TF_GetCode", ctypes.c_int, status):
    sys.exit(call("TF_Message", ctypes.c_char_p, status).decode())
devices = pointer("TF_SessionListDevices", session, status)
names = [call("TF_DeviceListName", ctypes.c_char_p, devices, i, status).decode().rpartition("device:")[2]
         for i in range(call("TF_DeviceListCount", ctypes.c_int, devices))]
print(f"ok    TensorFlow {version} with {', '.join(names)}")
if not any(name.startswith("GPU") for name in names):
    print("note  no GPU: model.tensorflow.device must be /CPU:0 (docs/tensorflow.md)")
EOF

[ -n "$program" ] || program=$(command -v optibfm || true)
if [ -z "$program" ]; then
  note "no optibfm in PATH: check it later with: optibfm model backend --set model.backend=tensorflow"
elif ! "$program" model backend --searches 20 --set model.backend=tensorflow \
  --set model.tensorflow.library="$dir" --set model.tensorflow.device=/CPU:0; then
  fail "$program cannot search with it" "build it with: go build -tags tensorflow ./cmd/optibfm"
else
  ok "$program searches with it"
fi
[ "$dir" = "${XDG_DATA_HOME:-$HOME/.local/share}/optibfm/tensorflow" ] || [ "$dir" = /opt/optibfm/tensorflow ] ||
  note "set model.tensorflow.library to $dir (or OPTIBFM_TENSORFLOW, in the environment)"
