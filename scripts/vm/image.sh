#!/usr/bin/env bash
# Builds an image with scripts/image.sh and tests it in QEMU with UEFI and TCG: two boots.
#
#   scripts/vm/image.sh [--arch arm64|amd64] [--keep-cache DIR]
#
# It prints one line per check and ends at the first failure. arm64 needs qemu-user-static for the build.
# QEMU has no Wi-Fi device: only the files of Wi-Fi are tested.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/vm/tools.sh
. scripts/vm/tools.sh

# ok NAME COMMAND...: a check.
ok() {
  local name=$1 out
  shift
  out=$("$@" 2>&1) || fail "$name: $*: $out"
  echo "ok: $name${out:+: $(head -c 300 <<<"$out" | tr '\n' ' ')}"
}
refused() { ! "$@"; }

# image makes the image and what its test needs: a key, a Wi-Fi file and a configuration. QEMU misses
# deadlines. Everything else of the configuration is the package's.
image() {
  local new=$cache/image-$arch.part
  rm -rf "$built" "$new"
  mkdir -p "$new"
  ssh-keygen -q -t ed25519 -N '' -f "$new/key"
  printf 'country=CH\nnetwork={\n  ssid="field"\n  psk="not a secret"\n}\n' >"$new/wifi.conf"
  sed "s/arm: automatic/arm: operator/; s/max_missed_ticks: 5 /max_missed_ticks: -1 /; s/watchdog_ms: 200 /watchdog_ms: 900 /
    s/max_plan_age_ticks: 50 /max_plan_age_ticks: 1000 /" packaging/robot.yaml >"$new/robot.yaml"
  scripts/image.sh "$arch" --hostname test-rover --ssh-key "$new/key.pub" --wifi "$new/wifi.conf" --config "$new/robot.yaml" "$new/disk"
  mv "$new" "$built"
  echo "image: $(($(stat -c %s "$built/disk") >> 20)) MiB, built at $SECONDS s"
}

# boot starts the machine. Its disk is larger than the image.
boot() {
  cp --sparse=always "$built/disk" "$work/disk"
  truncate -s 8G "$work/disk"
  cp "${firmware/CODE/VARS}" "$work/vars"
  "${qemu[@]}" -smp 2 -m 2048 -display none -monitor none -serial "file:$work/console" \
    -drive "if=pflash,format=raw,readonly=on,file=$firmware" -drive "if=pflash,format=raw,file=$work/vars" \
    -drive "file=$work/disk,if=virtio,format=raw" -device i6300esb -action watchdog=reset \
    -nic "user,model=virtio-net-pci,restrict=on,hostfwd=tcp:127.0.0.1:$port-:22" </dev/null &
  machine=$!
}

# shellcheck disable=SC2029 # the arguments expand here
on() { ssh robot "$@"; }
journal() { on journalctl -b -u optibfm -o cat --no-pager | grep -- "$1"; }
is_disarmed() { on sudo optibfm status -c /etc/optibfm/robot.yaml | grep 'rover is disarmed'; }
no_unit_failed() { local failed; failed=$(on systemctl list-units --failed --plain --no-legend); [ -z "$failed" ] || { echo "$failed"; return 1; }; }
root_mib() { on df --output=size -BM / | tail -n 1 | tr -dc 0-9; }
host_keys() { on 'cat /etc/ssh/ssh_host_*.pub'; }
no_host_keys() { local found; found=$(debugfs -R 'ls -p /etc/ssh' "$built/disk?offset=$((513 << 20))" 2>&1); grep sshd_config <<<"$found" && refused grep ssh_host_ <<<"$found"; }
# kernel_package writes the entry of the next boot, like an update of the kernel.
kernel_package() {
  on sudo INITRD=No sh -e <<'END'
rm -r /boot/efi/loader/entries/* /boot/efi/debian
run-parts --arg="$(uname -r)" --arg="/boot/vmlinuz-$(uname -r)" /etc/kernel/postinst.d
cat /boot/efi/loader/entries/*
END
}

# booted: the checks after each boot.
booted() {
  ok "no unit failed" no_unit_failed
  ok "the service is active" on systemctl is-active optibfm
  ok "starts disarmed" is_disarmed
}

arch=arm64
while [[ ${1:-} == --* ]]; do
  case "$1" in
  --arch) arch=$2 ;;
  --keep-cache) cache=$2 ;;
  *) fail "$1 is unknown; use --arch or --keep-cache" ;;
  esac
  shift 2
done
case "$arch" in
arm64) qemu=(qemu-system-aarch64 -M virt -cpu cortex-a72) firmware=/usr/share/AAVMF/AAVMF_CODE.fd packages="qemu-system-arm qemu-efi-aarch64" ;;
amd64) qemu=(qemu-system-x86_64 -M q35 -cpu max -accel tcg) firmware=/usr/share/OVMF/OVMF_CODE_4M.fd packages="qemu-system-x86 ovmf" ;;
*) fail "--arch: $arch is unknown; use arm64 or amd64" ;;
esac
installed "${qemu[0]}" "${packages% *}"
[ -e "$firmware" ] || installed "$firmware" "${packages#* }"
installed mmdebstrap mmdebstrap
installed arch-test arch-test
installed mcopy mtools
installed sfdisk fdisk
installed ssh openssh-client
openWork
built=$cache/image-$arch
[ -e "$built/disk" ] || image
configureSSH robot "$built/key"
go build -o "$work/optibfm" ./cmd/optibfm

ok "the image has no host keys" no_host_keys
boot
waitForBoot none
booted
size=$(root_mib) keys=$(host_keys)
ok "the file system grew" test "$size" -gt 7000
ok "hostname" test "$(on hostname)" = test-rover
ok "machine-id" on 'test -s /etc/machine-id && cat /etc/machine-id'
ok "host keys are new" test -n "$keys"
ok "passwords are refused" grep -F '(publickey)' <(ssh -o PubkeyAuthentication=no -o LogLevel=INFO -o BatchMode=yes robot true 2>&1)
ok "root is refused" refused ssh -o BatchMode=yes root@robot true
ok "Wi-Fi: only root reads the file" test "$(on stat -c '%a:%U' /etc/wpa_supplicant/wpa_supplicant-wlan0.conf)" = 600:root
ok "Wi-Fi: starts with wlan0" on systemctl show -p Wants --value sys-subsystem-net-devices-wlan0.device
ok "no swap" test "$(on cat /proc/swaps | wc -l)" = 1
on sudo -u optibfm optibfm doctor -c /etc/optibfm/robot.yaml || echo "doctor: exit status $?"
ok "arms by hand" on sudo optibfm arm -c /etc/optibfm/robot.yaml
url=$(journal 'http://' | grep -o 'http://127.0.0.1:[0-9]*/#[^ ]*' | tail -n 1)
ok "the journal has the address of the console" test -n "$url"
ssh -f -N -M -S "$work/forward" -o ExitOnForwardFailure=yes -L "8642:127.0.0.1:8642" robot
ok "a label through the forwarded console" env OPTIBFM_CONSOLE="$url" go test -count=1 -run TestConsole_ForwardedLabelCounts ./internal/cli
ssh -q -S "$work/forward" -O exit robot
ok "a kernel package writes the boot entry" kernel_package
id=$(on cat /proc/sys/kernel/random/boot_id)
on sudo systemctl reboot || true # the connection ends
waitForBoot "$id"
booted
ok "starts from the saved belief" journal 'the run starts from the belief'
ok "the file system stays" test "$(root_mib)" = "$size"
ok "host keys stay" test "$(host_keys)" = "$keys"
on sudo systemctl stop optibfm
scp -q 'robot:/var/log/optibfm/*.mcap' "$work/"
for log in "$work"/*.mcap; do ok "replay of $(basename "$log")" "$work/optibfm" replay "$log"; done
ok "the first log has the label" grep '"value":1,' <("$work/optibfm" log cat --topic /label "$(find "$work" -name '*.mcap' | sort | head -n 1)")
id=$(on cat /proc/sys/kernel/random/boot_id)
# ssh returns before the crash because the shell in the background holds none of its streams.
on sudo sh -c "'echo 0 >/proc/sys/kernel/panic; (sleep 2; echo c >/proc/sysrq-trigger) </dev/null >/dev/null 2>&1 &'"
waitForBoot "$id"
ok "the watchdog resets a computer that hangs" true
booted
echo "passed at $SECONDS s"
