#!/usr/bin/env bash
# Tests the Debian package in a booted Debian 12 with systemd, in QEMU with TCG.
#
#   scripts/vm/systemd.sh [--arch amd64|arm64] [--kernel default|rt] [--keep-cache DIR]
#
# With rt it boots Debian's kernel with PREEMPT_RT. It prints one line per check and the output of flash.sh,
# and ends at the first failure. scripts/vm/systemd_checks.sh has the checks.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/vm/tools.sh
. scripts/vm/tools.sh
# shellcheck source=scripts/vm/machine.sh
. scripts/vm/machine.sh

checks=scripts/vm/systemd_checks.sh
factor=${OPTIBFM_VM_FACTOR:-1} # of the limits of waits

# flashes STATUS DEB: flash.sh installs DEB and exits with STATUS.
flashes() {
  local status=0
  scripts/flash.sh --deb "$2" alice@robot >"$work/flash" 2>&1 || status=$?
  [ "$status" = "$1" ] || fail "flash.sh $2: exit status $status, want $1: $(cat "$work/flash")"
  sed 's/^/    /' "$work/flash"
  echo "ok: flash.sh exits with $1"
}

# broken VERSION: makes a package whose program refuses to run.
broken() {
  dpkg-deb -R "$work/optibfm_0.0.2_$arch.deb" "$work/broken"
  sed -i 's/^Version: .*/Version: 0.0.3/' "$work/broken/DEBIAN/control"
  sed -i 's|^ExecStart=.*|ExecStart=/bin/false|' "$work/broken/usr/lib/systemd/system/optibfm.service"
  dpkg-deb -b --root-owner-group "$work/broken" "$work/optibfm_0.0.3_$arch.deb" >/dev/null
}

# shellcheck disable=SC2029 # $1 expands here
check() { ssh robot "OPTIBFM_VM_FACTOR=${factor@Q} bash /root/checks $1" || fail "check $1"; }

openMachine "$@"
for version in v0.0.1 v0.0.2; do scripts/package.sh "$version" "$arch" "$work" >/dev/null; done
broken
CGO_ENABLED=0 GOARCH=$arch go test -c -ldflags=-w -o "$work/optibfm.test" ./internal/cli
echo "image and packages at $SECONDS s"
boot
waitForBoot none
scp -q "$checks" robot:/root/checks
scp -q "$work"/*.deb "$work/optibfm.test" robot:/root/
for group in install_and_start "posture $kernel" socket two_users priorities sandbox exits upgrade; do check "$group"; done
flashes 0 "$work/optibfm_0.0.1_$arch.deb"
check "flashed 0.0.1"
flashes 0 "$work/optibfm_0.0.2_$arch.deb"
check "flashed 0.0.2"
flashes 3 "$work/optibfm_0.0.3_$arch.deb"
check "flashed 0.0.2"
check before_reboot
id=$(ssh robot cat /proc/sys/kernel/random/boot_id)
ssh robot systemctl reboot || true # the connection ends
waitForBoot "$id"
check after_reboot
check removal
echo "passed at $SECONDS s"
