#!/usr/bin/env bash
# Writes a disk image with Debian 12 and optibfm, for computers with UEFI:
#   scripts/image.sh arm64|amd64 --ssh-key FILE [OPTION...] OUTPUT
#   --ssh-key FILE   public keys that may log in as the user robot; nothing else may
#   --hostname NAME  default: robot
#   --wifi FILE      wpa_supplicant.conf; default: wired networks only
#   --config FILE    robot.yaml; default: the package's simulated rover
#   --deb FILE       the package; default: a package of this commit
# The service starts at boot, disarmed. docs/boards.md has the use. Needs mmdebstrap and, for another
# processor, qemu-user-static; as a user other than root also uidmap.
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "$0")/.." && pwd)
PATH=$PATH:/usr/sbin:/sbin

help() { sed -n '2,/^set/p' "$0" | sed -n 's/^# \{0,1\}//p'; }
usage() { help >&2; exit 2; }
fail() { echo "scripts/image.sh: $1" >&2; exit 1; }

hostname=robot key='' wifi='' config='' deb='' output=''
arch=${1:-}
case "$arch" in
arm64) efi=aa64 root_type=B921B045-1DF0-41C3-AF44-4C6F280D3FAE ;;
amd64) efi=x64 root_type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709 ;;
-h | --help) help; exit ;;
*) usage ;;
esac
shift
while [ $# -gt 0 ]; do
  case "$1" in
  --hostname) hostname=${2-} ;;
  --ssh-key) key=${2-} ;;
  --wifi) wifi=${2-} ;;
  --config) config=${2-} ;;
  --deb) deb=${2-} ;;
  -h | --help) help; exit ;;
  -*) usage ;;
  *) [ -z "$output" ] || usage; output=$1; shift; continue ;;
  esac
  shift 2 || usage
done
[ -n "$output" ] || usage

# Everything that can be wrong is checked before the long work.
[ -n "$key" ] || fail "--ssh-key: missing; name a public key, such as ~/.ssh/id_ed25519.pub (ssh-keygen -t ed25519 creates one)"
for file in "$key" "$wifi" "$config" "$deb"; do
  [ -z "$file" ] || [ -r "$file" ] || fail "$file: no such file, or not readable"
done
if grep -q 'PRIVATE KEY' "$key" || ! ssh-keygen -l -f "$key" >/dev/null 2>&1; then
  fail "--ssh-key: $key: not a public key; name the file that ends in .pub"
fi
[[ $hostname =~ ^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$ ]] ||
  fail "--hostname: invalid name ($hostname); use at most 63 letters a-z, digits and hyphens"
[ -z "$wifi" ] || awk '/^[ \t]*#/ {next} /network=[{]/ {networks++; bad += inside; inside = 1; ssid = key = 0; next}
  /^[ \t]*ssid=./ {ssid = 1} /^[ \t]*(psk|sae_password|key_mgmt)=./ {key = 1}
  /^[ \t]*[}]/ {bad += !(inside && ssid && key); inside = 0} END {exit !networks || inside || bad}' "$wifi" ||
  fail "--wifi: $wifi: no complete network={...} with ssid and psk, sae_password or key_mgmt; write one: wpa_passphrase SSID"
if [ -n "$config" ]; then
  shown=$(CGO_ENABLED=0 go -C "$here" run -buildvcs=false ./cmd/optibfm config show "$(realpath "$config")") || fail "--config: $config: invalid; see above"
  grep -q '^  arm: operator' <<<"$shown" || fail "--config: $config: the robot would move at every boot; set safety.arm to operator"
fi
[ ! -e "$output" ] || fail "$output: exists; remove it, or name another file"
[ -d "$(dirname "$output")" ] || fail "$output: no such folder; create it"
for tool in mmdebstrap:mmdebstrap arch-test:arch-test mke2fs:e2fsprogs mcopy:mtools sfdisk:fdisk; do
  command -v "${tool%:*}" >/dev/null || fail "${tool%:*}: not found; install ${tool#*:}"
done
arch-test "$arch" >/dev/null ||
  fail "$arch: its programs do not run here; install qemu-user-static; in a container also: mount -t binfmt_misc none /proc/sys/fs/binfmt_misc; /usr/lib/systemd/systemd-binfmt"

work=$(mktemp -d "$(realpath "$output").XXXXXX") # beside the image: it needs the space of the image three times
# as_root runs a command that sees and writes files as root: in a user namespace, unless this is root.
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else unshare --map-root-user --map-auto "$@"; fi; }
trap 'as_root rm -rf "$work"' EXIT
if [ -z "$deb" ]; then
  deb=$("$here/scripts/package.sh" "$(git -C "$here" describe --tags --always --dirty)" "$arch" "$work")
elif [ "$(dpkg-deb -f "$deb" Architecture)" != "$arch" ]; then
  fail "--deb: $deb is for $(dpkg-deb -f "$deb" Architecture); build one with scripts/package.sh VERSION $arch"
fi

# The files beside Debian's. tar makes them root's.
files=$work/files
uuid=$(cat /proc/sys/kernel/random/uuid) # of the root partition
esp=$(cat /proc/sys/kernel/random/uuid)
cp -r "$here/packaging/image" "$files"
mkdir -p "$files"/{tmp,home/robot/.ssh,etc/wpa_supplicant}
cp "$deb" "$files/tmp/optibfm.deb"
[ -z "$config" ] || cp "$config" "$files/tmp/robot.yaml"
[ -z "$wifi" ] || cp "$wifi" "$files/etc/wpa_supplicant/wpa_supplicant-wlan0.conf"
cp "$key" "$files/home/robot/.ssh/authorized_keys"
echo "$hostname" >"$files/etc/hostname"
printf '127.0.0.1 localhost\n127.0.1.1 %s\n::1 localhost\n' "$hostname" >"$files/etc/hosts"
echo "root=PARTUUID=$uuid rw rootwait panic=10" >"$files/etc/kernel/cmdline"
printf '%s\n' "PARTUUID=$uuid / ext4 errors=remount-ro,x-systemd.growfs 0 1" "PARTUUID=$esp /boot/efi vfat umask=0077 0 2" >"$files/etc/fstab"

# configure runs in the new system, after the files are there.
configure() {
  set -e
  dpkg -i /tmp/optibfm.deb
  sed -i 's/^  arm: automatic .*/  arm: operator/' /etc/optibfm/robot.yaml
  [ ! -e /tmp/robot.yaml ] || cat /tmp/robot.yaml >/etc/optibfm/robot.yaml
  useradd --create-home --shell /bin/bash --groups sudo,adm,systemd-journal,dialout,optibfm robot
  cp -n /etc/skel/.[a-z]* /home/robot/
  chown -R robot:robot /home/robot
  chmod -R go= /home/robot/.ssh
  systemctl enable optibfm ssh systemd-networkd systemd-resolved systemd-timesyncd
  systemctl disable apt-daily.timer apt-daily-upgrade.timer # they would disturb the control loop
  if [ -e /etc/wpa_supplicant/wpa_supplicant-wlan0.conf ]; then
    chmod 600 /etc/wpa_supplicant/wpa_supplicant-wlan0.conf
    mkdir /etc/systemd/system/sys-subsystem-net-devices-wlan0.device.wants
    ln -s /lib/systemd/system/wpa_supplicant@.service /etc/systemd/system/sys-subsystem-net-devices-wlan0.device.wants/wpa_supplicant@wlan0.service
  fi
  ln -sf ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf
  kernel=$(echo /boot/vmlinuz-*)
  update-initramfs -c -k "${kernel#*-}"
  kernel-install add "${kernel#*-}" "$kernel"
  sed -i 's| /boot/efi/| /|' /boot/efi/loader/entries/*.conf # paths on the partition
  for name in "systemd/systemd-boot$1.efi" "BOOT/BOOT${1^^}.EFI"; do
    install -D "/usr/lib/systemd/boot/efi/systemd-boot$1.efi" "/boot/efi/EFI/$name"
  done
  # The first boot creates what must differ between robots.
  rm -f /etc/ssh/ssh_host_* /var/lib/systemd/random-seed
}
{ declare -f configure; echo "configure $efi"; } >"$files/tmp/configure"
(cd "$files" && find . -type f | tar -c --owner=0 --group=0 --mode=u=rwX,go=rX -T - -f "$work/files.tar")

packages=systemd-sysv,systemd-boot,systemd-resolved,systemd-timesyncd,dbus,libpam-systemd,udev,kmod,linux-image-$arch,initramfs-tools,zstd
packages+=,openssh-server,sudo,ca-certificates,iproute2,iputils-ping,nano,wpasupplicant,wireless-regdb
packages+=,firmware-brcm80211,firmware-iwlwifi,firmware-realtek
echo "scripts/image.sh: Debian and its kernel" >&2
# shellcheck disable=SC2016 # the hook expands $1
INITRD=No mmdebstrap --quiet --arch="$arch" --variant=minbase --components="main non-free-firmware" --include="$packages" \
  --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
  --customize-hook="tar-in $(printf %q "$work/files.tar") /" --customize-hook='chroot "$1" bash /tmp/configure' \
  bookworm "$work/root.tar" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; fail "mmdebstrap failed"; }

echo "scripts/image.sh: the image" >&2
# partition writes the table and the file systems. The root file system has 256 MiB free, until it grows.
partition() {
  set -e
  mkdir "$work/root"
  tar -x -C "$work/root" --numeric-owner --exclude='./dev/*' -f "$work/root.tar"
  mv "$work/root/boot/efi" "$work/efi"
  mkdir "$work/root/boot/efi"
  mib=$(($(du -sm "$work/root" | cut -f 1) * 106 / 100 + 256))
  truncate -s "$((mib + 514))M" "$work/image"
  chmod 600 "$work/image" # it may contain the passphrase of Wi-Fi
  printf '%s\n' "label: gpt" "start=1MiB, size=512MiB, type=uefi, uuid=$esp" "type=$root_type, uuid=$uuid, size=${mib}MiB" |
    sfdisk --quiet "$work/image"
  mformat -i "$work/image@@1M" -F -T $((512 << 11)) -v BOOT ::
  mcopy -s -i "$work/image@@1M" "$work/efi"/* ::
  mke2fs -q -t ext4 -L root -E offset=$((513 << 20)) -d "$work/root" "$work/image" "${mib}M"
}
export work esp uuid root_type
as_root bash -c "set -u; $(declare -f partition); partition"
mv "$work/image" "$output"
echo "scripts/image.sh: $output: $(($(stat -c %s "$output") >> 20)) MiB; write it with: dd if=$output of=/dev/... bs=4M conv=fsync" >&2
