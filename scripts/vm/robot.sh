#!/usr/bin/env bash
# Runs the Debian package for ten minutes on a robot whose devices are simulated behind the kernel's drivers:
# motors on CAN, an IMU on I2C, a gamepad, buttons on GPIO, a camera. Injects faults, checks the reactions of
# docs/hazards.md, and replays the logs. In QEMU with TCG, amd64.
#
#   scripts/vm/robot.sh [--keep-cache DIR]
#
# packaging/robot_test.go has the devices, packaging/robot_faults_test.go the faults.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/vm/tools.sh
. scripts/vm/tools.sh
# shellcheck source=scripts/vm/machine.sh
. scripts/vm/machine.sh

openMachine "$@"
scripts/package.sh v0.0.1 "$arch" "$work" >/dev/null
CGO_ENABLED=0 go test -ldflags='-s -w' -c -o "$work/robot.test" ./packaging
boot
waitForBoot none
scp -qr "$work/optibfm_0.0.1_$arch.deb" "$work/robot.test" packaging/testdata robot:/root/
# The logs are on a separate disk, which the test fills.
ssh robot 'set -e
for module in vcan can-raw uinput uhid hid-cp2112 i2c-dev loop vivid; do modprobe $module; done
truncate -s 300M logs.img; mke2fs -q -t ext4 logs.img
mkdir -p /var/log/optibfm; mount -o loop logs.img /var/log/optibfm
apt-get install -y -q ./optibfm_0.0.1_*.deb >/dev/null 2>&1'
# The devices answer before other programs run. A real-time priority would block a program in Go.
status=0
ssh robot OPTIBFM_VM=robot nice -n -20 ./robot.test -test.v -test.run TestRobot -test.timeout 40m || status=$?
scp -q 'robot:/var/log/optibfm/*-rover.mcap' "$work/"
for log in "$work"/*.mcap; do
  go run ./cmd/optibfm replay "$log" || status=1
done
[ "$status" = 0 ] || { ssh robot journalctl -u optibfm --no-pager -n 100; fail "status $status"; }
echo "passed at $SECONDS s"
