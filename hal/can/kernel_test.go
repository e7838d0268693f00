package can_test

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"optibfm/hal"
	"optibfm/hal/can"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func needKernel(t *testing.T) {
	t.Helper()
	if os.Getenv("OPTIBFM_VM") == "" {
		t.Skip("not in the machine of scripts/vm")
	}
}

func openSocket(t *testing.T, name string, only ...uint32) *can.Socket {
	t.Helper()
	s, err := can.Open(name, only...)
	fatal.If(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func setUp(t *testing.T, name string, up bool) {
	t.Helper()
	link, err := netlink.LinkByName(name)
	fatal.If(t, err)
	set := netlink.LinkSetDown
	if up {
		set = netlink.LinkSetUp
	}
	fatal.If(t, set(link))
}

func TestSocket_KernelFiltersIDs(t *testing.T) {
	needKernel(t)
	a, bus := connect(t)
	b, one := openSocket(t, bus.Address), openSocket(t, bus.Address, 0x7FF)
	for _, f := range frames {
		fatal.If(t, a.Send(&f, soon()))
		var back can.Frame
		if err := b.Receive(&back, soon()); err != nil || back != f {
			t.Errorf("%+v came as %+v, %v", f, back, err)
		}
		if err := b.Receive(&back, soon()); err != nil || back != f {
			t.Errorf("the echo of %+v came as %+v, %v", f, back, err)
		}
	}
	var f can.Frame
	for range 2 {
		if err := one.Receive(&f, soon()); err != nil || f.ID != 0x7FF {
			t.Errorf("%+v, %v", f, err)
		}
	}
	if err := one.Receive(&f, 0); !errors.Is(err, hal.ErrTimeout) {
		t.Errorf("passed the filter: %+v, %v", f, err)
	}
}

func TestSocket_WorksAfterInterfaceWasDown(t *testing.T) {
	needKernel(t)
	for _, before := range []string{"traffic", "bus-off", "bus-off that was not read"} {
		s, bus := connect(t)
		var f can.Frame
		if before != "traffic" {
			bus.Report(unix.CAN_ERR_BUSOFF)
		}
		if before == "bus-off" {
			if err := s.Receive(&f, soon()); !errors.Is(err, hal.ErrBus) || !s.BusOff() {
				t.Fatal(err)
			}
		}
		setUp(t, bus.Address, false)
		errtest.Is(t, s.Receive(&f, soon()), hal.ErrBus, "receive")
		if err := s.Send(&frames[0], soon()); !errors.Is(err, hal.ErrBus) || s.Lost() {
			t.Errorf("send: %v, lost %v", err, s.Lost())
		}
		setUp(t, bus.Address, true)
		if err := s.Send(&frames[0], soon()); err != nil || s.BusOff() {
			t.Errorf("up again, after %s: %v", before, err)
		}
		if err := s.Receive(&f, soon()); err != nil || f != frames[0] { // the echo, and no frame from before
			t.Errorf("after %s: %+v, %v", before, f, err)
		}
		if l, err := can.LinkState(bus.Address); err != nil || !l.CAN || !l.Virtual || !l.Up {
			t.Errorf("%+v, %v", l, err)
		}
	}
}

// setBitrate stops an interface and sets its bit rate and restart-ms.
func setBitrate(t *testing.T, name string, bitrate, restartMillis uint32) {
	t.Helper()
	setUp(t, name, false)
	link, err := netlink.LinkByName(name)
	fatal.If(t, err)
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(link.Attrs().Index)
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, []byte("can"))
	data := info.AddRtAttr(nl.IFLA_INFO_DATA, nil)
	var timing [32]byte // struct can_bittiming
	binary.NativeEndian.PutUint32(timing[:], bitrate)
	data.AddRtAttr(nl.IFLA_CAN_BITTIMING, timing[:])
	data.AddRtAttr(nl.IFLA_CAN_RESTART_MS, binary.NativeEndian.AppendUint32(nil, restartMillis))
	request := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	request.AddData(message)
	request.AddData(info)
	fatal.If(t, errtest.Of(request.Execute(unix.NETLINK_ROUTE, 0)))
}

// The machine has two Kvaser PCI controllers on one bus.
func TestLinkState_OfController(t *testing.T) {
	needKernel(t)
	for _, name := range []string{"can0", "can1"} {
		if l, err := can.LinkState(name); err != nil || l.Up || !l.CAN || l.Virtual || l.Bitrate != 0 {
			t.Errorf("without a bit rate: %+v, %v", l, err)
		}
		if s, err := can.Open(name); err != nil {
			t.Error(err)
		} else {
			errtest.Is(t, s.Send(&frames[0], soon()), hal.ErrBus, "send while it is down")
			_ = s.Close()
		}
		setBitrate(t, name, 1_000_000, 100)
		if l, err := can.LinkState(name); err != nil || l.Up || l.Controller != can.Stopped {
			t.Errorf("down: %+v, %v", l, err)
		}
		setUp(t, name, true)
		l, err := can.LinkState(name)
		want := can.Link{CAN: true, Up: true, QueueLength: l.QueueLength, Bitrate: 1_000_000, RestartMillis: 100}
		if err != nil || l != want || l.QueueLength == 0 {
			t.Errorf("up: %+v, %v", l, err)
		}
	}
	a, b := openSocket(t, "can0"), openSocket(t, "can1")
	for _, f := range frames {
		var there can.Frame
		fatal.If(t, a.Send(&f, soon()))
		if err := b.Receive(&there, soon()); err != nil || there != f {
			t.Errorf("%+v came as %+v, %v", f, there, err)
		}
	}
	setUp(t, "can0", false)
	var f can.Frame
	errtest.Is(t, a.Receive(&f, soon()), hal.ErrBus, "receive while it is down")
}
