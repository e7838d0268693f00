package mit_test

import (
	"errors"
	"os"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"optibfm/hal"
	"optibfm/hal/mit"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func TestDevice_ArmsAfterKernelInterfaceWasDown(t *testing.T) {
	if os.Getenv("OPTIBFM_VM") == "" {
		t.Skip("not in the machine of scripts/vm")
	}
	inBoth(t, func(t *testing.T, c mit.Config) {
		motors := start(t, &c)
		d := open(t, c)
		link, err := netlink.LinkByName(c.Interface)
		fatal.If(t, err)
		for _, busOff := range []bool{false, true} {
			fatal.If(t, d.Arm())
			if busOff {
				motors.Bus.Report(unix.CAN_ERR_BUSOFF)
				var err error
				for err == nil {
					_, err = d.Read(make([]float64, 12))
				}
				errtest.Is(t, err, hal.ErrBus)
			}
			fatal.If(t, errors.Join(netlink.LinkSetDown(link), netlink.LinkSetUp(link)))
			errtest.Nil(t, d.Arm(), "after bus-off ", busOff)
		}
	})
}
