// Package halt brings a robot to its failsafe output after its controller died.
//
// `optibfm halt` calls Robot. The service manager runs that command after a control
// process was killed, so it must halt as much of a broken robot as possible:
//
//   - It opens and halts each device with outputs separately. A device that is
//     broken, missing or slow does not keep the others from being halted.
//   - Devices on different lines and buses are halted concurrently, devices on one
//     line one after another.
//   - Servos, CAN motors and boards are halted without a complete start of their
//     driver. Those that do not answer receive the commands anyway.
//   - A panic of a driver is an error of one device.
//
// Robot refuses while a control process holds the robot, which it learns from the
// lock of safety.socket. It is not an emergency stop.
package halt
