# shellcheck shell=bash disable=SC2034,SC2154
# A machine with Debian 12 and systemd, for systemd.sh and robot.sh. They source it after tools.sh.
arch=amd64 kernel=default

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

# openMachine FLAG...: reads the flags, makes the image if it is not in the cache, and prepares ssh. Then boot.
openMachine() {
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
  openWork
  image=$cache/systemd-$arch-$kernel
  [ -e "$image/disk" ] || makeImage
  configureSSH root "$image/key"
}
