#!/usr/bin/env bash
# Runs Go tests as root on Debian's kernel, in QEMU with TCG, and returns their status.
#
#   scripts/vm/run.sh [--arch amd64|arm64] [--keep-cache DIR] [PACKAGE[:REGEXP]...]
#
# Without packages it runs the tests of the drivers. A test that skips is a failure, as are a panic of
# the kernel and a missing module. In the machine OPTIBFM_VM is set.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/vm/tools.sh
. scripts/vm/tools.sh

arch=amd64
modules=(vivid vcan can-raw kvaser_pci evdev uinput uhid hid-cp2112 i2c-dev xhci-pci ftdi_sio)

# The other tests of these packages have short timeouts, or need a C compiler. QEMU stops the machine
# when no program reads a port.
servos='TestServos/(Arm_K|Write|Read_Repeats|Halt_Repeats|Unplugged|Echo|Tick_DoesNotAllocate$)'
drivers=(hal/can hal/composite:ArmsEvery hal/mit:'Kernel|Moves|BusOff|ArmSets|Ends'
  'hal/serial:Open|Port_(Trans|Read|Drain|Report|Reopen|Does|Inter)' "hal/dynamixel:$servos"
  "hal/feetech:$servos" 'hal/mcu:TestDevice/^[^C]' hal/i2cbus:Kernel hal/bno055 hal/mpu6050 hal/pca9685 hal/gpioline
  rewardsrc/evdev:Kernel rewardsrc/gpio:Kernel_L rewardsrc/frames:Kernel)

# debian TOOL ARGUMENT...: apt-get or apt-cache for Debian 12 of $arch, without this machine's package lists.
debian() {
  local tool=$1 apt="$cache/$arch/apt"
  shift
  "$tool" -o APT::Architecture="$arch" -o APT::Architectures="$arch" -o APT::Sandbox::User=root -o Dir::State="$apt" \
    -o Dir::State::status=/dev/null -o Dir::Cache="$apt" -o Dir::Etc::sourcelist="$apt/sources.list" \
    -o Dir::Etc::sourceparts=- "$@"
}

updated() {
  mkdir -p "$cache/$arch/apt/lists/partial" "$cache/$arch/apt/archives/partial"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main" \
    >"$cache/$arch/apt/sources.list"
  debian apt-get update -qq
}

# unpacked PACKAGE: prints the folder with the newest version of PACKAGE, from the cache if it is there.
unpacked() {
  local file folder
  file=$(debian apt-get download --print-uris "$1" | cut -d ' ' -f 2)
  [ -n "$file" ] || fail "$1 is not in Debian 12 for $arch"
  folder="$cache/$arch/${file%.deb}"
  if [ ! -d "$folder" ]; then
    rm -rf "$folder.part"
    (cd "$work" && debian apt-get download -qq "$1" && dpkg-deb -x "$file" "$folder.part" && rm "$file") >&2
    mv "$folder.part" "$folder"
  fi
  echo "$folder"
}

# addModules KERNEL: copies the modules and writes their names in the order of loading.
addModules() {
  local version module
  version=$(ls "$1/lib/modules")
  [ -e "$1/lib/modules/$version/modules.dep.bin" ] || depmod -b "$1" "$version"
  for module in "${modules[@]}"; do
    modprobe -C /dev/null -d "$1" -S "$version" --show-depends "$module" || fail "$version has no module $module"
  done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' >"$work/modules"
  mkdir "$work/root/modules"
  xargs -a "$work/modules" cp -t "$work/root/modules"
  sed 's|.*/|/modules/|' "$work/modules" >"$work/root/modules/order"
}

# addTest PACKAGE[:REGEXP]
addTest() {
  local package=${1%%:*} regexp=
  [[ $1 != *:* ]] || regexp=${1#*:}
  mkdir -p "$work/root/tests/$package"
  CGO_ENABLED=0 GOARCH=$arch go test -vet=off -ldflags='-s -w' -c -o "$work/root/tests/$package/test" "./$package"
  [ ! -d "$package/testdata" ] || cp -r "$package/testdata" "$work/root/tests/$package"
  printf '%s %s\n' "$package" "$regexp" >>"$work/root/tests/list"
}

initramfs() {
  mkdir -p "$work/root"/{bin,dev,proc,sys,tmp}
  cp "$1/bin/busybox" "$work/root/bin"
  ln -s busybox "$work/root/bin/sh"
  cp scripts/vm/init "$work/root/init"
  (cd "$work/root" && find . | cpio -o -H newc --quiet) >"$work/initramfs"
}

# boot KERNEL: two CAN controllers on a bus, and two pairs of USB serial adapters, each pair with its lines crossed.
boot() {
  local machine=(qemu-system-x86_64 -M q35 -cpu max) console=ttyS0 devices=(-object "can-bus,id=can") pair end
  [ "$arch" = amd64 ] || { machine=(qemu-system-aarch64 -M virt -cpu cortex-a72) console=ttyAMA0; }
  devices+=(-device "kvaser_pci,canbus=can" -device "kvaser_pci,canbus=can" -device "qemu-xhci,p2=8")
  for pair in a b; do
    devices+=(-chardev "socket,id=${pair}1,path=$work/$pair,server=on,wait=off")
    devices+=(-chardev "socket,id=${pair}2,path=$work/$pair")
    for end in 1 2; do devices+=(-device "usb-serial,chardev=$pair$end,always-plugged=on"); done
  done
  timeout --foreground --kill-after 10 "$deadline" "${machine[@]}" -accel tcg -smp 2 -m 1024 -nodefaults \
    -display none -serial stdio -no-reboot "${devices[@]}" -kernel "$1"/boot/vmlinuz-* -initrd "$work/initramfs" \
    -append "console=$console quiet panic=-1 oops=panic" </dev/null | tee "$work/log" || true
}

while [[ ${1:-} == --* ]]; do
  case $1 in
    --arch) arch=$2 ;;
    --keep-cache) cache=$2 ;;
    *) fail "$1 is unknown; use --arch or --keep-cache" ;;
  esac
  shift 2
done
[ $# -gt 0 ] || set -- "${drivers[@]}"
case $arch in
  amd64) installed qemu-system-x86_64 qemu-system-x86 ;;
  arm64) installed qemu-system-aarch64 qemu-system-arm ;;
  *) fail "--arch is $arch; use amd64 or arm64" ;;
esac
command -v apt-get >/dev/null || fail "apt-get is missing; use Debian"
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || fail "the keyring is missing; install debian-archive-keyring"
installed cpio cpio
installed depmod kmod

openWork
updated
kernel=$(debian apt-cache depends "linux-image-$arch" | sed -n 's/.*Depends: //p' | head -n 1)
kernel=$(unpacked "$kernel")
busybox=$(unpacked busybox-static)
for test in "$@"; do addTest "$test"; done
addModules "$kernel"
initramfs "$busybox"
echo "booting $(basename "$kernel") at $SECONDS s"
boot "$kernel"
status=$(sed -n 's/^vm: status //p' "$work/log")
[ -n "$status" ] || fail "the machine ended without a status: a panic, or a hang of more than $deadline s"
! grep -q '^ *--- SKIP' "$work/log" || fail "a test skipped: the machine lacks its interface"
! grep -q 'no tests to run' "$work/log" || fail "a pattern matches no test"
echo "status $status at $SECONDS s"
exit "$status"
