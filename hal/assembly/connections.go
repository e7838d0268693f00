package assembly

import (
	"fmt"
	"reflect"
	"strings"

	"optibfm/hal/serial"
	"optibfm/internal/registry"
)

// OpenI2C implements registry.Wired.
func (c Config) OpenI2C(path string) (registry.I2C, error) {
	return LocalHardware.OpenI2C(path, c.I2CTimeout())
}

// Connections implements registry.Wired.
func (c Config) Connections() (all []registry.Connection) {
	for _, d := range c.Devices {
		all = append(all, connections(d.Name, d.Chosen())...)
	}
	return all
}

// connections finds the connections in the section of a device's driver: a serial port, or the keys
// bus, interface and output_enable, which have the same meaning in every driver.
func connections(device string, section any) (list []registry.Connection) {
	v := reflect.ValueOf(section)
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		switch value := v.Field(i).Interface().(type) {
		case serial.Config:
			list = append(list, registry.Connection{Device: device, Kind: registry.OnSerial, Name: value.Path})
		case string:
			c := registry.Connection{Device: device, Name: value}
			switch {
			case key == "bus":
				c.Kind, c.Address = registry.OnI2C, addressOf(section, value)
			case key == "interface":
				c.Kind = registry.OnCAN
			case key == "output_enable" && value != "":
				c.Kind = registry.OnLine
			default:
				continue
			}
			list = append(list, c)
		}
	}
	return list
}

// addressOf returns the address of an I²C device, or its driver's default; 0 if there is none.
func addressOf(section any, bus string) (address uint16) {
	if p, ok := section.(interface{ Place() string }); ok {
		_, _ = fmt.Sscanf(strings.TrimPrefix(p.Place(), bus), ", address 0x%x", &address)
	}
	return address
}
