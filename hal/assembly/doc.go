// Package assembly opens the devices of a composite robot, and the buses and lines that they share,
// from the configuration section robot.composite. Package hal/composite makes one robot of them.
//
// [AddDevice] registers the driver of a device. The driver's section is a [DeviceConfig].
package assembly
