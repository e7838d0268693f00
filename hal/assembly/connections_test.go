package assembly

import (
	"testing"

	"optibfm/hal/serial"
	"optibfm/internal/registry"
)

func TestConnections_FindsThePlaceOfADevice(t *testing.T) {
	for _, c := range []struct {
		section any
		want    registry.Connection
	}{
		{struct {
			Port serial.Config `yaml:"port"`
		}{serial.Config{Path: "/dev/ttyUSB0"}}, registry.Connection{
			Device: "it", Kind: registry.OnSerial, Name: "/dev/ttyUSB0"}},
		{struct {
			Interface string `yaml:"interface"`
		}{"can0"}, registry.Connection{Device: "it", Kind: registry.OnCAN, Name: "can0"}},
		{struct {
			Line string `yaml:"output_enable"`
		}{"GPIO17"}, registry.Connection{Device: "it", Kind: registry.OnLine, Name: "GPIO17"}},
	} {
		if got := connections("it", c.section); len(got) != 1 || got[0] != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
	if found := connections("none", nil); found != nil {
		t.Errorf("%+v", found)
	}
}
