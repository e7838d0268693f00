package can

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// ErrNoInterface is the error of LinkState for an interface that does not exist.
var ErrNoInterface = errors.New("no such interface")

// Link is the state of a network interface as the kernel reports it.
type Link struct {
	CAN           bool // a CAN interface, real or virtual
	Virtual       bool // vcan: no controller, no bit rate
	Up            bool
	QueueLength   int        // of the transmit queue, in frames
	Bitrate       uint32     // bit/s; 0: not set, or not reported
	Controller    Controller // meaningful where Bitrate is not 0
	RestartMillis uint32     // the controller restarts this long after bus-off; 0: never
}

// Controller is the state of a CAN controller, enum can_state of linux/can/netlink.h.
type Controller uint32

// The states of a controller.
const (
	ErrorActive  Controller = iota // fewer than 96 errors
	ErrorWarning                   // fewer than 128
	ErrorPassive                   // fewer than 256: it cannot signal errors to other nodes
	BusOff                         // 256 or more: it has left the bus
	Stopped
	Sleeping
)

const virtualKind = "vcan"

// LinkState reads the state of an interface by rtnetlink. The error wraps ErrNoInterface, or it is
// the kernel's. It allocates and may block: it is for checks at start, not for a tick.
func LinkState(name string) (Link, error) {
	link, err := netlink.LinkByName(name)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return Link{}, fmt.Errorf("can: %s: %w; list them with: ip link show type can", name, ErrNoInterface)
	}
	if err != nil {
		return Link{}, fmt.Errorf("can: %s: rtnetlink: %w", name, err)
	}
	return linkState(link), nil
}

func linkState(link netlink.Link) Link {
	a := link.Attrs()
	l := Link{
		Virtual:     link.Type() == virtualKind,
		Up:          a.Flags&net.FlagUp != 0,
		QueueLength: a.TxQLen,
	}
	l.CAN = l.Virtual || a.EncapType == "can"
	if c, ok := link.(*netlink.Can); ok {
		l.CAN, l.Bitrate, l.Controller, l.RestartMillis = true, c.BitRate, Controller(c.State), c.RestartMs
	}
	return l
}
