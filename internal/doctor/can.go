package doctor

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// link is a network interface as the kernel describes it (rtnetlink(7)). The
// last fields are those of a CAN controller, linux/can/netlink.h.
type link struct {
	kind      string // can, vcan, ...
	hardware  uint16 // ARPHRD_*
	up        bool
	queue     uint32 // frames
	bitrate   uint32
	state     uint32 // CAN_STATE_*
	hasState  bool
	restartMS uint32
}

// The attributes of linux/if_link.h and linux/can/netlink.h that are read.
const (
	canBitTiming = 1
	canState     = 4
	canRestartMS = 6
	canBusOff    = 3 // CAN_STATE_BUS_OFF; 2 is error-passive
	canPassive   = 2
	canStopped   = 4
)

// parseLinks reads the kernel's answer to RTM_GETLINK.
func parseLinks(answer []byte) (map[string]link, error) {
	messages, err := syscall.ParseNetlinkMessage(answer)
	if err != nil {
		return nil, fmt.Errorf("rtnetlink: %w", err)
	}
	links := map[string]link{}
	for _, m := range messages {
		if m.Header.Type != syscall.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg {
			continue
		}
		l := link{hardware: binary.NativeEndian.Uint16(m.Data[2:]), up: binary.NativeEndian.Uint32(m.Data[8:])&unix.IFF_UP != 0}
		name := ""
		for kind, value := range attributes(m.Data[unix.SizeofIfInfomsg:]) {
			switch kind {
			case unix.IFLA_IFNAME:
				name = unix.ByteSliceToString(value)
			case unix.IFLA_TXQLEN:
				l.queue = number32(value)
			case unix.IFLA_LINKINFO:
				l.readInfo(value)
			}
		}
		links[name] = l
	}
	return links, nil
}

func (l *link) readInfo(info []byte) {
	for kind, value := range attributes(info) {
		switch kind {
		case unix.IFLA_INFO_KIND:
			l.kind = unix.ByteSliceToString(value)
		case unix.IFLA_INFO_DATA:
			l.readCAN(value)
		}
	}
}

func (l *link) readCAN(data []byte) {
	if l.kind != "can" {
		return
	}
	for kind, value := range attributes(data) {
		switch kind {
		case canBitTiming: // its first word
			l.bitrate = number32(value)
		case canState:
			l.state, l.hasState = number32(value), true
		case canRestartMS:
			l.restartMS = number32(value)
		}
	}
}

// attributes goes through netlink attributes: length, type, value, each padded
// to four bytes. It ends at the first that does not fit.
func attributes(b []byte) func(yield func(kind uint16, value []byte) bool) {
	const head, flags = 4, 0xC000 // nested, network byte order
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= head {
			size := int(binary.NativeEndian.Uint16(b))
			if size < head || size > len(b) {
				return
			}
			if !yield(binary.NativeEndian.Uint16(b[2:])&^flags, b[head:size]) {
				return
			}
			b = b[min((size+3)&^3, len(b)):]
		}
	}
}

func number32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b)
}

// interfaces looks at CAN interfaces. Nothing is sent.
func (d *doctor) interfaces(_ context.Context, list []connection) (found []finding) {
	answer, err := d.links()
	var links map[string]link
	if err == nil {
		links, err = parseLinks(bytes.Clone(answer))
	}
	names, of := byName(list)
	for _, name := range names {
		if socket, simulated := strings.CutPrefix(name, "unix:"); simulated {
			found = append(found, skipped("a simulator at %s: not called", socket).about(name))
			continue
		}
		if err != nil {
			found = append(found, doubtful("look by hand: `ip -details link show`", "the kernel does not tell: %v", err).about(name))
			continue
		}
		l, there := links[name]
		found = append(found, judgeCAN(name, l, there).about(name))
		if few := l.queue > 0 && int(l.queue) < 2*len(of[name]); there && few {
			found = append(found, doubtful(fmt.Sprintf("`sudo ip link set %s txqueuelen 64`", name), "its queue has %d frames", l.queue).about(name))
		}
	}
	return found
}

func judgeCAN(name string, l link, there bool) finding {
	up := fmt.Sprintf("`sudo ip link set %s type can bitrate 1000000 restart-ms 100`, `sudo ip link set %s txqueuelen 64 up`, at every boot", name, name)
	switch {
	case !there:
		return broken("plug the adapter in, or load the controller's driver; see `ip link show type can`", "there is no interface %s", name)
	case l.hardware != unix.ARPHRD_CAN:
		return broken("name a CAN interface: `ip link show type can`", "%s is no CAN interface", name)
	case l.kind == "vcan" && l.up:
		return fine("%s: virtual, up", name)
	case !l.up:
		return broken(up, "%s is down", name)
	case l.kind == "can" && l.bitrate == 0:
		return broken(up, "%s has no bit rate", name)
	case l.hasState && (l.state == canBusOff || l.state == canStopped):
		return broken("check wiring, termination (two times 120 Ω) and bit rate; then "+fmt.Sprintf("`sudo ip link set %s down`, and up", name), "%s has left the bus (bus-off), %d bit/s", name, l.bitrate)
	case l.hasState && l.state == canPassive:
		return doubtful("check wiring, termination (two times 120 Ω) and bit rate: nobody acknowledges", "%s: up, %d bit/s, error-passive", name, l.bitrate)
	case l.kind == "can" && l.restartMS == 0:
		return doubtful(fmt.Sprintf("`sudo ip link set %s type can restart-ms 100`, while it is down", name), "%s: up, %d bit/s, but it does not come back after bus-off", name, l.bitrate)
	}
	return fine("%s: up, %d bit/s, restart after %d ms", name, l.bitrate, l.restartMS)
}
