# shellcheck shell=bash disable=SC2034,SC2154
# Functions of run.sh, systemd.sh, robot.sh and image.sh.
set -euo pipefail
shopt -s inherit_errexit
PATH=$PATH:/usr/sbin:/sbin # depmod, mke2fs
cache=${XDG_CACHE_HOME:-$HOME/.cache}/optibfm-vm
deadline=${OPTIBFM_VM_SECONDS:-600} # of a boot

case "${1-}" in -h | --help) sed -n '2,/^cd/p' "scripts/vm/${0##*/}" | sed -n '/^# shellcheck/d; s/^# \{0,1\}//p'; exit ;; esac

fail() { echo "scripts/vm/$(basename "$0"): $1" >&2; exit 1; }

# installed PROGRAM PACKAGE: looks for PROGRAM and, as root on Debian, installs PACKAGE.
installed() {
  command -v "$1" >/dev/null && return 0
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then fail "$1 is missing; install $2"; fi
  apt-get update -qq >/dev/null
  apt-get install -y -qq --no-install-recommends "$2" >/dev/null 2>&1 || fail "$2 cannot be installed"
}

# openWork: sets $work, a temporary folder, $port for ssh and the full path of $cache. At the exit it ends $machine.
openWork() {
  work=$(mktemp -d) machine=
  trap '[ -z "$machine" ] || kill "$machine"; rm -rf --one-file-system "$work"' EXIT
  mkdir -p "$cache"
  cache=$(realpath "$cache")
  port=$((20000 + $$ % 10000))
}

# configureSSH USER KEY: makes programs ssh and scp that reach the machine as "robot".
configureSSH() {
  local program
  printf '%s\n' "Host robot" "HostName 127.0.0.1" "Port $port" "User $1" "IdentityFile \"$2\"" "LogLevel ERROR" \
    "StrictHostKeyChecking no" "UserKnownHostsFile /dev/null" "ConnectTimeout 20" \
    "ServerAliveInterval 30" "ServerAliveCountMax 4" >"$work/ssh_config"
  mkdir "$work/bin"
  for program in ssh scp; do
    printf '#!/bin/sh\nexec %q -F %q "$@"\n' "$(command -v "$program")" "$work/ssh_config" >"$work/bin/$program"
  done
  chmod +x "$work/bin"/*
  PATH=$work/bin:$PATH
}

# waitForBoot BOOT_ID: waits for a boot after the one with this id, until systemd has started everything.
waitForBoot() {
  local end=$((SECONDS + deadline)) id=
  until id=$(ssh robot cat /proc/sys/kernel/random/boot_id 2>/dev/null) && [ "$id" != "$1" ]; do
    kill -0 "$machine" 2>/dev/null || fail "the machine ended: $(tail -n 5 "$work/console")"
    [ "$SECONDS" -lt "$end" ] || fail "no answer after $deadline s: $(tail -n 5 "$work/console")"
    sleep 2
  done
  ssh robot systemctl is-system-running --wait >/dev/null || true # degraded: a check reports failed units
  echo "booted at $SECONDS s"
}
