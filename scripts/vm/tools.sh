# shellcheck shell=bash disable=SC2034
# What run.sh and systemd.sh share. They source it.
set -euo pipefail
shopt -s inherit_errexit
PATH=$PATH:/usr/sbin:/sbin # depmod, mke2fs
cache=${XDG_CACHE_HOME:-$HOME/.cache}/optibfm-vm
deadline=${OPTIBFM_VM_SECONDS:-600} # of a boot

fail() { echo "scripts/vm/$(basename "$0"): $1" >&2; exit 1; }

# installed PROGRAM PACKAGE: looks for PROGRAM and, as root on Debian, installs PACKAGE.
installed() {
  command -v "$1" >/dev/null && return 0
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then fail "$1 is missing; install $2"; fi
  apt-get update -qq >/dev/null
  apt-get install -y -qq --no-install-recommends "$2" >/dev/null 2>&1 || fail "$2 cannot be installed"
}
