#!/usr/bin/env bash
# Tests the Debian package in a booted Debian 12 with systemd, in QEMU with TCG.
#
#   scripts/vm/systemd.sh [--keep-cache DIR]
#
# It prints one line per check and ends at the first failure. scripts/vm/systemd_checks.sh has the checks.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/vm/tools.sh
. scripts/vm/tools.sh

checks=scripts/vm/systemd_checks.sh

# image makes the root file system, the kernel and the key of its user root.
image() {
  local root="$work/root"
  rm -rf "$cache/systemd" "$cache/systemd.part"
  mkdir -p "$cache/systemd.part"
  mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,udev,openssh-server,iproute2,linux-image-amd64 \
    bookworm "$root" || fail "mmdebstrap failed; it needs root, or unprivileged user namespaces"
  printf '[Match]\nName=en*\n[Network]\nAddress=10.0.2.15/24\n' >"$root/etc/systemd/network/80-vm.network"
  ln -sf /lib/systemd/system/systemd-networkd.service "$root/etc/systemd/system/multi-user.target.wants/"
  echo optibfm-vm >"$root/etc/hostname"
  ssh-keygen -q -t ed25519 -N '' -f "$cache/systemd.part/key"
  install -Dm600 "$cache/systemd.part/key.pub" "$root/root/.ssh/authorized_keys"
  cp "$root"/boot/vmlinuz-* "$cache/systemd.part/vmlinuz"
  cp "$root"/boot/initrd.img-* "$cache/systemd.part/initrd"
  mke2fs -q -t ext4 -d "$root" "$cache/systemd.part/disk" 2G
  mv "$cache/systemd.part" "$cache/systemd"
}

# boot starts the machine. Its changes of the disk last until it ends.
boot() {
  TMPDIR=$work qemu-system-x86_64 -M q35 -cpu max -accel tcg -smp 2 -m 1024 -display none -monitor none \
    -serial "file:$work/console" -kernel "$cache/systemd/vmlinuz" -initrd "$cache/systemd/initrd" \
    -append "root=/dev/vda rw console=ttyS0 quiet panic=-1" -drive "file=$cache/systemd/disk,if=virtio,format=raw,snapshot=on" \
    -nic "user,model=virtio-net-pci,restrict=on,hostfwd=tcp:127.0.0.1:$port-:22" </dev/null &
  machine=$!
}

# flashes STATUS DEB: flash.sh installs DEB and exits with STATUS.
flashes() {
  local status=0
  scripts/flash.sh --deb "$2" robot >"$work/flash" 2>&1 || status=$?
  [ "$status" = "$1" ] || fail "flash.sh $2: exit status $status, want $1: $(cat "$work/flash")"
  echo "ok: flash.sh exits with $1"
}

# broken VERSION: makes a package whose program refuses to run.
broken() {
  dpkg-deb -R "$work/optibfm_0.0.2_amd64.deb" "$work/broken"
  sed -i 's/^Version: .*/Version: 0.0.3/' "$work/broken/DEBIAN/control"
  sed -i 's|^ExecStart=.*|ExecStart=/bin/false|' "$work/broken/usr/lib/systemd/system/optibfm.service"
  dpkg-deb -b --root-owner-group "$work/broken" "$work/optibfm_0.0.3_amd64.deb" >/dev/null
}

# shellcheck disable=SC2029 # $1 expands here
check() { ssh robot "bash /root/checks $1" || fail "check $1"; }

while [[ ${1:-} == --* ]]; do
  [ "$1" = --keep-cache ] || fail "$1 is unknown; use --keep-cache"
  cache=$2
  shift 2
done
installed qemu-system-x86_64 qemu-system-x86
installed mmdebstrap mmdebstrap
installed ssh openssh-client

work=$(mktemp -d) machine=
trap '[ -z "$machine" ] || kill "$machine"; rm -rf "$work"' EXIT
mkdir -p "$cache"
cache=$(realpath "$cache")
port=$((20000 + $$ % 10000))
[ -e "$cache/systemd/disk" ] || image
configureSSH root "$cache/systemd/key"
for version in v0.0.1 v0.0.2; do scripts/package.sh "$version" amd64 "$work" >/dev/null; done
broken
echo "image and packages at $SECONDS s"
boot
waitForBoot none
scp -q "$checks" robot:/root/checks
scp -q "$work"/*.deb robot:/root/
for group in install_and_start sandbox exits upgrade; do check "$group"; done
flashes 0 "$work/optibfm_0.0.1_amd64.deb"
check "flashed 0.0.1"
flashes 3 "$work/optibfm_0.0.3_amd64.deb"
check "flashed 0.0.1"
check before_reboot
id=$(ssh robot cat /proc/sys/kernel/random/boot_id)
ssh robot systemctl reboot || true # the connection ends
waitForBoot "$id"
check after_reboot
check removal
echo "passed at $SECONDS s"
