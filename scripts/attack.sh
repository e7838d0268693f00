#!/usr/bin/env bash
# Attacks the program in its tests and prints a table: scripts/attack.sh [--kills N] [--logs N]
#   --kills N  runs that are killed at a random moment; default: 80
#   --logs N   damaged logs; default: 1000
# It takes ten minutes on two cores. The tests of ARCHITECTURE.md have other attacks.
set -euo pipefail
cd "$(dirname "$0")/.."

help() { sed -n '2,/^set/p' "scripts/${0##*/}" | sed -n 's/^# \{0,1\}//p'; }
usage() { help >&2; exit 2; }
kills=80 logs=1000
while [ $# -gt 0 ]; do
  case $1 in -h | --help) help; exit ;; esac
  [ $# -ge 2 ] || usage
  case $1 in
  --kills) kills=$2 ;;
  --logs) logs=$2 ;;
  *) usage ;;
  esac
  shift 2
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# attack TITLE PACKAGE TEST: runs a test and prints a row, with the last line that it logged.
attack() {
  local begun=$SECONDS result=held found
  OPTIBFM_KILLS=$kills OPTIBFM_DAMAGES=$logs go test -count=1 -timeout 60m -v -run "$3" "$2" >"$work/log" 2>&1 || result=FAILED
  found=$(sed -n 's/^ *[a-z_]*_test\.go:[0-9]*: //p' "$work/log" | tail -n 1)
  grep -q '^--- PASS' "$work/log" || result=FAILED
  printf '%-34s %-7s %5s s  %s\n' "$1" "$result" "$((SECONDS - begun))" "$found"
  [ "$result" = held ] || { failed=1; grep -vE '^=== ' "$work/log" | tail -n 20; }
}

attack "kill -9 of both processes" ./internal/cli 'TestRun_KeepsAcknowledgedLabelsAfterAKill$'
attack "kill -9 of the log's writer" ./flightlog 'TestWriter_KillLosesNoAcknowledgedLabel$'
attack "damaged logs" ./flightlog 'TestReader_FindsEveryDamage$'
attack "faults of a bridge's server" ./internal/control 'TestRun_EveryFaultOfABridgeServerHaltsTheRobot$'
attack "logs that are removed or truncated" ./internal/cli 'TestRun_RefusesLabelsForALostLog$'
attack "bombs" ./flightlog 'TestReader_RefusesBombsBeforeItAllocates$'
attack "hostile files and names" ./internal/cli 'TestCommands_'
attack "names of packages" ./packaging 'TestFlash_TakesAnyNameOfAPackage$'
exit $failed
