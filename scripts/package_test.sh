#!/usr/bin/env bash
# Installs a package in a clean Debian and checks the result: scripts/package_test.sh DEB [ROOT]
#   ROOT  a Debian root, which the test changes; default: a new one (mmdebstrap, bookworm)
# Needs root, mmdebstrap and, for another architecture, qemu-user-static.
set -euo pipefail

[ $# -ge 1 ] || { echo "usage: scripts/package_test.sh DEB [ROOT]" >&2; exit 2; }
deb=$(realpath "$1")
arch=$(dpkg-deb -f "$deb" Architecture)
work=$(mktemp -d)
root=${2:-$work/root}
registered=
cleanup() {
  if mountpoint -q "$root/proc"; then umount "$root/proc"; fi
  if [ -n "$registered" ]; then echo -1 >/proc/sys/fs/binfmt_misc/optibfm-test; fi
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT

fail() { echo "FAIL: $*" >&2; exit 1; }
step() { printf '\n== %s\n' "$*"; }
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }

# emulate registers qemu for arm64 programs until the end of this script.
emulate() {
  [ "$arch" = "$(dpkg --print-architecture)" ] && return
  [ "$arch" = arm64 ] || fail "no emulator for $arch"
  grep -qs enabled /proc/sys/fs/binfmt_misc/qemu-aarch64 && return
  [ -e /proc/sys/fs/binfmt_misc/register ] || mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
  printf ':optibfm-test:M::\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\xb7\\x00:\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff:%s:F' \
    "$(command -v qemu-aarch64-static)" >/proc/sys/fs/binfmt_misc/register
  registered=1
}
emulate

if [ ! -e "$root/etc/debian_version" ]; then
  step "a clean Debian for $arch"
  mmdebstrap --quiet --arch="$arch" --variant=minbase --include=systemd,udev bookworm "$root"
fi

step "install"
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
cp "$deb" "$root/tmp/optibfm.deb"
inside dpkg -i /tmp/optibfm.deb

step "files"
expect() { # PATH MODE OWNER
  found=$(inside stat -c '%a %U:%G' "$1") || fail "$1 is missing"
  [ "$found" = "$2 $3" ] || fail "$1: found $found, want $2 $3"
  echo "$1 $found"
}
expect /usr/bin/optibfm 755 root:root
expect /etc/optibfm/robot.yaml 644 root:root
expect /usr/lib/systemd/system/optibfm.service 644 root:root
expect /etc/security/limits.d/optibfm.conf 644 root:root
expect /usr/share/optibfm/gpu.conf 644 root:root
expect /usr/lib/udev/rules.d/60-optibfm.rules 644 root:root
for file in optibfm_bridge/__init__.py dmc_bridge.py maze_bridge.py ros2_bridge.py requirements-simulators.txt; do
  expect "/usr/share/optibfm/bridges/$file" 644 root:root
done
for file in bfm.json model.safetensors prior.safetensors; do
  expect "/usr/share/optibfm/models/go2/$file" 644 root:root
done
for manual in install hardware safety labels console; do
  expect "/usr/share/doc/optibfm/docs/$manual.md" 644 root:root
done
expect /usr/share/bash-completion/completions/optibfm 644 root:root
expect /usr/share/zsh/vendor-completions/_optibfm 644 root:root
expect /usr/share/fish/vendor_completions.d/optibfm.fish 644 root:root
expect /var/lib/optibfm 1775 root:optibfm-host
expect /var/lib/optibfm/belief 2750 optibfm-host:optibfm
expect /var/lib/optibfm/models 755 root:root
expect /var/log/optibfm 2755 optibfm-host:optibfm
expect /run/optibfm 750 optibfm:optibfm
groups=$(inside id -Gn optibfm)
for group in optibfm dialout gpio i2c input; do
  grep -qw "$group" <<<"$groups" || fail "the user is not in $group: $groups"
done
echo "groups: $groups"
groups=$(inside id -Gn optibfm-host)
for group in optibfm dialout i2c; do
  ! grep -qx "$group" <<<"${groups// /$'\n'}" || fail "the host's user is in $group: $groups"
done
[ "$(inside dpkg-query -W -f='${Conffiles}' optibfm | awk 'NF {print $1}' | sort | paste -sd ' ')" = \
  "/etc/optibfm/robot.yaml /etc/security/limits.d/optibfm.conf" ] || fail "a configuration is not a conffile"
[ ! -e "$root/etc/systemd/system/multi-user.target.wants/optibfm.service" ] || fail "the service is enabled"

step "the program"
inside optibfm version
inside optibfm version | grep "linux/$arch" >/dev/null || fail "another architecture"
inside optibfm config validate /etc/optibfm/robot.yaml
inside bash -c 'source /usr/share/bash-completion/completions/optibfm && complete -p optibfm'
inside optibfm __complete config val 2>/dev/null | grep ^validate || fail "completion"
as_user() { inside setpriv --reuid=optibfm --regid=optibfm --init-groups --no-new-privs "$@"; }
if inside optibfm doctor --help 2>/dev/null | grep doctor >/dev/null; then
  as_user optibfm doctor --config /etc/optibfm/robot.yaml || echo "doctor: exit $?, as expected without devices and rights"
fi
inside optibfm run --config /etc/optibfm/robot.yaml --plain --operator scripted \
  --set loop.posture=warn --set loop.max_missed_ticks=-1 --set controller.max_plan_age_ticks=1000 --set run.host_timeout_s=60 --set run.duration_s=3 \
  --set log.min_free_gb=0.01 >"$work/run.log" 2>&1 || { cat "$work/run.log"; fail "a run of root"; }
expect /var/lib/optibfm/belief/last.task 640 optibfm-host:optibfm
for log in "$root"/var/log/optibfm/*.mcap; do expect "/var/log/optibfm/$(basename "$log")" 640 optibfm-host:optibfm; done

step "the unit"
inside systemd-analyze verify --man=no /usr/lib/systemd/system/optibfm.service
inside install -Dm644 /usr/share/optibfm/gpu.conf /etc/systemd/system/optibfm.service.d/gpu.conf
inside systemd-analyze verify --man=no /usr/lib/systemd/system/optibfm.service
rm -r "$root/etc/systemd/system/optibfm.service.d"
as_user optibfm halt --config /etc/optibfm/robot.yaml | grep "nothing to halt" || fail "halt"
inside systemd-analyze security --offline=yes --threshold=30 --no-pager /usr/lib/systemd/system/optibfm.service | tail -n 1

step "an upgrade keeps the configuration, the belief and the logs"
echo "# mine" >>"$root/etc/optibfm/robot.yaml"
inside chown -R optibfm:optibfm /var/lib/optibfm/belief /var/log/optibfm # as before the host's user existed
before=$(cd "$root" && sha256sum etc/optibfm/robot.yaml var/lib/optibfm/belief/last.task var/log/optibfm/*)
inside dpkg -i /tmp/optibfm.deb >/dev/null
[ "$before" = "$(cd "$root" && sha256sum etc/optibfm/robot.yaml var/lib/optibfm/belief/last.task var/log/optibfm/*)" ] || fail "something changed"
expect /var/lib/optibfm/belief/last.task 640 optibfm-host:optibfm
[ -z "$(find "$root/var/lib/optibfm" "$root/var/log/optibfm" -user "$(inside id -u optibfm)")" ] || fail "not the host's"
inside dpkg -r optibfm >/dev/null
[ ! -e "$root/usr/bin/optibfm" ] && [ -e "$root/etc/optibfm/robot.yaml" ] || fail "removal"
inside dpkg -P optibfm | tail -n 1
[ ! -e "$root/etc/optibfm/robot.yaml" ] && [ -s "$root/var/lib/optibfm/belief/last.task" ] || fail "purging"

step "done: $arch"
