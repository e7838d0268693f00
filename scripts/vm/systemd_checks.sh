#!/usr/bin/env bash
# The checks of systemd.sh, as root inside the machine: systemd_checks.sh GROUP
set -euo pipefail

config=/etc/optibfm/robot.yaml
fail() { echo "FAIL: $1" >&2; journalctl -u optibfm --no-pager -n 30 | grep -v █ >&2; exit 1; }

# ok NAME COMMAND...: a check.
ok() {
  local name=$1 out
  shift
  out=$("$@" 2>&1) || fail "$name: $*: $out"
  echo "ok: $name"
}
refused() { ! "$@"; }
prop() { systemctl show -p "$1" --value optibfm.service; }
is() { local found; found=$(prop "$1"); [ "$found" = "$2" ] || { echo "$1 is $found"; return 1; }; }
status() { optibfm status -c "$config"; }
is_disarmed() { status | grep 'rover is disarmed'; }
journal() { journalctl -u optibfm --no-pager "${@:2}" | grep -- "$1"; }
package_is() { [ "$(dpkg-query -W -f='${Status} ${Version}' optibfm)" = "install ok installed $1" ]; }
# inside runs a command as root in the mount namespace of the service.
inside() { nsenter -t "$(prop MainPID)" -m "$@"; }

# within SECONDS COMMAND...: waits until COMMAND succeeds.
within() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do [ "$SECONDS" -lt "$end" ] || return 1; sleep 0.5; done
}
restarted() { [ "$(prop NRestarts)" -gt 0 ] && is ActiveState active && is_disarmed; }

# restarts_after NAME SIGNAL: systemd halts the robot and starts another control process.
restarts_after() {
  local since
  systemctl stop optibfm
  systemctl reset-failed optibfm 2>/dev/null || true # the limit of starts
  ok "starts" systemctl start optibfm
  since=$(date +%s)
  kill -"$2" "$(prop MainPID)"
  ok "$1: restarts, disarmed" within 60 restarted
  ok "$1: halts" journal 'nothing to halt' --since "@$since"
}

install_and_start() {
  ok "no unit failed at boot" test -z "$(systemctl list-units --failed --no-legend)"
  ok "installs" apt-get install -y -q /root/optibfm_0.0.1_amd64.deb
  ok "is not enabled" refused systemctl --quiet is-enabled optibfm
  ok "is not started" is ActiveState inactive
  # QEMU misses deadlines. Everything else is as installed.
  sed -i 's/arm: automatic/arm: operator/; s/max_missed_ticks: 5 /max_missed_ticks: -1 /; s/max_plan_age_ticks: 50 /max_plan_age_ticks: 1000 /' "$config"
  ok "starts with READY" systemctl start optibfm
  ok "starts disarmed" is_disarmed
  ok "root arms" optibfm arm -c "$config"
  ok "root disarms" optibfm disarm -c "$config"
  ok "journal" journal 'disarmed; to enable motion: optibfm arm'
}

sandbox() {
  local pid
  pid=$(prop MainPID)
  ok "user" test "$(stat -c %U:%G "/proc/$pid")" = optibfm:optibfm
  for group in dialout gpio i2c input; do
    ok "group $group" grep -qw "$(getent group "$group" | cut -d : -f 3)" <(grep Groups "/proc/$pid/status")
  done
  ok "systemd-analyze security" systemd-analyze security --threshold=30 --no-pager optibfm.service
  for folder in /var/lib/optibfm /var/log/optibfm /run/optibfm; do ok "writes $folder" inside sh -c "touch $folder/x && rm $folder/x"; done
  for folder in /etc/optibfm /usr /var/cache; do ok "cannot write $folder" refused inside touch "$folder/x"; done
  ok "cannot see /root" refused inside ls /root/optibfm_0.0.1_amd64.deb
}

exits() {
  restarts_after "watchdog (SIGSTOP)" STOP
  ok "watchdog: reported" journal 'Watchdog timeout'
  restarts_after "SIGKILL" KILL
  ok "starts with its belief" journal 'the run starts from the belief'
  ok "a hung process ends soon" is TimeoutAbortUSec 5s
  ok "clean stop" systemctl stop optibfm
  ok "clean stop: inactive" is ActiveState inactive
  ok "clean stop: success" is Result success
  ok "starts again" systemctl start optibfm
  optibfm arm -c "$config" >/dev/null
  ok "operator's stop" optibfm stop -c "$config"
  ok "operator's stop: final" within 20 is ActiveState inactive
  ok "operator's stop: success" is Result success
  echo "unknown: 1" >>"$config"
  ok "invalid configuration: does not start" refused systemctl start optibfm
  ok "invalid configuration: ends after five starts" within 60 is ActiveState failed
  ok "invalid configuration: reported" journal 'unknown key unknown' -n 50
}

# upgrade starts with a service that systemd restarts again and again.
upgrade() {
  systemctl reset-failed optibfm
  systemctl start optibfm 2>/dev/null || true
  ok "removal between two restarts" dpkg -r optibfm
  ok "removal: nothing failed" test -z "$(systemctl list-units --failed --no-legend)"
  sed -i '/^unknown/d' "$config"
  dpkg -i /root/optibfm_0.0.1_amd64.deb >/dev/null 2>&1
  ok "starts after the removal" systemctl start optibfm
  optibfm arm -c "$config" >/dev/null
  ok "upgrade" dpkg -i /root/optibfm_0.0.2_amd64.deb
  ok "upgrade: version" package_is 0.0.2
  ok "upgrade: runs again, disarmed" within 30 is_disarmed
  ok "upgrade: keeps the configuration" grep 'arm: operator' "$config"
  dpkg-deb -R /root/optibfm_0.0.2_amd64.deb /tmp/refuses
  printf '#!/bin/sh\nexit 1\n' | install -m 755 /dev/stdin /tmp/refuses/DEBIAN/preinst
  dpkg-deb -b --root-owner-group /tmp/refuses /tmp/refuses.deb >/dev/null
  ok "upgrade that fails" refused dpkg -i /tmp/refuses.deb
  ok "upgrade that fails: the previous version runs again" within 30 is_disarmed
}

flashed() { # VERSION
  ok "flash: $1 is installed" package_is "$1"
  ok "flash: $1 runs, disarmed" is_disarmed
}
before_reboot() {
  ok "enable" systemctl enable optibfm
  ok "a belief is saved" test -s /var/lib/optibfm/belief/belief
}
after_reboot() {
  ok "reboot: starts, disarmed" within 30 is_disarmed
  ok "reboot: loads the belief" journal 'the run starts from the belief' -b
  ok "reboot: no unit failed" test -z "$(systemctl list-units --failed --no-legend)"
}
removal() {
  ok "removal" dpkg -r optibfm
  ok "removal: stopped" is ActiveState inactive
  ok "removal: disabled" test ! -L /etc/systemd/system/multi-user.target.wants/optibfm.service
  ok "removal: keeps the configuration" test -s "$config"
  ok "purge" dpkg -P optibfm
  ok "purge: removes the configuration" test ! -e /etc/optibfm -a ! -e /run/optibfm -a ! -e /var/cache/optibfm
  ok "purge: keeps belief and logs" test -s /var/lib/optibfm/belief/belief -a -n "$(ls /var/log/optibfm)"
}

"$@"
