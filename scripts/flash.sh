#!/usr/bin/env bash
# Installs optibfm on a robot, and restores the previous version if the new one does
# not become ready: scripts/flash.sh [--deb FILE] [--dry-run] USER@HOST
#   --deb FILE  the package; default: a package built for the robot's processor
#   --dry-run   print the commands, without the robot
# The configuration, the belief and the logs stay. The script halts the robot before it
# replaces the program. It neither enables the service nor arms a robot.
# Exit status: 0 the new version is ready; 3 it was not, and the previous one runs
# again; 1 another error, which is printed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

help() { sed -n '2,/^set/p' "$0" | sed -n 's/^# \{0,1\}//p'; }
usage() { help >&2; exit 2; }
deb='' dry='' robot=''
while [ $# -gt 0 ]; do
  case "$1" in
  --deb) [ $# -ge 2 ] || usage; deb=$2; shift ;;
  --dry-run) dry=1 ;;
  -h | --help) help; exit ;;
  -*) usage ;;
  *) [ -z "$robot" ] || usage; robot=$1 ;;
  esac
  shift
done
[ -n "$robot" ] || usage
say() { printf 'flash: %s\n' "$*"; }
fail() { printf 'flash: %s\n' "$*" >&2; exit 1; }
run() {
  if [ -n "$dry" ]; then say "would run: ${*@Q}"; else "$@"; fi
}

if [ -n "$dry" ]; then
  say "would ask the robot for its processor, here called ARCH"
  arch=ARCH
else
  arch=$(ssh "$robot" dpkg --print-architecture) || fail "$robot: no answer, or not Debian; try: ssh $robot dpkg --print-architecture"
  say "$robot: processor $arch"
fi
if [ -z "$deb" ]; then
  version=$(git -C "$here" describe --tags --always --dirty)
  if [ -n "$dry" ]; then
    say "would run: scripts/package.sh $version $arch"
    deb=dist/optibfm_${version}_$arch.deb
  else
    say "building $version"
    deb=$("$here/package.sh" "$version" "$arch" | tail -n 1)
  fi
elif [ ! -f "$deb" ]; then
  fail "--deb: no such file (${deb@Q})"
elif deb=$(realpath -- "$deb") && [ -z "$dry" ] && [ "$(dpkg-deb -f "$deb" Architecture)" != "$arch" ]; then
  fail "--deb: ${deb@Q} is for $(dpkg-deb -f "$deb" Architecture), the robot is $arch; build one with scripts/package.sh VERSION $arch"
fi

# Each flash has its own folder, so that two at once do not mix their packages. The shell of the robot
# reads $remote: it has no name from this computer.
folder=/var/tmp/optibfm-flash-$$-$(date +%s)
run ssh "$robot" mkdir -m 700 "$folder"
run scp -q "$here/flash_on_robot.sh" "$robot:$folder/"
run scp -q "$deb" "$robot:$folder/optibfm.deb"
remote="sh $folder/flash_on_robot.sh $folder/optibfm.deb"
if [ -n "$dry" ]; then
  say "would run on $robot, as root: $remote"
  exit 0
fi
terminal=()
[ ! -t 0 ] || terminal=(-t) # for the password of sudo
status=0
# shellcheck disable=SC2029 # $remote expands here
ssh "${terminal[@]}" "$robot" "if [ \$(id -u) = 0 ]; then $remote; else sudo $remote; fi" || status=$?
[ "$status" != 255 ] || fail "the connection broke. The flash continues on the robot; see: ssh $robot cat /var/cache/optibfm/flash.log"
ssh "$robot" rm -rf "$folder" || true
exit "$status"
