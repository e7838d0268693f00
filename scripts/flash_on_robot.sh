#!/bin/sh
# The robot's side of flash.sh, as root: flash_on_robot.sh PACKAGE
# It ignores a broken connection, so that it always completes.
set -eu

deb=$1
keep=${OPTIBFM_KEEP:-/var/cache/optibfm} # the packages of this and of the previous version
config=${OPTIBFM_CONFIG:-/etc/optibfm/robot.yaml}
settle=${OPTIBFM_SETTLE_S:-5}            # a ready version stays up for so long
trap '' HUP PIPE

mkdir -p "$keep"
exec 9>"$keep/lock"
flock -n 9 || { echo "flash: another flash is running on this robot; wait for its end" >&2; exit 1; }
: >"$keep/flash.log"
say() {
  printf 'flash: %s\n' "$*" >>"$keep/flash.log"
  printf 'flash: %s\n' "$*" 2>/dev/null || true
}
installed() { dpkg-query -W -f='${db:Status-Status} ${Version}' optibfm 2>/dev/null | sed -n 's/^installed //p'; }
active() { systemctl --quiet is-active optibfm.service; }
# running: also between two restarts.
running() { case "$(systemctl is-active optibfm.service)" in inactive | failed | unknown | "") return 1 ;; esac; }

install() { # PACKAGE: keeps the configuration of the robot
  apt-get install -y -q --allow-downgrades --reinstall \
    -o Dpkg::Options::=--force-confold -o Dpkg::Options::=--force-confdef "$1" >>"$keep/flash.log" 2>&1
}

# ready starts the service, waits for its READY (Type=notify), and checks that it stays up.
ready() {
  systemctl reset-failed optibfm.service 2>/dev/null || true
  systemctl restart optibfm.service || return 1
  since=$(systemctl show -p ActiveEnterTimestampMonotonic --value optibfm.service)
  sleep "$settle"
  active && [ "$(systemctl show -p ActiveEnterTimestampMonotonic --value optibfm.service)" = "$since" ]
}

# doctor checks the robot with the rights of the service. Its findings are only printed: the start of the
# service decides.
doctor() {
  optibfm doctor --help >/dev/null 2>&1 || return 0
  say "doctor:"
  systemd-run --quiet --pipe --wait --collect -p User=optibfm -p LimitRTPRIO=95 -p LimitMEMLOCK=infinity \
    -p "SupplementaryGroups=dialout gpio i2c input video" optibfm doctor --config "$config" ||
    say "the doctor found problems, see above; the start of the service decides"
}

old=$(installed || true)
was_active=no
if running; then was_active=yes; fi
new=$(dpkg-deb -f "$deb" Version)
say "installed: ${old:-nothing}; new: $new; the service is running: $was_active"

# The package of the installed version, to restore it.
back=''
if [ -n "$old" ] && [ -f "$keep/current.deb" ] && [ "$(dpkg-deb -f "$keep/current.deb" Version)" = "$old" ]; then
  cp "$keep/current.deb" "$keep/previous.deb"
  back=$keep/previous.deb
elif [ -n "$old" ]; then
  say "no package of $old in $keep: if $new fails, $old cannot be restored"
fi

if running; then
  say "halting the robot"
  systemctl stop optibfm.service
fi

problem=''
if ! install "$deb"; then
  problem="the installation failed"
elif ! optibfm config validate "$config"; then
  problem="the new version refuses $config"
else
  doctor
  say "starting the service"
  ready || problem="the service did not become ready"
fi

if [ -z "$problem" ]; then
  cp "$deb" "$keep/current.deb.new"
  mv "$keep/current.deb.new" "$keep/current.deb"
  say "$new is ready${back:+; $old is kept in $back}"
  exit 0
fi

say "$problem; see: journalctl -u optibfm -n 50, and $keep/flash.log"
systemctl stop optibfm.service 2>/dev/null || true
if [ -z "$back" ]; then
  say "no previous version to restore: the service is stopped, the robot halted"
  exit 1
fi
say "restoring $old"
install "$back" || { say "restoring failed too: the service is stopped, the robot halted"; exit 1; }
if [ "$was_active" = no ]; then
  say "$old is restored; it was not running, and is not started"
  exit 3
fi
ready || { say "$old is restored, but does not become ready either: the cause is elsewhere"; exit 1; }
say "$old is restored and ready"
exit 3
