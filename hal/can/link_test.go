package can

import (
	"net"
	"testing"

	"github.com/vishvananda/netlink"

	"optibfm/internal/errtest"
)

func TestLinkState_TranslatesKernelAttributes(t *testing.T) {
	up := netlink.LinkAttrs{Flags: net.FlagUp, TxQLen: 64, EncapType: "can"}
	for name, test := range map[string]struct {
		link netlink.Link
		want Link
	}{
		"running": {
			&netlink.Can{LinkAttrs: up, BitRate: 1_000_000, RestartMs: 100},
			Link{CAN: true, Up: true, QueueLength: 64, Bitrate: 1_000_000, RestartMillis: 100},
		},
		"bus-off": {
			&netlink.Can{LinkAttrs: up, BitRate: 500_000, State: 3},
			Link{CAN: true, Up: true, QueueLength: 64, Bitrate: 500_000, Controller: BusOff},
		},
		"down": {&netlink.Can{}, Link{CAN: true}},
		"virtual": {
			&netlink.GenericLink{LinkAttrs: up, LinkType: "vcan"},
			Link{CAN: true, Virtual: true, Up: true, QueueLength: 64},
		},
		"no kind":  {&netlink.Device{LinkAttrs: up}, Link{CAN: true, Up: true, QueueLength: 64}},
		"ethernet": {&netlink.Device{LinkAttrs: netlink.LinkAttrs{EncapType: "ether"}}, Link{}},
	} {
		if got := linkState(test.link); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestLinkState_ReadsLoopback(t *testing.T) {
	l, err := LinkState("lo")
	if err != nil {
		t.Skip("no rtnetlink in this environment: ", err)
	}
	if l.CAN || l.Bitrate != 0 {
		t.Errorf("%+v", l)
	}
	errtest.Is(t, errtest.Of(LinkState("nonexistent0")), ErrNoInterface)
}
