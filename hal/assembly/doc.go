// Package assembly opens a composite robot from its configuration: the section robot.composite, the
// drivers of its devices, and the buses and lines that devices share. Package hal/composite forms
// the robot of the open devices.
//
// A driver of a device registers itself by [AddDevice]; its section is a [DeviceConfig].
package assembly
