#!/usr/bin/env bash
# Puts a version of optibfm on a robot, and takes it back where it does not
# become ready: scripts/flash.sh [--deb FILE] [--dry-run] USER@HOST
#   --deb FILE  the package; without it, one is built for the robot's processor
#   --dry-run   say what would be done, and change nothing
# The configuration, what was learnt and the logs stay. The robot is halted while
# its program is replaced. Nothing here enables the service or arms a robot.
# Exit status: 0 the new version is ready; 3 it was not, and the one before runs
# again; 1 something else went wrong, which is said.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

usage() { sed -n '2,/^set/p' "$0" | sed -n 's/^# \{0,1\}//p' >&2; exit 2; }
deb='' dry='' robot=''
while [ $# -gt 0 ]; do
  case "$1" in
  --deb) [ $# -ge 2 ] || usage; deb=$2; shift ;;
  --dry-run) dry=1 ;;
  -*) usage ;;
  *) [ -z "$robot" ] || usage; robot=$1 ;;
  esac
  shift
done
[ -n "$robot" ] || usage
say() { printf 'flash: %s\n' "$*"; }
fail() { printf 'flash: %s\n' "$*" >&2; exit 1; }
run() {
  if [ -n "$dry" ]; then say "would run: $*"; else "$@"; fi
}

arch=$(ssh "$robot" dpkg --print-architecture) || fail "$robot: no answer, or no Debian: try: ssh $robot dpkg --print-architecture"
say "$robot is $arch"
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
  fail "--deb: $deb is no file"
elif [ "$(dpkg-deb -f "$deb" Architecture)" != "$arch" ]; then
  fail "--deb: $deb is for $(dpkg-deb -f "$deb" Architecture), the robot is $arch: build one with scripts/package.sh VERSION $arch"
fi

# One folder a flash: two at once do not mix their packages.
folder=/var/tmp/optibfm-flash-$$-$(date +%s)
run ssh "$robot" mkdir -m 700 "$folder"
run scp -q "$deb" "$here/flash_on_robot.sh" "$robot:$folder/"
remote="sh $folder/flash_on_robot.sh $folder/$(basename "$deb")"
if [ -n "$dry" ]; then
  say "would run on $robot, as root: $remote"
  exit 0
fi
terminal=()
[ ! -t 0 ] || terminal=(-t) # for sudo's question
status=0
ssh "${terminal[@]}" "$robot" "if [ \$(id -u) = 0 ]; then $remote; else sudo $remote; fi" || status=$?
[ "$status" != 255 ] || fail "the connection broke. What runs on the robot goes on without it: ssh $robot cat /var/cache/optibfm/flash.log"
ssh "$robot" rm -rf "$folder" || true
exit "$status"
