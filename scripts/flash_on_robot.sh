#!/bin/sh
# The robot's side of flash.sh, as root: flash_on_robot.sh PACKAGE
# It goes on where the connection breaks, so that no robot is left half done.
set -eu

deb=$1
keep=${OPTIBFM_KEEP:-/var/cache/optibfm} # packages, so that there is a way back
config=${OPTIBFM_CONFIG:-/etc/optibfm/robot.yaml}
settle=${OPTIBFM_SETTLE_S:-5}            # for so long a version must stay up to be ready
trap '' HUP PIPE

mkdir -p "$keep"
exec 9>"$keep/lock"
flock -n 9 || { echo "flash: another flash is at work on this robot" >&2; exit 1; }
: >"$keep/flash.log"
say() {
  printf 'flash: %s\n' "$*" >>"$keep/flash.log"
  printf 'flash: %s\n' "$*" 2>/dev/null || true
}
installed() { dpkg-query -W -f='${db:Status-Status} ${Version}' optibfm 2>/dev/null | sed -n 's/^installed //p'; }
active() { systemctl --quiet is-active optibfm.service; }

install() { # PACKAGE: the configuration stays as it is, whatever the package brings
  apt-get install -y -q --allow-downgrades --reinstall \
    -o Dpkg::Options::=--force-confold -o Dpkg::Options::=--force-confdef "$1" >>"$keep/flash.log" 2>&1
}

# ready starts the service and waits for its READY, which Type=notify makes
# `systemctl restart` do, and then looks whether it stays.
ready() {
  systemctl reset-failed optibfm.service 2>/dev/null || true
  systemctl restart optibfm.service || return 1
  since=$(systemctl show -p ActiveEnterTimestampMonotonic --value optibfm.service)
  sleep "$settle"
  active && [ "$(systemctl show -p ActiveEnterTimestampMonotonic --value optibfm.service)" = "$since" ]
}

# doctor looks at the robot with the rights that the service has. What it finds
# is shown; whether the version is kept, the service's start decides.
doctor() {
  optibfm doctor --help >/dev/null 2>&1 || return 0
  say "doctor:"
  systemd-run --quiet --pipe --wait --collect -p User=optibfm -p LimitRTPRIO=95 -p LimitMEMLOCK=infinity \
    -p "SupplementaryGroups=dialout gpio i2c input" optibfm doctor --config "$config" || say "doctor is not content: see above"
}

old=$(installed || true)
was_active=no
if active; then was_active=yes; fi
new=$(dpkg-deb -f "$deb" Version)
say "installed: ${old:-nothing}; new: $new; the service was active: $was_active"

# The way back: the package of what is installed now.
back=''
if [ -n "$old" ] && [ -f "$keep/current.deb" ] && [ "$(dpkg-deb -f "$keep/current.deb" Version)" = "$old" ]; then
  cp "$keep/current.deb" "$keep/previous.deb"
  back=$keep/previous.deb
elif [ -n "$old" ]; then
  say "the package of $old is not kept here: there is no way back from this flash"
fi

if active; then
  say "halting the robot"
  systemctl stop optibfm.service
fi

problem=''
if ! install "$deb"; then
  problem="the installation failed"
elif ! optibfm config validate "$config"; then
  problem="the new version does not take $config"
else
  doctor
  say "starting"
  ready || problem="the service did not become ready"
fi

if [ -z "$problem" ]; then
  cp "$deb" "$keep/current.deb.new"
  mv "$keep/current.deb.new" "$keep/current.deb"
  say "$new is ready${back:+; $old is kept in $back}"
  exit 0
fi

say "$problem: see: journalctl -u optibfm -n 50, and $keep/flash.log"
systemctl stop optibfm.service 2>/dev/null || true
if [ -z "$back" ]; then
  say "there is no version to go back to: the service is stopped, the robot halted"
  exit 1
fi
say "going back to $old"
install "$back" || { say "going back failed too: the service is stopped, the robot halted"; exit 1; }
if [ "$was_active" = no ]; then
  say "$old is back; it was not running, and is not"
  exit 3
fi
ready || { say "$old is back, but does not become ready either: so the cause is another one"; exit 1; }
say "$old is back and ready"
exit 3
