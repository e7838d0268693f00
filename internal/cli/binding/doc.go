// Package binding binds the buttons of a label device.
//
// `optibfm label bind` calls Run. It asks for one press per role, identifies the input
// device by the first press, and prints the section operator.evdev of a configuration.
// Package evdev reads the devices; this package prints prompts and YAML.
package binding
