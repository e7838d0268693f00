#!/bin/sh
# Records transitions under random actions: examples/puck/record.sh [TRANSITIONS]
# A real robot: delete --set and add --amplitude 0.3. At 20 Hz an hour is 72000 transitions.
set -eu
PATH=$PATH:. # for a program built in the current folder
exec optibfm-lab collect --config examples/puck/robot.yaml --set robot.bridge.mode=lockstep \
  --transitions "${1:-200000}" --out examples/puck/transitions.npz
