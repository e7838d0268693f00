#!/usr/bin/env bash
# The checks of systemd.sh, as root inside the machine: systemd_checks.sh GROUP
# OPTIBFM_VM_FACTOR multiplies the limits of waits.
set -euo pipefail

config=/etc/optibfm/robot.yaml
arch=$(dpkg --print-architecture)
fail() { echo "FAIL: $1" >&2; journalctl -u optibfm --no-pager -n 30 >&2; exit 1; }

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
  local end=$((SECONDS + $1 * ${OPTIBFM_VM_FACTOR:-1}))
  shift
  until "$@" >/dev/null 2>&1; do [ "$SECONDS" -lt "$end" ] || return 1; sleep 0.5; done
}
restarted() { [ "$(prop NRestarts)" -gt 0 ] && is ActiveState active && is_disarmed; }

# arms arms the robot once the planner has a plan.
arms() { within 30 optibfm arm -c "$config"; }

restart() {
  systemctl stop optibfm
  systemctl reset-failed optibfm 2>/dev/null || true # the limit of starts
  systemctl start optibfm
}

# restarts_after NAME SIGNAL: systemd halts the robot and starts another control process.
restarts_after() {
  local since
  ok "starts" restart
  since=$(date +%s)
  kill -"$2" "$(prop MainPID)"
  ok "$1: restarts, disarmed" within 60 restarted
  ok "$1: halts" journal 'nothing to halt' --since "@$since"
}

# people adds an administrator and another user.
people() {
  useradd -m alice
  useradd -m bob
  echo 'alice ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/alice
  install -d -o alice -g alice -m 700 ~alice/.ssh
  install -o alice -g alice -m 600 ~/.ssh/authorized_keys ~alice/.ssh/
}

install_and_start() {
  people
  ok "no unit failed at boot" test -z "$(systemctl list-units --failed --no-legend)"
  ok "installs" apt-get install -y -q "/root/optibfm_0.0.1_$arch.deb"
  ok "is not enabled" refused systemctl --quiet is-enabled optibfm
  ok "is not started" is ActiveState inactive
  # QEMU is slow, and stands still for up to half a second on a busy computer. Everything else is as installed.
  sed -i 's/arm: automatic/arm: operator/; s/max_missed_ticks: 5 /max_missed_ticks: -1 /
    s/max_plan_age_ticks: 50 /max_plan_age_ticks: 1000 /; s/watchdog_ms: 200 /watchdog_ms: 10000 /
    s/period_ms: 50 /period_ms: 200 /; s/^  driver: rover .*/&\n  rover: {period_ms: 200}/' "$config"
  ok "starts with READY" systemctl start optibfm
  ok "starts disarmed" is_disarmed
  ok "root arms" arms
  ok "root disarms" optibfm disarm -c "$config"
  ok "journal" journal 'disarmed; to enable motion: optibfm arm'
}

# said: prints, from standard input, what a doctor, a run or the kernel says, in the same words.
said() {
  sed -nE 's/.*(cpus|fifo_priority|lock_memory|timer_slack_ns): ([^:]*: )?(not )?granted.*/\1 \3granted/p
    s/.*(preemption|kernel): (no )?PREEMPT_RT.*/kernel \2PREEMPT_RT/p' | sort | paste -sd , | sed 's/,/, /g'
}

# granted_to PID: prints what the kernel granted to a process.
granted_to() {
  local thread fifo='not ' slack='not ' locked='not ' rt=PREEMPT_RT
  for thread in /proc/"$1"/task/*; do
    # The fields after the name begin with the third. Fields 40 and 41 are the priority and SCHED_FIFO (1).
    ! sed 's/.*) //' "$thread/stat" | awk '{exit !($38 == 80 && $39 == 1)}' || fifo=
    [ "$(cat "/proc/${thread##*/}/timerslack_ns")" -gt 1 ] || slack= # a FIFO thread has none
  done
  grep -q '^VmLck:.* 0 kB' "/proc/$1/status" || locked=
  [[ $(uname -v) == *PREEMPT_RT* ]] || rt="no $rt"
  printf '%s\n' "fifo_priority: ${fifo}granted" "lock_memory: ${locked}granted" \
    "timer_slack_ns: ${slack}granted" "kernel: $rt" | said
}

# agree NAME PID LOG WANT: the doctor, whose output is standard input, the log of the run PID and the kernel agree.
agree() {
  local doctor run kernel
  doctor=$(said) run=$(optibfm log info "$3" | said) kernel=$(granted_to "$2")
  ok "$1: doctor, run and kernel: $4" test "$doctor; $run; $kernel" = "$4; $4; $4"
}
doctor() { "$@" optibfm doctor -c "$config" --seconds 0 2>&1 || true; } # it has more findings
newest_log() { find /var/log/optibfm -name '*.mcap' -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d ' ' -f 2; }

# foreground POSTURE COMMAND...: a run in the folder /tmp/run, started by COMMAND, such as: sudo -u USER.
foreground() {
  local posture=$1
  shift
  rm -rf /tmp/run
  install -d -m 777 /tmp/run
  "$@" optibfm run -c "$config" --plain --operator none --set loop.posture="$posture" --set log.dir=/tmp/run \
    --set safety.socket=/tmp/run/socket --set run.state_dir= --set run.host_user= "${options[@]}" >/tmp/run/output 2>&1
}
options=()

# running: waits for the run of foreground and prints its process.
running() {
  within 60 grep -q 'run started' /tmp/run/output || { cat /tmp/run/output >&2; return 1; }
  { grep -slx optibfm /proc/[0-9]*/comm || true; } | cut -d / -f 3
}
ended() { kill "$(running)"; wait; rm -rf /tmp/run; }

# posture KERNEL: default or rt.
posture() {
  local all none some pid service rt='no PREEMPT_RT' realtime=0
  [ "$1" = default ] || { rt=PREEMPT_RT realtime=1; }
  service=(systemd-run --quiet --pipe --wait --collect -p User=optibfm -p LimitRTPRIO=95 -p LimitMEMLOCK=infinity)
  all="fifo_priority granted, kernel $rt, lock_memory granted, timer_slack_ns granted"
  none="fifo_priority not granted, kernel $rt, lock_memory not granted, timer_slack_ns granted"
  some="fifo_priority granted, kernel $rt, lock_memory not granted, timer_slack_ns granted"
  ok "kernel: $(uname -rv)" test "$(cat /sys/kernel/realtime 2>/dev/null || echo 0)" = "$realtime"
  agree "service, strict" "$(prop MainPID)" "$(newest_log)" "$all" < <(doctor "${service[@]}")
  agree "service's user (sudo)" "$(prop MainPID)" "$(newest_log)" "$all" < <(doctor sudo -u optibfm)
  pid=$(prop MainPID)
  ok "service: the host has no real-time rights" no_real_time "$(host_of "$pid")"
  systemctl stop optibfm

  foreground strict env &
  pid=$(running)
  agree "root, strict" "$pid" /tmp/run/*.mcap "$all" < <(doctor env)
  ended
  options=(--set "loop.cpus=[1]")
  foreground strict env &
  pid=$(running)
  ok "root, strict: loop.cpus" grep -q 'Cpus_allowed_list:.1$' /proc/"$pid"/task/*/status
  ended
  options=()
  foreground warn sudo -u bob &
  pid=$(running)
  agree "user without rights, warn" "$pid" /tmp/run/*.mcap "$none" < <(doctor sudo -u bob)
  ok "user without rights, warn: reported" grep 'warning: loop.fifo_priority: .*: not granted' /tmp/run/output
  ended
  ok "user without rights, strict: refused" refused foreground strict sudo -u bob
  ok "user without rights, strict: with a fix" grep 'fifo_priority: .*not granted.*LimitRTPRIO=80' /tmp/run/output

  limits LimitRTPRIO=0
  ok "service without LimitRTPRIO: does not start" refused restart
  ok "service without LimitRTPRIO: an error in the journal" journal 'fifo_priority: .*not granted' -p err
  limits LimitMEMLOCK=1M
  ok "service without LimitMEMLOCK: does not start" refused restart
  sed -i 's/posture: strict/posture: warn  /' "$config"
  ok "service without LimitMEMLOCK, warn: starts" restart
  agree "service without LimitMEMLOCK, warn" "$(prop MainPID)" "$(newest_log)" "$some" \
    < <(doctor "${service[@]/LimitMEMLOCK=infinity/LimitMEMLOCK=1M}")
  ok "service without LimitMEMLOCK, warn: a warning in the journal" journal 'lock_memory: .*not granted' -p 4..4
  sed -i 's/posture: warn  /posture: strict/' "$config"
  rm /run/systemd/system/optibfm.service.d/limits.conf
  systemctl daemon-reload
  ok "service with its limits: starts" restart
}
host_of() { cat "/proc/$1/task"/*/children | tr -d " "; } # of a control process
no_real_time() { grep -q 'Max realtime priority *0 *0' "/proc/$1/limits" && grep -q '^CapEff:.0*$' "/proc/$1/status"; }
limits() {
  mkdir -p /run/systemd/system/optibfm.service.d
  printf '[Service]\n%s\n' "$1" >/run/systemd/system/optibfm.service.d/limits.conf
  systemctl daemon-reload
}

# socket: who may arm.
socket() {
  local pid
  ok "socket: the service's user arms" sudo -u optibfm optibfm arm -c "$config"
  ok "socket: another user is refused" denied bob 'permission denied; .*safety.group'
  ok "socket: a user who will be a member" denied alice 'permission denied'
  optibfm disarm -c "$config" >/dev/null
  sed -i 's|^  socket: .*|&\n  group: optibfm|' "$config"
  usermod -aG optibfm alice
  ok "socket: with safety.group" restart
  ok "socket: a member arms" within 30 sudo -u alice optibfm arm -c "$config"
  ok "socket: a member disarms" sudo -u alice optibfm disarm -c "$config"
  ok "socket: another user is refused with safety.group" denied bob 'permission denied'
  sed -i 's|^  group: optibfm|  group: operators|' "$config"
  groupadd operators
  ok "socket: a group without the service's user is refused" refused restart
  ok "socket: with a reason" journal 'add the user of this process to the group' -p err
  sed -i '/^  group: operators/d' "$config"
  systemctl stop optibfm
  options=(--set run.host_user=bob)
  foreground warn env &
  pid=$(running)
  ok "socket: the host runs as another user" test "$(stat -c %U "/proc/$(host_of "$pid")")" = bob
  ok "socket: the host's user is refused" denied bob 'permission denied' --socket /tmp/run/socket
  ok "socket: root arms this run" within 30 optibfm arm --socket /tmp/run/socket
  ended
  ok "socket: starts again" restart
}
denied() { # USER REASON [ARGUMENT...]
  local out arguments=("${@:3}")
  [ $# -gt 2 ] || arguments=(-c "$config")
  if out=$(sudo -u "$1" optibfm arm "${arguments[@]}" 2>&1); then echo "accepted"; return 1; fi
  grep -- "$2" <<<"$out" || { echo "$out"; return 1; }
}

# two_users: the host has another user, and what it inherits from a compromise does not arm the robot. With the
# previous service's single user neither.
two_users() {
  local pid host
  pid=$(prop MainPID) host=$(host_of "$(prop MainPID)")
  ok "two users: the host's" test "$(stat -c %U:%G "/proc/$host")" = optibfm-host:optibfm-host
  ok "two users: the control process has no capability" capabilities_are_none "$pid"
  ok "two users: the host has none" capabilities_are_none "$host"
  ok "two users: the host has no group of the robot's buses" refused grep -qE "$(bus_groups)" <(grep Groups "/proc/$host/status")
  ok "two users: logs belong to the host" test -z "$(find /var/log/optibfm /var/lib/optibfm -user optibfm)"
  ok "two users: members of optibfm read the logs" sudo -u optibfm cat "$(newest_log)"
  install -m 755 /root/optibfm.test /usr/local/lib/optibfm.test
  attacked "as another user" --set run.host_user=optibfm-host
  attacked "as the same user" --set run.host_user= --set log.enabled=false --set run.state_dir=
  rm /run/systemd/system/optibfm.service.d/attack.conf
  systemctl daemon-reload
  ok "two users: the service starts again" restart
}
capabilities_are_none() { ! grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb):' "/proc/$1/status" | grep -v ':.0*$'; }
bus_groups() { for group in dialout i2c optibfm; do getent group "$group" | cut -d : -f 3; done | sed 's/.*/\\b&\\b/' | paste -sd '|'; }

# attacked NAME ARGUMENT...: the host process of the service attacks the control process (attack_process_test.go).
attacked() {
  local name=$1 since
  shift
  mkdir -p /run/systemd/system/optibfm.service.d
  cat >/run/systemd/system/optibfm.service.d/attack.conf <<EOF
[Service]
ExecStart=
ExecStart=/usr/local/lib/optibfm.test run --config $config --plain $*
Environment=OPTIBFM_TEST_PROGRAM=1 OPTIBFM_TEST_SPOIL_WHEN=/nonexistent
Environment="OPTIBFM_TEST_SPOIL=host attacks the control process"
EOF
  systemctl daemon-reload
  since=$(date +%s)
  ok "attack $name: starts" restart
  ok "attack $name: ends" within 60 journal 'the attack is over' --since "@$since"
  ok "attack $name: fails" refused journal 'attack, .*: succeeded' --since "@$since"
  ok "attack $name: the host is not answered" refused journal 'the host received: .*"state":"armed"' --since "@$since"
  ok "attack $name: the robot is disarmed" is_disarmed
  ok "attack $name: root arms" arms
}

# priorities: of the lines in the journal.
priorities() {
  local host
  ok "journal: routine lines are information" journal 'run started' -p info..info
  ok "journal: routine lines are not warnings" refused journal 'run started\|running\|disarmed;' -p warning
  ok "journal: shows the console's address" journal 'http.*#'
  ok "journal: no colours, no blocks" refused journal $'\e\|█\|▀\|blob data'
  host=$(host_of "$(prop MainPID)")
  kill -STOP "$host"
  ok "a silent host: the service restarts" within 90 restarted
  ok "a silent host: an error" journal 'host failed' -p err..err
}

sandbox() {
  local pid
  pid=$(prop MainPID)
  ok "user" test "$(stat -c %U:%G "/proc/$pid")" = optibfm:optibfm
  for group in dialout gpio i2c input; do
    ok "group $group" grep -qw "$(getent group "$group" | cut -d : -f 3)" <(grep Groups "/proc/$pid/status")
  done
  ok "systemd-analyze security" systemd-analyze security --threshold=30 --no-pager optibfm.service
  for folder in /var/lib/optibfm /var/log/optibfm /run/optibfm; do
    ok "writes $folder" inside sh -c "touch $folder/x && rm $folder/x"
  done
  for folder in /etc/optibfm /usr /var/cache; do ok "cannot write $folder" refused inside touch "$folder/x"; done
  ok "cannot see /root" refused inside ls "/root/optibfm_0.0.1_$arch.deb"
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
  arms
  ok "operator's stop" optibfm stop -c "$config"
  ok "operator's stop: final" within 20 is ActiveState inactive
  ok "operator's stop: success" is Result success
  echo "unknown: 1" >>"$config"
  ok "invalid configuration: does not start" refused systemctl start optibfm
  ok "invalid configuration: ends after five starts" within 60 is ActiveState failed
  ok "invalid configuration: reported" journal 'unknown key unknown' -p err
}

# upgrade starts with a service that systemd restarts again and again.
upgrade() {
  systemctl reset-failed optibfm
  systemctl start optibfm 2>/dev/null || true
  ok "removal between two restarts" dpkg -r optibfm
  ok "removal: nothing failed" test -z "$(systemctl list-units --failed --no-legend)"
  sed -i '/^unknown/d' "$config"
  dpkg -i "/root/optibfm_0.0.1_$arch.deb" >/dev/null 2>&1
  ok "starts after the removal" systemctl start optibfm
  arms
  ok "upgrade" dpkg -i "/root/optibfm_0.0.2_$arch.deb"
  ok "upgrade: version" package_is 0.0.2
  ok "upgrade: runs again, disarmed" within 30 is_disarmed
  ok "upgrade: keeps the configuration" grep 'arm: operator' "$config"
  dpkg-deb -R "/root/optibfm_0.0.2_$arch.deb" /tmp/refuses
  printf '#!/bin/sh\nexit 1\n' | install -m 755 /dev/stdin /tmp/refuses/DEBIAN/preinst
  dpkg-deb -b -Znone --root-owner-group /tmp/refuses /tmp/refuses.deb >/dev/null
  ok "upgrade that fails" refused dpkg -i /tmp/refuses.deb
  ok "upgrade that fails: the previous version runs again" within 30 is_disarmed
}

flashed() { # VERSION
  ok "flash: $1 is installed" package_is "$1"
  ok "flash: $1 runs, disarmed" is_disarmed
}
before_reboot() {
  ok "enable" systemctl enable optibfm
  ok "a belief is saved" test -s /var/lib/optibfm/belief/last.task
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
  ok "purge: keeps belief and logs" test -s /var/lib/optibfm/belief/last.task -a -n "$(ls /var/log/optibfm)"
}

"$@"
