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

checks=scripts/vm/systemd_checks.sh
arch=amd64 kernel=default
factor=${OPTIBFM_VM_FACTOR:-1} # of the limits of waits

# emulated: this computer runs programs for $arch, with qemu-user if need be.
emulated() {
  local registry=/proc/sys/fs/binfmt_misc
  installed arch-test arch-test
  ! arch-test "$arch" >/dev/null 2>&1 || return 0
  installed qemu-aarch64-static qemu-user-static
  [ -e "$registry/register" ] || mount -t binfmt_misc binfmt_misc "$registry" || fail "no binfmt_misc; it needs root"
  arch-test "$arch" >/dev/null 2>&1 || cat /usr/lib/binfmt.d/qemu-aarch64.conf >"$registry/register"
  arch-test "$arch" >/dev/null || fail "no programs for $arch run here"
}

# makeImage makes the root file system, the kernel and the key of its user root.
makeImage() {
  local root="$work/root" linux=linux-image-$arch
  [ "$kernel" = default ] || linux=linux-image-rt-$arch
  emulated
  rm -rf "$image" "$image.part"
  mkdir -p "$image.part"
  # Only the modules of the disk: making an initramfs with all takes half an hour for arm64.
  # shellcheck disable=SC2016 # mmdebstrap expands $1
  mmdebstrap --quiet --variant=minbase --arch="$arch" \
    --essential-hook='mkdir -p "$1/etc/initramfs-tools/conf.d" "$1/usr/share/initramfs-tools/modules.d"' \
    --essential-hook='echo MODULES=list >"$1/etc/initramfs-tools/conf.d/vm"' \
    --essential-hook='printf "virtio_%s\n" pci blk >"$1/usr/share/initramfs-tools/modules.d/vm"' \
    --essential-hook='printf "%s\n" crc32c_generic ext4 >>"$1/usr/share/initramfs-tools/modules.d/vm"' \
    --include="systemd,systemd-sysv,dbus,udev,openssh-server,iproute2,sudo,$linux" bookworm "$root" ||
    fail "mmdebstrap failed; it needs root, or unprivileged user namespaces"
  printf '[Match]\nName=en*\n[Network]\nAddress=10.0.2.15/24\n' >"$root/etc/systemd/network/80-vm.network"
  ln -sf /lib/systemd/system/systemd-networkd.service "$root/etc/systemd/system/multi-user.target.wants/"
  echo optibfm-vm >"$root/etc/hostname"
  echo 127.0.1.1 optibfm-vm >>"$root/etc/hosts" # for sudo
  ssh-keygen -q -t ed25519 -N '' -f "$image.part/key"
  install -Dm600 "$image.part/key.pub" "$root/root/.ssh/authorized_keys"
  cp "$root"/boot/vmlinuz-* "$image.part/vmlinuz"
  cp "$root"/boot/initrd.img-* "$image.part/initrd"
  mke2fs -q -t ext4 -d "$root" "$image.part/disk" 2G
  mv "$image.part" "$image"
}

# boot starts the machine. Its changes of the disk last until it ends.
boot() {
  local machine_type=(qemu-system-x86_64 -M q35 -cpu max) console=ttyS0
  [ "$arch" = amd64 ] || { machine_type=(qemu-system-aarch64 -M virt -cpu cortex-a72) console=ttyAMA0; }
  TMPDIR=$work "${machine_type[@]}" -accel tcg -smp 2 -m 1024 -display none -monitor none \
    -serial "file:$work/console" -kernel "$image/vmlinuz" -initrd "$image/initrd" \
    -append "root=/dev/vda rw console=$console quiet panic=-1" \
    -drive "file=$image/disk,if=virtio,format=raw,snapshot=on" \
    -nic "user,model=virtio-net-pci,restrict=on,hostfwd=tcp:127.0.0.1:$port-:22" </dev/null &
  machine=$!
}

# configureSSH makes programs ssh and scp that reach the machine as "robot".
configureSSH() {
  local program
  printf '%s\n' "Host robot" "HostName 127.0.0.1" "Port $port" "User root" "IdentityFile $image/key" "LogLevel ERROR" \
    "StrictHostKeyChecking no" "UserKnownHostsFile /dev/null" "ConnectTimeout 20" >"$work/ssh_config"
  mkdir "$work/bin"
  for program in ssh scp; do
    printf '#!/bin/sh\nexec %s -F %s "$@"\n' "$(command -v "$program")" "$work/ssh_config" >"$work/bin/$program"
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
check() { ssh robot "OPTIBFM_VM_FACTOR=$factor bash /root/checks $1" || fail "check $1"; }

while [[ ${1:-} == --* ]]; do
  case $1 in
    --arch) arch=$2 ;;
    --kernel) kernel=$2 ;;
    --keep-cache) cache=$2 ;;
    *) fail "$1 is unknown; use --arch, --kernel or --keep-cache" ;;
  esac
  shift 2
done
case $kernel in default | rt) ;; *) fail "--kernel is $kernel; use default or rt" ;; esac
case $arch in
  amd64) installed qemu-system-x86_64 qemu-system-x86 ;;
  arm64) installed qemu-system-aarch64 qemu-system-arm ;;
  *) fail "--arch is $arch; use amd64 or arm64" ;;
esac
installed mmdebstrap mmdebstrap
installed ssh openssh-client

work=$(mktemp -d) machine=
trap '[ -z "$machine" ] || kill "$machine"; rm -rf --one-file-system "$work"' EXIT
mkdir -p "$cache"
cache=$(realpath "$cache")
image=$cache/systemd-$arch-$kernel
port=$((20000 + $$ % 10000))
[ -e "$image/disk" ] || makeImage
configureSSH
for version in v0.0.1 v0.0.2; do scripts/package.sh "$version" "$arch" "$work" >/dev/null; done
broken
echo "image and packages at $SECONDS s"
boot
waitForBoot none
scp -q "$checks" robot:/root/checks
scp -q "$work"/*.deb robot:/root/
for group in install_and_start "posture $kernel" socket priorities sandbox exits upgrade; do check "$group"; done
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
