// Package calibration calibrates a BNO055 orientation sensor of a robot.
//
// The chip calibrates itself while a person moves it and loses the result with its
// power. `optibfm calibrate` calls Run, which shows the chip's progress and writes the
// finished calibration to a file. The key bno055.calibration_file then loads it at
// each start. Run opens no other device of the robot.
package calibration
